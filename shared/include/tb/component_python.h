/* tb/component_python.h -- imports another component's table; the Python side of tb/component.h.
 *
 * Call it from a bound function (`_core._connect()`), not from the module's body: nanobind hides what a body raises.
 */
#ifndef TB_COMPONENT_PYTHON_H
#define TB_COMPONENT_PYTHON_H

#include <Python.h>

#include "tb/component.h"

/* Returns 1, or 0 with ImportError set. module: "tb_device._core". */
static inline int tb_import(const char *consumer, const char *component, const char *module, uint16_t major,
                            uint16_t minor, void *table, uint32_t table_size) {
  PyObject *found = PyImport_ImportModule(module);
  if (!found) {
    if (!PyErr_ExceptionMatches(PyExc_ModuleNotFoundError)) return 0;
    PyErr_Clear();
    PyErr_Format(PyExc_ImportError, "%s needs %s, which is not installed: pip install %s", consumer, component,
                 component);
    return 0;
  }
  PyObject *capsule = PyObject_GetAttrString(found, TB_EXPORT_ATTRIBUTE);
  Py_DECREF(found);
  const tb_export *record =
      capsule ? (const tb_export *)PyCapsule_GetPointer(capsule, TB_EXPORT_CAPSULE) : (const tb_export *)NULL;
  char error[512];
  int done = 0;
  if (!record) {
    PyErr_Clear();
    PyErr_Format(PyExc_ImportError,
                 "%s: the installed %s has no function table that this version knows. Install "
                 "matching versions: pip install -U %s %s",
                 consumer, component, consumer, component);
  } else {
    done = tb_export_read(record, consumer, component, major, minor, table, table_size, error, sizeof error);
    if (!done) PyErr_SetString(PyExc_ImportError, error);
  }
  Py_XDECREF(capsule); /* the record is static in its module, which is never unloaded */
  return done;
}

#endif
