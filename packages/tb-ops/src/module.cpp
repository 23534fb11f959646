// The extension module of tb-ops: bindings only.
#include <nanobind/nanobind.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <iterator>

#include "backends/aclnn/aclnn.h"
#include "backends/aclnn/executor_cache.h"
#include "backends/aclnn/library.h"
#include "backends/backends.h"
#include "backends/torch_cuda/torch_cuda.h"
#include "backends/vendor/table.h"
#include "backends/vendor/vendor.h"
#include "device_kernels.h"
#include "dispatch/fallback_stats.h"
#include "dispatch/forced_fallback.h"
#include "dispatch/host_checks.h"
#include "dispatch/layout_cache/layout_caching_kernel.h"
#include "dispatch/redispatch.h"
#include "dispatch/synchronous_operators.h"
#include "operator_table.h"
#include "random/philox_state.h"
#include "runtime/call_site.h"
#include "runtime/late_warning_report.h"
#include "runtime/runtime.h"
#include "runtime/synchronize.h"
#include "tb/component_python.h"
#include "tb/tensor_caster.h"
#include "testing.h"

namespace nb = nanobind;
namespace ops = tb::ops;
using namespace nb::literals;

namespace {

void connect() {
  ops::Runtime &r = ops::runtime;
  if (!tb_import("tb-ops", "tb-device", "tb_device._core", TB_DEVICE_API_MAJOR, 2, &r.device, sizeof r.device) ||
      !tb_import("tb-ops", "tb-stream", "tb_stream._core", TB_STREAM_API_MAJOR, 3, &r.stream, sizeof r.stream) ||
      !tb_import("tb-ops", "tb-generator", "tb_generator._core", TB_GENERATOR_API_MAJOR, 1, &r.generator,
                 sizeof r.generator))
    throw nb::python_error();
  ops::connect_captures();
}

PyObject *origin_finder = nullptr; // for the life of the process

// A failure to find the place must not hide the operator's own error.
ops::Origin find_origin() {
  if (!Py_IsInitialized()) return {};
  const nb::gil_scoped_acquire gil;
  try {
    auto [where, stack] = nb::cast<std::pair<std::string, std::vector<std::string>>>(nb::handle(origin_finder)());
    return {std::move(where), std::move(stack)};
  } catch (const std::exception &) {
    return {};
  }
}

int64_t count_modules() {
  if (!Py_IsInitialized()) return 0;
  const nb::gil_scoped_acquire gil;
  return PyDict_Size(PyImport_GetModuleDict());
}

void set_origin_finder(nb::callable finder) {
  origin_finder = finder.release().ptr();
  ops::set_origin_finder(&find_origin);
  ops::set_module_counter(&count_modules);
}

PyObject *call_site_namer = nullptr; // for the life of the process

std::string name_call_site(const std::vector<tb::PythonCallSite::Frame> &frames) {
  if (!Py_IsInitialized()) return "";
  const nb::gil_scoped_acquire gil;
  nb::error_scope undisturbed; // the caller may be handling an exception
  try {
    nb::list pairs;
    for (const tb::PythonCallSite::Frame &frame : frames) pairs.append(nb::make_tuple(frame.code, frame.instruction));
    return nb::cast<std::string>(nb::handle(call_site_namer)(pairs));
  } catch (const std::exception &) {
    return ""; // the failure itself is raised all the same
  }
}

void record_call_sites(std::tuple<ptrdiff_t, ptrdiff_t, ptrdiff_t, ptrdiff_t, ptrdiff_t> offsets, nb::callable namer) {
  const auto [state, indirect, code, instruction, previous] = offsets;
  tb::frame_offsets = {state, indirect, code, instruction, previous};
  tb::frames_known = true;
  call_site_namer = namer.release().ptr();
  ops::set_call_site_namer(&name_call_site);
  ops::runtime.device.set_explainer(&ops::decode_call_site);
}

nb::tuple row(const ops::FallbackEntry &entry) {
  return nb::make_tuple(entry.name, entry.calls, entry.seconds, entry.bytes, entry.forced, entry.first.where,
                        nb::tuple(nb::cast(entry.first.stack)), entry.loading);
}

void set_fallback_mode(const std::string &mode) {
  for (size_t i = 0; i < std::size(ops::fallback_mode_names); i++)
    if (mode == ops::fallback_mode_names[i]) return ops::set_fallback_mode(static_cast<ops::FallbackMode>(i));
  throw nb::value_error(("fallback mode '" + mode + "' is not one of allow, warn, error").c_str());
}

nb::tuple added_backend(const tb_operator_backend &table) {
  return nb::make_tuple(nb::capsule(&table, TB_OPERATOR_BACKEND_CAPSULE), ops::own_source);
}

void set_added_backends(const std::vector<std::pair<nb::object, std::string>> &given) {
  std::vector<ops::OperatorBackend> added;
  for (const auto &[capsule, source] : given) {
    void *table = PyCapsule_GetPointer(capsule.ptr(), TB_OPERATOR_BACKEND_CAPSULE);
    if (!table) {
      PyErr_Clear();
      const std::string found = nb::cast<std::string>(nb::repr(capsule));
      TORCH_CHECK(false, source, " gave ", found,
                  " and no capsule named " TB_OPERATOR_BACKEND_CAPSULE
                  ". See tb/operator_backend.h, and install a version of the package for this tb-ops");
    }
    capsule.inc_ref(); // for the life of the process
    added.push_back({static_cast<const tb_operator_backend *>(table), source});
  }
  ops::set_added_backends(added);
}

void bind_backends(nb::module_ &m) {
  m.def("initialize", &ops::initialize, nb::call_guard<nb::gil_scoped_release>(),
        "Opens the driver and registers the kernels that fit it. Once; cheap after that.");
  m.def(
      "native", [] { return ops::runtime.closures; },
      "True when the driver runs the native kernels, False when every operator goes through the fallback.");
  m.def(
      "host_accessible", [] { return ops::runtime.host_accessible; },
      "True when the host may touch the device's memory: fallbacks then work in place, without copies.");
  m.def(
      "backends",
      [] {
        nb::list out;
        for (const auto &[backend, serves] : ops::backends())
          out.append(nb::make_tuple(backend.table->name, serves, backend.table->description, backend.table->rule,
                                    backend.source));
        return out;
      },
      nb::sig("def backends() -> list[tuple[str, bool, str, str, str]]"),
      "(name, whether it serves the open driver, what its operators are, which drivers it serves, where it is from) of "
      "every set of operators, in the order in which they register. Empty before initialize().");
  m.def(
      "own_added_backends",
      [] {
        nb::list out;
        out.append(added_backend(ops::torch_cuda::backend));
        out.append(added_backend(ops::aclnn::backend));
        return out;
      },
      nb::sig("def own_added_backends() -> list[tuple[object, str]]"),
      "The tables of this package for set_added_backends().");
  m.def(
      "set_added_backends", &set_added_backends, "backends"_a,
      nb::sig("def set_added_backends(backends: list[tuple[object, str]]) -> None"),
      "Sets the tables by tb/operator_backend.h, each in its capsule and with the name of where it is from. They come "
      "to their places among the sets of operators of backends.cpp.");
  m.def("add_kernel_library", &ops::vendor::add_library, "path"_a,
        "Names a library of a vendor's kernels (tb/kernels.h), which initialize() opens.");
  m.def(
      "vendor_kernels",
      [] {
        nb::list out;
        for (const auto &entry : ops::vendor::entries()) {
          nb::dict left;
          for (const auto &[reason, calls] : entry->reasons()) left[reason.c_str()] = calls;
          out.append(nb::make_tuple(entry->kernel.name, entry->kernel.operation, entry->source, entry->calls.load(),
                                    left, entry->problem));
        }
        return out;
      },
      nb::sig("def vendor_kernels() -> list[tuple[str, str, str, int, dict[str, int], str]]"),
      "(name, operation, where it is from, calls that it ran, calls that it left to others by reason, why it serves "
      "nothing or \"\") of each entry of the vendor's tables.");
  m.def(
      "serve_defined", &ops::vendor::serve_defined, "operation"_a, "entry"_a, nb::call_guard<nb::gil_scoped_release>(),
      "Registers the kernels of the tables' entries of an operator, whose declaration names one of them. RuntimeError, "
      "here or at the first use of the device, if that is an entry of another operation.");
  m.def(
      "cuda_operators",
      [] {
        const ops::RedispatchCopies &copies = ops::redispatch_copies();
        return nb::make_tuple(ops::torch_cuda::active(), ops::torch_cuda::reason(), copies.results.load(),
                              copies.bytes.load());
      },
      nb::sig("def cuda_operators() -> tuple[bool, str, int, int]"),
      "Whether PyTorch's own CUDA kernels run the operators, why not (\"\": they do), and how many new results, of how "
      "many bytes in all, were copied from memory of its allocator.");
  m.def(
      "aclnn_library",
      [] {
        const ops::aclnn::State &state = ops::aclnn::state();
        const ops::aclnn::Library *library = state.ascend ? &ops::aclnn::library() : nullptr;
        return nb::make_tuple(library ? library->path : "", library ? library->reason : "", state.operators,
                              nb::cast(state.missing));
      },
      nb::sig("def aclnn_library() -> tuple[str, str, int, list[str]]"),
      "The library of operators in two phases (\"\": none), why there is none, how many operators of PyTorch it runs, "
      "and those whose function it lacks.");
  m.def(
      "aclnn_executors",
      [] {
        const ops::aclnn::ExecutorCounts counts = ops::aclnn::executor_cache().counts();
        return nb::make_tuple(counts.hits, counts.misses, counts.dropped, counts.kept, counts.room);
      },
      nb::sig("def aclnn_executors() -> tuple[int, int, int, int, int]"),
      "Calls that used an executor again, those that found none, executors dropped for want of room, kept now, room.");
}

void bind_call_sites(nb::module_ &m) {
  m.def("_set_origin_finder", &set_origin_finder, "finder"_a,
        nb::sig("def _set_origin_finder(finder: collections.abc.Callable[[], tuple[str, list[str]]]) -> None"),
        "finder() -> (place, stack) says where Python is, on the thread that asks.");
  m.def("_record_call_sites", &record_call_sites, "offsets"_a, "namer"_a,
        nb::sig("def _record_call_sites(offsets: tuple[int, int, int, int, int], "
                "namer: collections.abc.Callable[[list[tuple[int, int]]], str]) -> None"),
        "Launches record their place in Python from now on; namer(frames) names it when one has failed.");
  m.def(
      "_set_warning_reporter", [](nb::callable reporter) { ops::set_warning_reporter(reporter.release().ptr()); },
      "reporter"_a,
      nb::sig("def _set_warning_reporter(reporter: collections.abc.Callable[[list[tuple[str, bool, "
              "list[tuple[int, int]], int]], int], tuple[BaseException | None, list[int]]]) -> None"),
      "reporter(warnings, dropped) hands the warnings of kernels to Python, as tb_ops._late_warnings.report does.");
}

void bind_fallbacks(nb::module_ &m) {
  m.def(
      "fallbacks",
      [] {
        nb::list out;
        for (const ops::FallbackEntry &entry : ops::fallbacks()) out.append(row(entry));
        return out;
      },
      nb::sig("def fallbacks() -> list[tuple[str, int, float, int, int, str, tuple[str, ...], float]]"),
      "(operator, calls, seconds, bytes, forced calls, first place, first stack, loading seconds), most time first.");
  m.def("fallback_seconds", &ops::fallback_seconds,
        "Seconds since the fallback statistics were reset, or since the start.");
  m.def("reset_fallbacks", &ops::reset_fallbacks, "Empties the fallback statistics.");
  m.def("open_budget", &ops::open_budget, "calls"_a, "Allows that many fallbacks until it is closed; its number.");
  m.def("close_budget", &ops::close_budget, "number"_a, "The first refusal's text; empty when there was none.");
  m.def("force_fallback", &ops::force_fallback, "name"_a, "overload"_a, "The CPU runs the operator until released.");
  m.def("release_fallback", &ops::release_fallback, "name"_a, "overload"_a, "Undoes one force_fallback.");
  m.def("forced_fallbacks", &ops::forced_fallbacks, "The operators that are forced now.");
  m.def("set_fallback_mode", &set_fallback_mode, "mode"_a, "allow, warn (once per operator) or error.");
  m.def("fallback_mode",
        [] { return std::string(ops::fallback_mode_names[static_cast<size_t>(ops::fallback_mode())]); });
}

void bind_waits(nb::module_ &m) {
  m.def("synchronous_operators", &ops::synchronous_operators,
        "(operator, reason) of native operators that wait for the device.");
  m.def(
      "checked_operators", &ops::checked_operators,
      "(operator, when) of native operators that check on the host and wait for that; in all calls where it is empty.");
  m.def("layout_cached_operators", &ops::layout_cached_operators,
        "Native operators that wait at the first call with new shapes.");
  m.def(
      "set_sync_debug_mode", [](int mode) { ops::set_sync_debug_mode(static_cast<ops::SyncDebugMode>(mode)); },
      "mode"_a, "0: nothing, 1: warn when an operator waits for the device, 2: raise instead.");
  m.def(
      "sync_debug_mode", [] { return static_cast<int>(ops::sync_debug_mode()); },
      "The mode that set_sync_debug_mode() set last: 0, 1 or 2.");
}

} // namespace

NB_MODULE(_core, m) {
  nb::set_leak_warnings(false);
  tb::register_torch_exceptions();
  m.attr("_tb_export") = nb::capsule(&ops::exported, TB_EXPORT_CAPSULE);
  m.def("_connect", &connect);
  bind_backends(m);
  ops::bind_device_kernels(m);
  ops::bind_images(m);
  bind_call_sites(m);
  bind_fallbacks(m);
  bind_waits(m);
  ops::bind_testing(m);
}
