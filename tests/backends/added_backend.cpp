// A package's own set of operators (tb/operator_backend.h), in a Python extension. Its variables say what it does:
// ADDED_FAULT makes it wrong, ADDED_BEFORE is its place, ADDED_SERVES=0 makes it serve no driver.
#define Py_LIMITED_API 0x030b0000
#include <Python.h>

#include <ATen/core/Tensor.h>
#include <ATen/ops/mul.h>
#include <torch/library.h>
#include <torch/version.h>

#include <cstdlib>
#include <string>

#include "tb/operator_backend.h"

namespace {

int calls = 0, copies = 0;
std::string found; // what install saw

// Results that no other kernel gives.
at::Tensor erfinv(const at::Tensor &x) { return ++calls, at::mul(x, 1000); }
at::Tensor gelu(const at::Tensor &x, std::string_view) { return ++calls, at::mul(x, 2000); }

int32_t serves(const tb_driver_api *driver, tb_driver *self) {
  tb_driver_info info{};
  info.struct_size = sizeof info;
  if (driver->get_info(self, &info) != TB_OK) return 0;
  found = info.name;
  const char *asked = std::getenv("ADDED_SERVES");
  return !asked || std::string(asked) != "0";
}

void install(const tb_operator_libraries *libraries) {
  auto &aten = *static_cast<torch::Library *>(libraries->aten);
  for (const char *name : {"aten::erfinv", "aten::gelu", "aten::gelu.out", "aten::no_such_operator"})
    found += libraries->is_free(name) ? " free" : " taken";
  aten.impl("erfinv", &erfinv);
  aten.impl("gelu", &gelu);
  libraries->set_element_copy([](const void *from, const void *to) -> int32_t {
    copies += static_cast<const at::Tensor *>(from)->sizes() == static_cast<const at::Tensor *>(to)->sizes();
    return 0;
  });
}

tb_operator_backend table{sizeof table,
                          TORCH_VERSION_MAJOR,
                          TORCH_VERSION_MINOR,
                          0,
                          "added",
                          "operators of added",
                          "every driver, for tests",
                          nullptr,
                          &serves,
                          &install};

PyObject *backend(PyObject *, PyObject *) {
  const char *fault = std::getenv("ADDED_FAULT");
  const std::string wrong = fault ? fault : "";
  table.before = std::getenv("ADDED_BEFORE");
  if (wrong == "torch") table.torch_minor = TORCH_VERSION_MINOR + 1;
  if (wrong == "size") table.struct_size = 16;
  if (wrong == "taken") table.name = "jit";
  if (wrong == "install") table.install = nullptr;
  if (wrong == "none") Py_RETURN_NONE;
  return PyCapsule_New(&table, wrong == "capsule" ? "tb.operator_backend.v0" : TB_OPERATOR_BACKEND_CAPSULE, nullptr);
}

PyObject *counts(PyObject *, PyObject *) { return Py_BuildValue("(iis)", calls, copies, found.c_str()); }

PyMethodDef methods[] = {{"backend", backend, METH_NOARGS, nullptr},
                         {"counts", counts, METH_NOARGS, nullptr},
                         {nullptr, nullptr, 0, nullptr}};
PyModuleDef module{PyModuleDef_HEAD_INIT, "added", nullptr, -1, methods, nullptr, nullptr, nullptr, nullptr};

} // namespace

PyMODINIT_FUNC PyInit_added() { return PyModule_Create(&module); }
