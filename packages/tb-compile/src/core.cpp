// The Python extension: programs, and how they are built.
#include "tb/tensor_caster.h"

#include <nanobind/nanobind.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/unique_ptr.h>
#include <nanobind/stl/vector.h>

#include "code/kernel.h"
#include "device/components.h"
#include "graph/graphed_callable.h"
#include "jit/delegate.h"
#include "lazy/backend.h"
#include "lazy/registration.h"
#include "program/builder.h"
#include "program/program.h"
#include "program/values.h"
#include "step/step_graph.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

c10::IValue to_input(nb::handle value) {
  if (tb::tensor_check(value.ptr())) return tb::tensor_unpack(value.ptr());
  if (PyBool_Check(value.ptr())) return nb::cast<bool>(value);
  if (PyLong_Check(value.ptr())) return nb::cast<int64_t>(value);
  return tb::to_ivalue(value, c10::FloatType::get());
}

nb::list run(const tb::Program &program, nb::list given) {
  std::vector<c10::IValue> inputs, outputs;
  inputs.reserve(nb::len(given));
  for (const nb::handle value : given) inputs.push_back(to_input(value));
  given.clear(); // the program frees each input after its last use
  {
    const nb::gil_scoped_release release;
    outputs = program.run(std::move(inputs));
  }
  nb::list results;
  for (const c10::IValue &value : outputs) results.append(tb::to_python(value));
  return results;
}

std::vector<std::string> instructions(const tb::Program &program) {
  std::vector<std::string> names;
  for (const tb::Instruction &instruction : program.instructions()) names.push_back(instruction.name);
  return names;
}

} // namespace

NB_MODULE(_core, module) {
  nb::set_leak_warnings(false);
  tb::register_torch_exceptions();
  module.doc() = "Programs: straight-line graphs of operator calls, run without Python. Use tb_compile instead.";

  nb::class_<tb::Value>(module, "Value", "What an input or an instruction of a program that is being built gives.");

  nb::class_<tb::Program>(module, "Program", "A finished program. Runs on the current streams; threads may share it.")
      .def("run", &run, "inputs"_a,
           nb::sig("def run(self, inputs: list[torch.Tensor | int | float]) -> list[typing.Any]"),
           "Runs all instructions and returns the outputs. Empties `inputs`, so that their memory is free after its "
           "last use. Raises what an operator raises, with the instruction and the user's line in the text.")
      .def_prop_ro("name", &tb::Program::name)
      .def_prop_ro("instructions", &instructions, "Names of the instructions in their order.")
      .def_prop_ro("written_inputs", &tb::Program::written_inputs, "Numbers of the inputs that are written to.")
      .def_prop_ro("runs", &tb::Program::runs, "How often it ran.");

  nb::class_<tb::Builder>(module, "Builder", "Builds one program, call by call.")
      .def(nb::init<std::string>(), "name"_a)
      .def("input", &tb::Builder::input, "is_number"_a = false, "The next input, which may be a number.")
      .def("call", &tb::Builder::call, "operator"_a, "arguments"_a, "keywords"_a, "source"_a = "",
           nb::sig("def call(self, operator: str, arguments: list[typing.Any], keywords: dict[str, typing.Any], "
                   "source: str = '') -> list[Value]"),
           "One call, such as of 'aten::add.Tensor'; Values may stand in arguments and in lists. `source` is for "
           "messages. KeyError: no such operator. TypeError: arguments that it does not take. NotImplementedError: a "
           "value that a program cannot hold.")
      .def("element", &tb::Builder::element, "list"_a, "index"_a, "An element of a list that a call gave.")
      .def("finish", &tb::Builder::finish, "outputs"_a,
           nb::sig("def finish(self, outputs: list[typing.Any]) -> Program"),
           "The program, whose outputs are Values, numbers, tensors or None. The builder is of no use afterwards.");

  nb::class_<tb::StepGraph>(module, "StepGraph", "A captured step: when a launch of it may take a call's place.")
      .def(
          nb::init<nb::object, std::vector<at::Tensor>, std::vector<at::Tensor>, nb::list, nb::list, nb::list, nb::list,
                   std::vector<at::Tensor>>(),
          "replay"_a, "arguments"_a, "leaves"_a, "before"_a, "after"_a, "entries"_a, "lists"_a, "results"_a,
          nb::sig("def __init__(self, replay: collections.abc.Callable[[], typing.Any], arguments: list[torch.Tensor], "
                  "leaves: list[torch.Tensor], before: list[torch.Tensor | None], after: list[torch.Tensor | None], "
                  "entries: list[tuple[dict[str, typing.Any], str, typing.Any]], "
                  "lists: list[tuple[list[typing.Any], int]], results: list[torch.Tensor]) -> None"))
      .def("relaunch", &tb::StepGraph::relaunch, "arguments"_a, "stream"_a,
           nb::sig("def relaunch(self, arguments: tuple[typing.Any, ...], stream: int) -> list[torch.Tensor] | None"),
           "launch(), if arguments have the same forms, tensors lie where they lay, gradients, numbers and modes are "
           "the "
           "same, and the current stream is the one of this number. None: nothing has happened.")
      .def("launch", &tb::StepGraph::launch, "arguments"_a,
           nb::sig("def launch(self, arguments: tuple[torch.Tensor, ...]) -> list[torch.Tensor]"),
           "Copies of the results of one launch with these arguments, on the current stream.");
  nb::class_<tb::HostKernel>(module, "HostKernel",
                             "Code compiled for the host, whose calls are queued on a device's current stream.")
      .def(nb::init<uint64_t, std::string, std::vector<std::string>>(), "entry"_a, "name"_a, "types"_a,
           "entry: the address of extern \"C\" void (void **). types: of the arguments, 'pointer', 'integer', 'float'. "
           "ValueError: another type.")
      .def("__call__", &tb::HostKernel::call,
           nb::sig("def __call__(self, *arguments: torch.Tensor | int | float) -> None"),
           "Tensors where pointers are, numbers elsewhere; the last is the device's number.");
  nb::class_<tb::GraphedCallable>(
      module, "GraphedCallable", "A function of a list of tensors and numbers as a device graph; one thread at a time.")
      .def(nb::init<std::vector<size_t>>(), "written"_a, "written: numbers of the inputs that the function writes to.")
      .def("launch", &tb::GraphedCallable::launch, "inputs"_a,
           nb::sig("def launch(self, inputs: list[typing.Any]) -> list[typing.Any] | None"),
           "One launch: its results, and `inputs` is empty. None: the function has to be called, as begin() says.")
      .def("begin", &tb::GraphedCallable::begin, "inputs"_a,
           nb::sig("def begin(self, inputs: list[typing.Any]) -> list[typing.Any] | None"),
           "None: call the function with the inputs. A list: call it with that, and end() or fail() afterwards; the "
           "current stream captures.")
      .def("end", &tb::GraphedCallable::end, "results"_a, "inputs"_a,
           nb::sig("def end(self, results: list[typing.Any], inputs: list[typing.Any]) -> list[typing.Any]"),
           "Ends the capture of a call, launches it for `inputs`, and gives its results. Both lists are empty then.")
      .def("fail", &tb::GraphedCallable::fail, "reason"_a, "Gives the capture up; for good after some failures.")
      .def_prop_ro("captures", &tb::GraphedCallable::captures, "How often a graph was captured.")
      .def_prop_ro("launches", &tb::GraphedCallable::launches, "Calls that were a launch.")
      .def_prop_ro("refusal", &tb::GraphedCallable::refusal, "Why there is no graph; empty while there may be one.");
  module.def("_connect", &tb::connect_components,
             "Takes the tables of tb-device and tb-stream. ImportError: one is missing or does not match.");
  module.def("register_delegate", &tb::jit::register_delegate,
             "Registers TorchScript's backend under the name of the PrivateUse1 device, once a process.");
  module.def("register_lazy_backend", &tb::lazy::register_backend,
             "Registers the lazy backend, once a process. RuntimeError: PyTorch's own is there already.");
  module.def("lazy_seed", [](uint64_t seed) { tb::lazy::backend().SetRngSeed(seed); }, "seed"_a);
  module.def("lazy_devices", [] {
    std::vector<std::string> names;
    for (const auto &device : tb::lazy::backend().GetBackendDevices()) names.push_back(device.toString());
    return names;
  });
  module.def(
      "lazy_counts",
      [] {
        const tb::lazy::Counts &counts = tb::lazy::counts();
        nb::dict out;
        out["compilations"] = counts.compilations.load();
        out["instructions"] = counts.instructions.load();
        out["executions"] = counts.executions.load();
        out["nanoseconds"] = counts.nanoseconds.load();
        return out;
      },
      nb::sig("def lazy_counts() -> dict[str, int]"));
  module.def(
      "lazy_default_device", [](int64_t ordinal) { tb::lazy::backend().SetDefaultDeviceOrdinal(ordinal); }, "ordinal"_a,
      "The device that lazy tensors without a number are on.");
  module.def("current_stream_id", &tb::current_stream_id, "Of this thread's current stream of its current device.");
}
