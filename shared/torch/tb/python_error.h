// Passes a Python exception through PyTorch's C++ code.
#pragma once
#include <Python.h>

#include <string>
#include <vector>

#include <c10/util/Exception.h>

// As torch/csrc/utils.h declares it.
std::vector<int64_t> THPUtils_unpackLongs(PyObject *list);

namespace tb {

// The text of an exception, or `otherwise` if it has none. Both functions of this file need the GIL.
inline std::string text_of_python_error(PyObject *value, const char *otherwise) {
  std::string text = otherwise;
  if (PyObject *shown = value ? PyObject_Str(value) : nullptr) {
    if (const char *utf8 = PyUnicode_AsUTF8AndSize(shown, nullptr)) text = utf8;
    Py_DECREF(shown);
  }
  PyErr_Clear();
  return text;
}

// Throws the exception that Python has set on this thread as PyTorch's python_error, which is that exception again when
// PyTorch returns to Python. The header of python_error does not compile under Py_LIMITED_API. A function of PyTorch
// throws it here: one that reads numbers takes -1, beside which an exception is set, for the failure of Python's
// function.
[[noreturn]] inline void throw_python_error() {
  PyObject *type = nullptr, *value = nullptr, *traceback = nullptr;
  PyErr_Fetch(&type, &value, &traceback);
  PyErr_NormalizeException(&type, &value, &traceback);
  const std::string text = text_of_python_error(value, "a Python exception");
  PyObject *failed = Py_BuildValue("[i]", -1);
  PyErr_Restore(type, value, traceback);
  if (failed) THPUtils_unpackLongs(failed);
  PyErr_Clear();
  throw c10::Error({__func__, __FILE__, static_cast<uint32_t>(__LINE__)}, text);
}

} // namespace tb
