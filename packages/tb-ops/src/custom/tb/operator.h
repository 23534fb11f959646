// Operators of your own on tb devices. `python -m tb_ops.codegen custom` generates code that includes this header;
// handwritten code may include it too.
//
//   tb::connect("mylibrary");                                        // in the module's init function; Python's lock held
//   tb::ops.on_native(&register_my_tb_kernels);                      // called when a driver that fits is opened
//   tb::launch<"mylibrary::scale", kernel>(tb::common_device("mylibrary::scale", x), x, factor, out);
//
// launch() queues kernel(const Tensor &x, double factor, Tensor &out) on the current stream of the device and returns.
// The kernel gets CPU tensors over the same bytes. The next synchronisation raises what the kernel throws, with the
// operator's name. The kernel must not take Python's lock, launch or wait, nor keep a tensor.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/util/OptionalArrayRef.h>
#include <torch/version.h>

#include <dlfcn.h>

#include <algorithm>
#include <concepts>
#include <memory>
#include <optional>
#include <string>
#include <tuple>
#include <vector>

#include "tb/component_python.h"
#include "tb/operator_table.h"

namespace tb {

// This library's copy of tb-ops' function table, empty until connect().
inline tb_ops_table ops{};

// Fills `ops`. Returns 1, or 0 with Python's ImportError set if tb-ops is missing, has another C API, or was built for
// another PyTorch.
inline int connect(const char *library) {
  if (!tb_import(library, "tb-ops", "tb_ops._core", TB_OPS_API_MAJOR, TB_OPS_API_MINOR, &ops, sizeof ops)) return 0;
  if (ops.torch_major == TORCH_VERSION_MAJOR && ops.torch_minor == TORCH_VERSION_MINOR) return 1;
  PyErr_Format(PyExc_ImportError, "%s was built for torch %d.%d, the installed tb-ops for torch %d.%d. Build %s again",
               library, TORCH_VERSION_MAJOR, TORCH_VERSION_MINOR, ops.torch_major, ops.torch_minor, library);
  ops = {};
  return 0;
}

// Lets a kernel of an image serve an operator by its overload with out= (tb_ops.load_kernel). `file` is relative to the
// folder of the library that has the object `inside`; dtypes are names with commas. To be called after connect(), when the
// operator is defined. Returns 1, or 0 with a Python exception set.
inline int serve_by_image(const void *inside, const char *file, const char *entry, const char *operation,
                          const char *dtypes, int block) {
  Dl_info library{};
  const std::string path = dladdr(inside, &library) ? library.dli_fname : "";
  const std::string image = path.substr(0, path.rfind('/') + 1) + file;
  PyObject *kernels = PyImport_ImportModule("tb_ops.image_kernels");
  PyObject *done =
      kernels ? PyObject_CallMethod(kernels, "serve_by_image", "ssssi", image.c_str(), entry, operation, dtypes, block)
              : nullptr;
  Py_XDECREF(kernels);
  Py_XDECREF(done);
  return done != nullptr;
}

// Lets the entries of tables (tb/kernels.h) serve an operator that this library defined, and whose declaration names
// `entry`. As above.
inline int serve_by_table(const char *operation, const char *entry) {
  PyObject *core = PyImport_ImportModule("tb_ops._core");
  PyObject *done = core ? PyObject_CallMethod(core, "serve_defined", "ss", operation, entry) : nullptr;
  Py_XDECREF(core);
  Py_XDECREF(done);
  return done != nullptr;
}

// Returns the tb device of all tensors among a kernel's arguments. Throws if they are not on one tb device. Undefined
// and absent tensors, and arguments that are no tensors, are ignored.
template <class... Arguments> c10::DeviceIndex common_device(const char *name, const Arguments &...arguments) {
  std::optional<c10::Device> device;
  const auto look = [&](const at::Tensor &tensor) {
    if (!tensor.defined()) return;
    if (!device) device = tensor.device();
    TORCH_CHECK(tensor.device() == *device && tensor.is_privateuseone(),
                "Expected all tensors to be on the same device, but ", name, " got tensors on ", *device, " and ",
                tensor.device(), ". Move one with .to(device).");
  };
  const auto look_at = [&](const auto &argument) {
    using Argument = std::remove_cvref_t<decltype(argument)>;
    if constexpr (std::same_as<Argument, at::Tensor>) look(argument);
    if constexpr (std::same_as<Argument, std::optional<at::Tensor>>) look(argument.value_or(at::Tensor()));
    if constexpr (std::same_as<Argument, at::TensorList>) std::ranges::for_each(argument, look);
  };
  (look_at(arguments), ...);
  TORCH_CHECK(device, name, " got no tensor, so there is no device to run it on");
  return device->index();
}

// What a call keeps of an argument until the worker runs it, and what the kernel gets. A kept tensor is only an index
// into `list`; the worker's tensors come in the same order.
using TensorPointers = c10::SmallVector<const void *, 8>;
using WorkerTensors = void *const *;
inline at::Tensor &worker_tensor(WorkerTensors tensors, size_t i) { return *static_cast<at::Tensor *>(tensors[i]); }

template <class T> struct Kept { // numbers, Scalar, dtype, and optionals of them
  Kept(const T &given, TensorPointers &) : value(given) {}
  const T &restore(WorkerTensors) { return value; }
  T value;
};
template <> struct Kept<at::Tensor> {
  Kept(const at::Tensor &given, TensorPointers &list) : place(list.size()) { list.push_back(&given); }
  at::Tensor &restore(WorkerTensors tensors) { return worker_tensor(tensors, place); }
  size_t place;
};
template <> struct Kept<std::optional<at::Tensor>> {
  Kept(const std::optional<at::Tensor> &given, TensorPointers &list) : place(list.size()), present(given) {
    if (present) list.push_back(&*given);
  }
  std::optional<at::Tensor> restore(WorkerTensors tensors) {
    return present ? std::optional(worker_tensor(tensors, place)) : std::nullopt;
  }
  size_t place;
  bool present;
};
template <> struct Kept<at::TensorList> {
  Kept(at::TensorList given, TensorPointers &list) : place(list.size()), count(given.size()) {
    for (const at::Tensor &tensor : given) list.push_back(&tensor);
  }
  std::vector<at::Tensor> restore(WorkerTensors tensors) {
    std::vector<at::Tensor> out;
    for (size_t i = 0; i < count; i++) out.push_back(worker_tensor(tensors, place + i));
    return out;
  }
  size_t place, count;
};
template <class T> struct Kept<c10::ArrayRef<T>> {
  Kept(c10::ArrayRef<T> given, TensorPointers &) : value(given.vec()) {}
  c10::ArrayRef<T> restore(WorkerTensors) { return value; }
  std::vector<T> value;
};
template <class T> struct Kept<c10::OptionalArrayRef<T>> {
  Kept(c10::OptionalArrayRef<T> given, TensorPointers &) : value(given ? std::optional(given->vec()) : std::nullopt) {}
  c10::OptionalArrayRef<T> restore(WorkerTensors) {
    return value ? c10::OptionalArrayRef<T>(*value) : c10::OptionalArrayRef<T>();
  }
  std::optional<std::vector<T>> value;
};
template <class T> struct Kept<std::optional<c10::ArrayRef<T>>> : Kept<c10::OptionalArrayRef<T>> {
  Kept(const std::optional<c10::ArrayRef<T>> &given, TensorPointers &list)
      : Kept<c10::OptionalArrayRef<T>>(given ? c10::OptionalArrayRef<T>(*given) : c10::OptionalArrayRef<T>(), list) {}
  std::optional<c10::ArrayRef<T>> restore(WorkerTensors) {
    return this->value ? std::optional(c10::ArrayRef<T>(*this->value)) : std::nullopt;
  }
};
template <> struct Kept<std::string_view> {
  Kept(std::string_view given, TensorPointers &) : value(given) {}
  std::string_view restore(WorkerTensors) { return value; }
  std::string value;
};
template <> struct Kept<std::optional<std::string_view>> {
  Kept(std::optional<std::string_view> given, TensorPointers &) : value(given) {}
  std::optional<std::string_view> restore(WorkerTensors) { return value; }
  std::optional<std::string> value;
};

// One call of an operator, from launch() to the worker.
template <auto kernel, class... Arguments> struct Call {
  std::tuple<Kept<Arguments>...> kept;

  static void run(void *state, WorkerTensors tensors) {
    std::apply([&](auto &...argument) { kernel(argument.restore(tensors)...); }, static_cast<Call *>(state)->kept);
  }
  static void destroy(void *state) { delete static_cast<Call *>(state); }
};

// A string as a template argument.
template <size_t n> struct OperatorName {
  constexpr OperatorName(const char (&text)[n]) { std::copy_n(text, n, value); }
  char value[n];
};

// Whether a kernel writes to a tensor whose elements share memory. That is an error, and launch() waits so that the
// call raises it.
template <class Parameter, class Argument> bool overlaps_itself(const Argument &argument) {
  if constexpr (std::same_as<Parameter, at::Tensor &> && std::same_as<Argument, at::Tensor>)
    for (int64_t i = 0; i < argument.dim(); i++)
      if (argument.stride(i) == 0 && argument.size(i) > 1) return true;
  return false;
}
template <class... Parameters, class... Arguments>
bool writes_on_overlap(void (*)(Parameters...), const Arguments &...arguments) {
  return (overlaps_itself<Parameters>(arguments) || ...);
}

template <OperatorName name, auto kernel, class... Arguments>
void launch(c10::DeviceIndex device, const Arguments &...arguments) {
  using Queued = Call<kernel, Arguments...>;
  static constinit tb_operator op{sizeof(tb_operator), 0, name.value, &Queued::run, &Queued::destroy, nullptr};
  TensorPointers tensors;
  auto state = std::make_unique<Queued>(Queued{{Kept<Arguments>(arguments, tensors)...}});
  const uint32_t flags = writes_on_overlap(kernel, arguments...) ? TB_LAUNCH_WAIT : 0;
  ops.launch(&op, device, tensors.data(), tensors.size(), flags, state.release());
}

} // namespace tb
