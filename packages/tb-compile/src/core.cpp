// The extension tb_compile._core: programs and their builder, device graphs, and the lazy and TorchScript backends.
#include "tb/tensor_caster.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include "code/generated_kernel.h"
#include "code/kernel.h"
#include "device/components.h"
#include "graph/graphed_callable.h"
#include "jit/delegate.h"
#include "lazy/backend.h"
#include "lazy/registration.h"
#include "program/builder.h"
#include "program/program.h"
#include "program/values.h"
#include "step/python.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace tb::compile {
namespace {

c10::IValue to_input(nb::handle value) {
  if (tensor_check(value.ptr())) return tensor_unpack(value.ptr());
  if (PyBool_Check(value.ptr())) return nb::cast<bool>(value);
  if (PyLong_Check(value.ptr())) return nb::cast<int64_t>(value);
  return to_ivalue(value, c10::FloatType::get());
}

nb::list run(const Program &program, nb::list given) {
  std::vector<c10::IValue> inputs, outputs;
  inputs.reserve(nb::len(given));
  for (const nb::handle value : given) inputs.push_back(to_input(value));
  given.clear(); // so that the program can free each input after its last use
  std::string place;
  try {
    const nb::gil_scoped_release release;
    outputs = program.run(std::move(inputs), &place);
  } catch (const std::exception &error) {
    if (!is_python_error(error)) throw;
    set_python_error(std::current_exception());
    nb::python_error raised;
    nb::handle(raised.value()).attr("add_note")(place);
    throw raised;
  }
  nb::list results;
  for (const c10::IValue &value : outputs) results.append(to_python(value));
  return results;
}

std::vector<std::string> instructions(const Program &program) {
  std::vector<std::string> names;
  for (const Instruction &instruction : program.instructions()) names.push_back(instruction.name);
  return names;
}

} // namespace
} // namespace tb::compile

NB_MODULE(_core, module) {
  using namespace tb::compile;
  nb::set_leak_warnings(false);
  tb::register_torch_exceptions();
  module.doc() = "Programs: straight-line graphs of operator calls, run without Python. Use tb_compile instead.";

  nb::class_<Value>(module, "Value", "An input of a program that is being built, or the result of an instruction.");

  nb::class_<Program>(module, "Program", "A finished program. Runs on the current streams; threads may share it.")
      .def("run", &run, "inputs"_a,
           nb::sig("def run(self, inputs: list[torch.Tensor | int | float]) -> list[typing.Any]"),
           "Runs all instructions and returns the outputs. Empties `inputs`, so that their memory is freed after its "
           "last use. An operator's exception has the instruction and the user's line in its text.")
      .def_prop_ro("name", &Program::name)
      .def_prop_ro("instructions", &instructions, "Names of the instructions in their order.")
      .def_prop_ro("written_inputs", &Program::written_inputs, "Numbers of the inputs that an instruction writes to.")
      .def_prop_ro("runs", &Program::runs, "The number of runs.");

  nb::class_<Builder>(module, "Builder", "Builds one program, call by call.")
      .def(nb::init<std::string>(), "name"_a)
      .def("input", &Builder::input, "is_number"_a = false, "The next input, which may be a number.")
      .def("call", &Builder::call, "operator"_a, "arguments"_a, "keywords"_a, "source"_a = "",
           nb::sig("def call(self, operator: str, arguments: list[typing.Any], keywords: dict[str, typing.Any], "
                   "source: str = '') -> list[Value]"),
           "Adds a call, such as of 'aten::add.Tensor'; arguments and lists in them may be Values. `source` is for "
           "messages. KeyError: no such operator. TypeError: the operator does not take these arguments. "
           "NotImplementedError: a program cannot hold a value.")
      .def("element", &Builder::element, "list"_a, "index"_a, "An element of a list that a call returned.")
      .def("finish", &Builder::finish, "outputs"_a, nb::sig("def finish(self, outputs: list[typing.Any]) -> Program"),
           "The program, whose outputs are Values, numbers, tensors or None. The builder cannot be used afterwards.");

  define_step(module);
  nb::class_<HostKernel>(module, "HostKernel",
                         "A kernel compiled for the host. Its calls are queued on a device's current stream.")
      .def(nb::init<uint64_t, std::string, std::vector<std::string>>(), "entry"_a, "name"_a, "types"_a,
           "entry: the address of extern \"C\" void (void **). types: of the arguments, 'pointer', 'integer', 'float'. "
           "ValueError: another type.")
      .def("__call__", &HostKernel::call, nb::sig("def __call__(self, *arguments: torch.Tensor | int | float) -> None"),
           "Queues a call: tensors for pointers, numbers for the others, and at last the device's number.");
  nb::class_<GeneratedKernel>(module, "GeneratedKernel",
                              "A kernel in source, compiled for a device. Its calls are queued on the current stream.")
      .def(
          nb::init<std::string, std::string, std::string, std::vector<std::string>, bool>(), "name"_a, "text"_a,
          "arguments"_a, "types"_a, "synchronizing"_a,
          "name: of its function in the namespace tb::kernels of `text`. arguments: its struct. types: of the struct's "
          "fields, 'pointer', 'integer', 'float', pointers first. synchronizing: a block computes an item. "
          "ValueError: another type, or too many.")
      .def("load", &GeneratedKernel::load, "device"_a, nb::call_guard<nb::gil_scoped_release>(),
           "Compiles and loads it. RuntimeError with its name and the compiler's messages.")
      .def(
          "__call__", &GeneratedKernel::call,
          nb::sig("def __call__(self, *arguments: torch.Tensor | int | float) -> None"),
          "Queues a call: tensors for pointers, numbers for the others, the number of items, and the device's number.");
  nb::class_<GraphedCallable>(module, "GraphedCallable",
                              "A function of a list of tensors and numbers as a device graph. Not thread-safe.")
      .def(nb::init<std::vector<size_t>>(), "written"_a, "written: numbers of the inputs that the function writes to.")
      .def("launch", &GraphedCallable::launch, "inputs"_a,
           nb::sig("def launch(self, inputs: list[typing.Any]) -> list[typing.Any] | None"),
           "Launches the graph, returns its results and empties `inputs`. None: the function must be called, see "
           "begin().")
      .def("begin", &GraphedCallable::begin, "inputs"_a,
           nb::sig("def begin(self, inputs: list[typing.Any]) -> list[typing.Any] | None"),
           "None: call the function with the inputs. A list: the current stream captures; call the function with this "
           "list, and end() or fail() afterwards.")
      .def("end", &GraphedCallable::end, "results"_a, "inputs"_a,
           nb::sig("def end(self, results: list[typing.Any], inputs: list[typing.Any]) -> list[typing.Any]"),
           "Ends the capture of a call, launches it for `inputs`, and returns its results. Empties both lists.")
      .def("fail", &GraphedCallable::fail, "reason"_a, "Drops the capture. After some failures there are no more.")
      .def_prop_ro("captures", &GraphedCallable::captures, "The number of captures.")
      .def_prop_ro("launches", &GraphedCallable::launches, "The number of calls that were a launch.")
      .def_prop_ro("refusal", &GraphedCallable::refusal, "Why there is no graph; empty while there may be one.");
  module.def("_connect", &connect_components,
             "Imports the tables of tb-device, tb-stream and tb-ops. ImportError: one is missing or does not match.");
  module.def("register_delegate", &jit::register_delegate,
             "Registers TorchScript's backend under the name of the PrivateUse1 device, once a process.");
  module.def("register_lazy_backend", &lazy::register_backend,
             "Registers the lazy backend, once a process. RuntimeError: PyTorch's own is registered already.");
  module.def("lazy_force_fallback", &lazy::force_fallback, "names"_a,
             "The operators of these names run eagerly from now on. ValueError: one cannot.");
  module.def("lazy_seed", [](uint64_t seed) { lazy::backend().SetRngSeed(seed); }, "seed"_a);
  module.def("lazy_devices", [] {
    std::vector<std::string> names;
    for (const auto &device : lazy::backend().GetBackendDevices()) names.push_back(device.toString());
    return names;
  });
  module.def(
      "lazy_counts",
      [] {
        const lazy::Counts &counts = lazy::counts();
        nb::dict out;
        out["compilations"] = counts.compilations.load();
        out["instructions"] = counts.instructions.load();
        out["executions"] = counts.executions.load();
        out["nanoseconds"] = counts.nanoseconds.load();
        return out;
      },
      nb::sig("def lazy_counts() -> dict[str, int]"));
  module.def(
      "lazy_default_device", [](int64_t ordinal) { lazy::backend().SetDefaultDeviceOrdinal(ordinal); }, "ordinal"_a,
      "Sets the device of lazy tensors without a number.");
}
