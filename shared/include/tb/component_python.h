/* tb/component_python.h -- imports another component's table; the Python side of tb/component.h.
 *
 * To be called from a bound function (`_core._connect()`), not from the module's body, whose exceptions nanobind hides.
 */
#ifndef TB_COMPONENT_PYTHON_H
#define TB_COMPONENT_PYTHON_H

#include <Python.h>

#include "tb/component.h"

/* Reports to tb-device's doctor the slot list that the consumer was compiled with. Other exporters and older versions
 * of tb-device have no such function, and nothing happens. */
static inline void tb_note_importer(PyObject *module, const char *consumer) {
  char hash[17];
  snprintf(hash, sizeof hash, "%016llx", (unsigned long long)tb_slots_hash());
  Py_XDECREF(PyObject_CallMethod(module, "_note_importer", "ss", consumer, hash));
  PyErr_Clear();
}

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
  if (done) tb_note_importer(found, consumer);
  Py_DECREF(found);
  Py_XDECREF(capsule); /* the record is static in its module, which is never unloaded */
  return done;
}

#endif
