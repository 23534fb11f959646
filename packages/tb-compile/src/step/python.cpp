// Binds captured steps.
#include "tb/tensor_caster.h"

#include "step/python.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <string_view>

#include "device/components.h"
#include "device/device_type.h"
#include "step/observation.h"
#include "step/step_arguments.h"
#include "step/step_capture.h"
#include "step/step_graph.h"
#include "step/watch.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace tb::compile {
namespace {

void define_observation(nb::module_ &module) {
  nb::class_<Observation>(module, "Observation", "What the operators of a step use. Thread-safe.")
      .def(
          "__init__",
          [](Observation *self) {
            const int32_t device = components.device.current_device();
            new (self) Observation(device, components.stream.current(device), 0);
          },
          "Of the calls on the current stream of the current device, without a capture.")
      .def("__enter__", &Observation::start, "Begins to take notes.")
      .def(
          "__exit__", [](Observation &self, const nb::args &) { self.stop(); },
          nb::sig("def __exit__(self, *args: object) -> None"), "Takes no more notes.")
      .def("leaves", &Observation::leaves, "Tensors of tb that want a gradient and are no results of operators.")
      .def("host_tensors", &Observation::host_tensors, "Tensors of the host that existed before.")
      .def("written_host_tensors", &Observation::written_host_tensors, "Those of them that were written to.")
      .def("written_tensors", &Observation::written_tensors, "Tensors of tb that existed before and were written to.")
      .def(
          "generators",
          [](const Observation &self) {
            std::vector<std::pair<int64_t, int64_t>> states;
            for (const at::Generator &generator : self.generators())
              states.emplace_back(reinterpret_cast<int64_t>(generator.unsafeGetGeneratorImpl()),
                                  static_cast<int64_t>(generator.device().type() == device_type));
            return states;
          },
          "Generators that were passed to operators: the address of each, and whether it is one of tb.")
      .def("release_tensors", &Observation::release_tensors, "Forgets tensors and generators, but no memory.")
      .def("has_used", &Observation::has_used, "tensor"_a, "Whether memory that existed before was used.")
      .def("has_written", &Observation::has_written, "tensor"_a, "Whether the tensor's memory was written to.")
      .def("has_made", &Observation::has_made, "tensor"_a, "Whether the tensor's memory was allocated in the capture.")
      .def("used", &Observation::used, "like"_a,
           "The storages of tb that existed before and that a tensor of this one's type showed first: the address of "
           "each "
           "StorageImpl.")
      .def("alive", &Observation::alive,
           "The storages that were made in the capture and are in use: the address of each StorageImpl and the number "
           "of "
           "its owners.");
}

void define_watch(nb::module_ &module) {
  nb::class_<Watch>(module, "Watch", "Objects of the host that must not change. Borrows them: keep them as long as it.")
      .def(nb::init<>())
      .def("add_dict", &Watch::add_dict, "dict"_a, "keys"_a, "values"_a, "names"_a, "whole"_a, "name"_a,
           nb::sig("def add_dict(self, dict: dict[typing.Any, typing.Any], keys: list[typing.Any], values: "
                   "list[typing.Any], names: list[str], whole: bool, name: str) -> None"),
           "Entries of a dictionary. whole: no key may come or go.")
      .def("add_items", &Watch::add_items, "container"_a, "name"_a,
           "The items of a list, or the number of items of another container.")
      .def("add_attribute", &Watch::add_attribute, "owner"_a, "attribute"_a, "value"_a.none(), "name"_a,
           "What an attribute refers to.")
      .def("add_tensor", &Watch::add_tensor, "tensor"_a, "name"_a,
           nb::sig("def add_tensor(self, tensor: torch.Tensor, name: str) -> None"),
           "Where a tensor of tb is, its form, whether it wants a gradient, and the number of its hooks.")
      .def("add_values", &Watch::add_values, "tensor"_a, "name"_a,
           nb::sig("def add_values(self, tensor: torch.Tensor, name: str) -> None"),
           "The values of a tensor of the host.")
      .def(
          "difference",
          [](Watch &self) {
            const std::string *name = self.difference();
            return name ? *name : std::string();
          },
          "The name of something that is not what it was; \"\" if there is nothing.");
}

void define_graph(nb::module_ &module) {
  nb::class_<StepArguments>(module, "StepArguments", "The tensors of a call, and where a graph reads them.")
      .def(nb::init<std::vector<at::Tensor>, std::vector<bool>>(), "given"_a, "bound"_a,
           "bound: for each, whether the graph reads it where the caller has it.")
      .def("substitute", &StepArguments::substitute, "The tensors show the graph's memory until restore().")
      .def("restore", &StepArguments::restore, "The tensors show their own memory again.")
      .def("set_written", &StepArguments::set_written, "written"_a, "Which of them the step writes to.")
      .def("store", &StepArguments::store, "given"_a, "Copies what was written to the caller's tensors.")
      .def("own", &StepArguments::own, "index"_a, "The tensor in the graph's memory.")
      .def("is_bound", &StepArguments::is_bound, "index"_a, "Whether the graph reads the caller's memory.")
      .def("of_caller", &StepArguments::of_caller, "tensor"_a, "given"_a,
           "If a tensor shows the graph's memory of an argument: the same view of the caller's tensor.");

  nb::class_<StepCapture>(module, "StepCapture",
                          "A capture of the current stream that runs what it captures: at its end, or before the host "
                          "needs a result.")
      .def(nb::init<nb::object>(), "find_place"_a,
           nb::sig("def __init__(self, find_place: collections.abc.Callable[[], str]) -> None"),
           "Begins the capture. find_place: called where it is interrupted.")
      .def("complete", &StepCapture::complete, "Ends the capture and runs its work, unless that has happened.")
      .def("interrupt", &StepCapture::interrupt, "reason"_a, "Ends the capture early, for this reason.")
      .def("launch", &StepCapture::launch, "Queues the captured work on the current stream.")
      .def_prop_ro("is_interrupted", &StepCapture::is_interrupted, "Whether the capture has ended early.")
      .def_prop_ro("interruption", &StepCapture::interruption, "Why; \"\" if it has not.")
      .def_prop_ro("place", &StepCapture::place, "The line of Python of the interruption.")
      .def_prop_ro("open_events", &StepCapture::open_events,
                   "The number of events that were recorded inside and are still in use.")
      .def_prop_ro("observation", &StepCapture::observation, nb::rv_policy::reference_internal,
                   "What the captured operators use.");

  nb::class_<StepGradients>(module, "StepGradients", "The gradients that a step finds and leaves.")
      .def(nb::init<>())
      .def("take", &StepGradients::take, "leaves"_a, nb::sig("def take(self, leaves: list[torch.Tensor]) -> None"),
           "Before the call: notes the gradients of these tensors, which the caller keeps.")
      .def("keep_in_place", &StepGradients::keep_in_place, "observation"_a,
           "At the end of the call: copies gradients that replaced others to where the next launch reads them.")
      .def("finish", &StepGradients::finish, "observation"_a, "looks"_a,
           "After the call. looks: whether code of the step looks at gradients. False: it used a tensor that take() "
           "did not get.")
      .def(
          "tensors",
          [](StepGradients &self) {
            std::vector<at::Tensor> tensors;
            for (const StepLeaf &leaf : self.leaves()) tensors.push_back(leaf.tensor());
            return tensors;
          },
          "The tensors that have a gradient before or after the call.");

  nb::class_<StepGraph>(module, "StepGraph",
                        "A captured step, and the conditions under which a launch replaces a call.")
      .def(
          "__init__",
          [](StepGraph *self, StepCapture &capture, StepArguments &arguments, Watch &watch, StepGradients &gradients,
             std::vector<at::Tensor> results, const std::vector<at::Tensor> &written) {
            new (self) StepGraph(capture, arguments, watch, gradients.leaves(), std::move(results), written);
          },
          "capture"_a, "arguments"_a, "watch"_a, "gradients"_a, "results"_a, "written"_a, nb::keep_alive<1, 2>(),
          nb::keep_alive<1, 3>(), nb::keep_alive<1, 4>(),
          "results: without autograd. written: tensors that existed before and that the step writes to.")
      .def("difference", &StepGraph::difference, "arguments"_a,
           "What differs from the captured call, if a launch cannot replace one with these arguments; otherwise \"\".")
      .def("launch", &StepGraph::launch, "arguments"_a, "Launches the graph with these arguments; returns its results.")
      .def("relaunch", &StepGraph::relaunch, "arguments"_a, "stream"_a,
           nb::sig("def relaunch(self, arguments: tuple[typing.Any, ...], stream: int) -> list[torch.Tensor] | None"),
           "launch(), if the arguments are tensors, nothing differs, and the current stream has this number. Otherwise "
           "None, and nothing is launched.")
      .def("results", &StepGraph::results, "arguments"_a, "The results of the captured call.");
}

// A profile function in C++: Dynamo would compile one in Python.
void note_code(nb::dict codes, nb::object next, nb::object frame, nb::str event, nb::object argument) {
  if (std::string_view(event.c_str()) == "call") codes[frame.attr("f_code")] = frame.attr("f_globals");
  if (!next.is_none()) next(frame, event, argument);
}

} // namespace

void define_step(nb::module_ &module) {
  define_observation(module);
  define_watch(module);
  define_graph(module);
  module.def(
      "note_code", &note_code, "codes"_a, "next"_a.none(), "frame"_a, "event"_a, "argument"_a.none(),
      nb::sig("def note_code(codes: dict[typing.Any, dict[str, typing.Any]], next: typing.Any, frame: typing.Any, "
              "event: str, argument: typing.Any) -> None"),
      "For sys.setprofile: adds the code of a frame that begins, with its globals, and calls `next` unless it is "
      "None.");
  module.def(
      "renew_accumulators", &renew_accumulators, "leaves"_a,
      nb::sig("def renew_accumulators(leaves: list[torch.Tensor]) -> int"),
      "Lets autograd accumulate gradients on the current stream that it accumulated on another one. Returns how many, "
      "or -1 if somebody has hooked into that.");
  module.def(
      "shared_memory", &StepArguments::pattern, "tensors"_a,
      "How tensors share memory: for each, the number of the first one that it shares it with, and how many bytes it "
      "is behind that.");
  module.def(
      "storage_address",
      [](const at::Tensor &tensor) {
        return tensor.has_storage() ? reinterpret_cast<int64_t>(tensor.storage().unsafeGetStorageImpl()) : 0;
      },
      "tensor"_a, "The address of a tensor's StorageImpl; 0 without one.");
  module.def("current_stream_id", &current_stream_id,
             "The number of this thread's current stream of its current device.");
}

} // namespace tb::compile
