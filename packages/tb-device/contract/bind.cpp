// The Python module tb_device._contract: the cases, the mutants, and one open driver to run them on.
#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <sstream>

#include "contract/child.h"
#include "contract/mutant.h"
#include "contract/run.h"
#include "host/gil.h"
#include "slots/slots.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace tb::contract {

using device::all_groups;
using device::Group;
namespace {

nb::str text_of(const std::string &text) {
  return nb::steal<nb::str>(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
}

nb::list words_of(const std::string &text) {
  nb::list words;
  std::istringstream stream(text);
  for (std::string word; stream >> word;) words.append(word);
  return words;
}

nb::list names_of(uint64_t groups) {
  nb::list names;
  for (const Group &group : all_groups())
    if (groups & group.bit) names.append(group.name);
  return names;
}

nb::list cases() {
  nb::list out;
  for (const Case &one : all_cases()) {
    nb::dict facts;
    facts["id"] = one.id();
    facts["area"] = one.area;
    facts["level"] = one.level();
    facts["groups"] = names_of(one.groups);
    facts["rules"] = words_of(one.rules);
    facts["title"] = one.title;
    facts["seconds"] = one.traits.seconds;
    facts["own_process"] = one.traits.own_process;
    facts["warn"] = one.traits.warn;
    facts["slow"] = one.traits.slow;
    out.append(facts);
  }
  return out;
}

nb::list mutants() {
  nb::list out;
  for (const Mutant &mutant : all_mutants()) {
    nb::dict facts;
    facts["name"] = mutant.name;
    facts["base"] = mutant.base;
    facts["rule"] = mutant.rule;
    facts["caught_by"] = mutant.caught_by;
    facts["text"] = mutant.text;
    out.append(facts);
  }
  return out;
}

nb::dict groups() {
  nb::dict out;
  for (const Group &group : all_groups()) out[group.name] = level_of(group.bit);
  return out;
}

// `entry`: of a built-in driver, else 0 and `library` is opened.
Target target_of(const std::string &name, uintptr_t entry, const std::string &library, const std::string &image,
                 const std::string &mutant, const std::string &layers, uint64_t seed,
                 const std::vector<std::string> &child_command) {
  Target target;
  target.open = entry ? reinterpret_cast<tb_driver_open_fn>(entry) : open_function(library);
  target.name = name;
  target.library = library;
  target.image = image;
  target.mutant = mutant;
  target.layers = layers;
  target.seed = seed;
  target.child_command = child_command;
  return target;
}

nb::dict run(Kit &kit, const std::string &id) {
  const Case *one = find_case(id);
  if (!one) throw nb::value_error(("there is no case " + id).c_str());
  Result result;
  {
    device::Unlocked unlocked;
    result = run_case(*one, kit);
  }
  nb::dict out;
  out["outcome"] = name_of(result.outcome);
  out["text"] = text_of(result.text);
  out["where"] = result.where;
  nb::list statements;
  for (const std::string &statement : result.statements) statements.append(text_of(statement));
  out["statements"] = statements;
  out["checks"] = result.checks;
  out["seconds"] = result.seconds;
  return out;
}

nb::dict about(Kit &kit) {
  const tb_driver_api &api = kit.api();
  tb_driver_info info{};
  info.struct_size = sizeof info;
  if (api.get_info && api.get_info(kit.self(), &info) != TB_OK) info = {};
  nb::dict out;
  out["name"] = text_of(std::string(info.name, strnlen(info.name, sizeof info.name)));
  out["version"] = text_of(std::string(info.version, strnlen(info.version, sizeof info.version)));
  out["abi"] = std::to_string(api.abi_major) + "." + std::to_string(api.abi_minor);
  out["build_id"] = text_of(api.build_id ? api.build_id : "");
  out["groups"] = names_of(api.groups);
  return out;
}

void close_kit(Kit &kit) {
  device::Unlocked unlocked;
  kit.close();
}

} // namespace
} // namespace tb::contract

NB_MODULE(_contract, module) {
  using namespace tb::contract;
  module.doc() = "The contract kit's cases and mutants, compiled; tb_device.contract runs them in child processes.";
  nb::register_exception_translator([](const std::exception_ptr &thrown, void *) {
    try {
      std::rethrow_exception(thrown);
    } catch (const Failed &failed) {
      PyErr_SetString(PyExc_RuntimeError, failed.what());
    }
  });
  nb::class_<Target>(module, "Target", "What is under test.")
      .def(
          "__init__",
          [](Target *self, const std::string &name, uintptr_t entry, const std::string &library,
             const std::string &image, const std::string &mutant, const std::string &layers, uint64_t seed,
             const std::vector<std::string> &child_command) {
            new (self) Target(target_of(name, entry, library, image, mutant, layers, seed, child_command));
          },
          "name"_a, "entry"_a, "library"_a, "image"_a, "mutant"_a, "layers"_a, "seed"_a, "child_command"_a);
  nb::class_<Kit>(module, "Session", "An open driver; RuntimeError with its text when it does not open.")
      .def(
          "__init__",
          [](Kit *self, const Target &target, const Options &options) {
            tb::device::Unlocked unlocked;
            new (self) Kit(target, options);
          },
          "target"_a, "options"_a)
      .def("about", about, nb::sig("def about(self) -> dict[str, object]"),
           "name, version, abi, build_id, groups as the driver tells them.")
      .def("run", run, "id"_a, nb::sig("def run(self, id: str) -> dict[str, object]"),
           "outcome, text, where, statements, checks, seconds of one case, run without Python's lock.")
      .def("close", close_kit, "The end of the driver; RuntimeError when it refuses.");
  module.def("cases", cases, nb::sig("def cases() -> list[dict[str, object]]"), "All cases in their order.");
  module.def("mutants", mutants, nb::sig("def mutants() -> list[dict[str, object]]"), "All mutants by name.");
  module.def("groups", groups, nb::sig("def groups() -> dict[str, int]"), "The groups and the level of each.");
  module.def("default_options", default_options, "driver"_a,
             "What a built-in driver is opened with unless asked otherwise: several small devices.");
  module.def(
      "run_child",
      [](const Target &target, const Options &options, const std::string &name) {
        tb::device::Unlocked unlocked;
        return child_main(target, options, name);
      },
      "target"_a, "options"_a, "name"_a, "The second process of a case; returns its exit code.");
}
