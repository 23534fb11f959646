// The extension module of tb-ops: connecting, registering, the ledger.
#include <nanobind/nanobind.h>
#include <nanobind/stl/function.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/tuple.h>
#include <nanobind/stl/vector.h>

#include <functional>
#include <mutex>

#include "backends/aclnn/executor_cache.h"
#include "backends/aclnn/library.h"
#include "backends/aclnn/aclnn.h"
#include "runtime/call_site.h"
#include "random/philox_state.h"
#include "custom/custom.h"
#include "backends/jit/compiler/compiler.h"
#include "backends/jit/compiler/image_cache.h"
#include "backends/jit/jit.h"
#include "backends/torch_cuda/torch_cuda.h"
#include "dispatch/fallback.h"
#include "backends/host/gemm/kernel_choices.h"
#include "backends/host/attention/float_attention.h"
#include "backends/host/host.h"
#include "backends/host/foreach/foreach_fusion.h"
#include "backends/host/gemm/parallel_gemm.h"
#include "runtime/late_warnings.h"
#include "dispatch/host_checks.h"
#include "dispatch/layout_cache/layout_caching_kernel.h"
#include "dispatch/fallback_stats.h"
#include "tensor/output_donation.h"
#include "backends/backends.h"
#include "runtime/runtime.h"
#include "intraop/affinity.h"
#include "tb/component_python.h"
#include "tb/tensor_caster.h"
#include "runtime/synchronize.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace {

void connect() {
  tb::Runtime &r = tb::runtime;
  if (!tb_import("tb-ops", "tb-device", "tb_device._core", TB_DEVICE_API_MAJOR, 2, &r.device, sizeof r.device) ||
      !tb_import("tb-ops", "tb-stream", "tb_stream._core", TB_STREAM_API_MAJOR, 1, &r.stream, sizeof r.stream) ||
      !tb_import("tb-ops", "tb-generator", "tb_generator._core", TB_GENERATOR_API_MAJOR, 1, &r.generator,
                 sizeof r.generator))
    throw nb::python_error();
  tb::connect_captures();
}

// Once; a failure leaves nothing registered, so that a later call may succeed.
void initialize() {
  static std::mutex lock;
  static bool done = false;
  nb::gil_scoped_release release; // opening may take it for entry points
  const std::lock_guard guard(lock);
  if (done) return;
  TORCH_CHECK(c10::GetAllocator(tb::device_type) != nullptr,
              "tb-ops needs an allocator for the device type; import torch_backend, which registers it, first.");
  tb::open();
  tb::check(tb::runtime.device.on_shutdown(&tb::tell_last_warnings, nullptr), "on_shutdown", -1);
  tb::open_executor();
  static auto *aten =
      new torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::PrivateUse1, __FILE__, __LINE__);
  static auto *autograd =
      new torch::Library(torch::Library::IMPL, "aten", c10::DispatchKey::AutogradPrivateUse1, __FILE__, __LINE__);
  tb::register_factories(*aten);
  tb::register_routed_views(*aten);
  tb::register_copies(*aten);
  tb::register_fallback();
  if (tb::runtime.closures) {
    tb::install_placements();
    tb::register_structured(*aten);
    tb::register_routed_kernels(*aten);
    tb::register_native(*aten);
    tb::register_linear(*autograd);
    tb::register_random(*aten);
    tb::register_waiting(*aten);
    tb::register_learned(*aten);
    tb::register_custom();
  } else {
    tb::register_host_random(*aten);
    tb::register_convolution_fallback(*aten);
    const bool device_kernels = tb::device::available();
    if (tb::executor()) tb::register_waiting(*aten);
    if (device_kernels && tb::executor())
      tb::device::register_random(*aten); // the bits of the other drivers
    else if (device_kernels)
      tb::device::register_all(*aten);
    else
      tb::register_composed_dropout(*aten);
    if (tb::executor()) tb::register_executor(*aten);
    if (tb::aclnn::available()) tb::aclnn::register_all(*aten);
  }
  done = true;
}

PyObject *origin_finder = nullptr; // for the life of the process

// Where Python is; a failure to find out must not hide the operator's own error.
tb::Origin find_origin() {
  if (!Py_IsInitialized()) return {};
  const nb::gil_scoped_acquire gil;
  try {
    auto [where, stack] = nb::cast<std::pair<std::string, std::vector<std::string>>>(nb::handle(origin_finder)());
    return {std::move(where), std::move(stack)};
  } catch (const std::exception &) {
    return {};
  }
}

void set_origin_finder(nb::callable finder) {
  origin_finder = finder.release().ptr();
  tb::set_origin_finder(&find_origin);
}

PyObject *place_finder = nullptr; // for the life of the process

std::string find_place(const std::vector<tb::Caller::Frame> &frames) {
  if (!Py_IsInitialized()) return "";
  const nb::gil_scoped_acquire gil;
  nb::error_scope undisturbed; // whoever takes the text may be handling an exception
  try {
    nb::list pairs;
    for (const tb::Caller::Frame &frame : frames) pairs.append(nb::make_tuple(frame.code, frame.instruction));
    return nb::cast<std::string>(nb::handle(place_finder)(pairs));
  } catch (const std::exception &) {
    return ""; // the failure itself is told all the same
  }
}

void note_callers(std::tuple<ptrdiff_t, ptrdiff_t, ptrdiff_t, ptrdiff_t, ptrdiff_t> offsets, nb::callable finder) {
  const auto [state, indirect, code, instruction, previous] = offsets;
  tb::frame_offsets = {state, indirect, code, instruction, previous};
  tb::frames_known = true;
  place_finder = finder.release().ptr();
  tb::set_place_finder(&find_place);
  tb::runtime.device.set_explainer(&tb::replace_mark);
}

void set_warning_teller(nb::callable teller) { tb::set_warning_teller(teller.release().ptr()); }

nb::tuple row(const tb::FallbackEntry &entry) {
  return nb::make_tuple(entry.name, entry.calls, entry.seconds, entry.bytes, entry.forced, entry.first.where,
                        nb::tuple(nb::cast(entry.first.stack)));
}

} // namespace

NB_MODULE(_core, m) {
  nb::set_leak_warnings(false);
  tb::register_torch_exceptions();
  m.attr("_tb_export") = nb::capsule(&tb::exported, TB_EXPORT_CAPSULE);
  m.def("_connect", &connect);
  m.def("initialize", &initialize, "Opens the driver and registers the kernels that fit it. Once; cheap after that.");
  m.def(
      "native", [] { return tb::runtime.closures; },
      "True when the driver runs the native kernels, False when every operator goes through the fallback.");
  m.def(
      "fallbacks",
      [] {
        nb::list out;
        for (const tb::FallbackEntry &entry : tb::fallbacks()) out.append(row(entry));
        return out;
      },
      nb::sig("def fallbacks() -> list[tuple[str, int, float, int, int, str, tuple[str, ...]]]"),
      "(operator, calls, seconds, bytes, forced calls, first place, first stack), most time first.");
  m.def(
      "host_accessible", [] { return tb::runtime.host_accessible; },
      "True when the host may touch the device's memory: fallbacks then work in place, without copies.");
  m.def("set_kernel_folder", &tb::device::set_header_folder, "folder"_a,
        "Where the sources of device kernels are installed; before the first of them runs.");
  m.def(
      "kernel_images",
      [] {
        const tb::device::ImageCounts counts = tb::device::image_counts();
        return nb::make_tuple(counts.compiled, counts.found, tb::device::cache_folder());
      },
      nb::sig("def kernel_images() -> tuple[int, int, str]"),
      "Device kernels that this process compiled, those that it found in the cache, and the cache's folder.");
  m.def(
      "cuda_operators",
      [] {
        const tb::ExecutorState &state = tb::executor_state();
        return nb::make_tuple(tb::executor(), state.reason, state.copies.load(), state.copied_bytes.load());
      },
      nb::sig("def cuda_operators() -> tuple[bool, str, int, int]"),
      "Whether PyTorch's own CUDA kernels run the operators, why not (\"\": they do), and how many new results, of how "
      "many bytes in all, were copied from memory of its allocator.");
  m.def(
      "aclnn_library",
      [] {
        const tb::aclnn::State &state = tb::aclnn::state();
        const tb::aclnn::Library *library = state.ascend ? &tb::aclnn::library() : nullptr;
        return nb::make_tuple(library ? library->path : "", library ? library->reason : "", state.operators,
                              nb::cast(state.missing));
      },
      nb::sig("def aclnn_library() -> tuple[str, str, int, list[str]]"),
      "The library of operators in two phases (\"\": none), why there is none, how many operators of PyTorch it runs, "
      "and those whose function it lacks.");
  m.def(
      "aclnn_executors",
      [] {
        const tb::aclnn::ExecutorCounts counts = tb::aclnn::executors().counts();
        return nb::make_tuple(counts.hits, counts.misses, counts.dropped, counts.kept, counts.room);
      },
      nb::sig("def aclnn_executors() -> tuple[int, int, int, int, int]"),
      "Calls that used an executor again, those that found none, executors dropped for want of room, kept now, room.");
  m.def(
      "clear_aclnn_executors", [] { tb::aclnn::executors().clear(); }, nb::call_guard<nb::gil_scoped_release>(),
      "Destroys the executors that are kept.");
  m.def("ledger_seconds", &tb::ledger_seconds, "Seconds since the ledger was last empty by reset or start.");
  m.def("_set_origin_finder", &set_origin_finder, "finder"_a,
        nb::sig("def _set_origin_finder(finder: collections.abc.Callable[[], tuple[str, list[str]]]) -> None"),
        "finder() -> (place, stack) tells where Python is, on the thread that asks.");
  m.def("_note_callers", &note_callers, "offsets"_a, "finder"_a,
        nb::sig("def _note_callers(offsets: tuple[int, int, int, int, int], "
                "finder: collections.abc.Callable[[list[tuple[int, int]]], str]) -> None"),
        "Launches note their place in Python from now on; finder(frames) names it when one has failed.");
  m.def("_set_warning_teller", &set_warning_teller, "teller"_a,
        nb::sig("def _set_warning_teller(teller: collections.abc.Callable[[list[tuple[str, bool, "
                "list[tuple[int, int]], int]], int], tuple[BaseException | None, list[int]]]) -> None"),
        "teller(warnings, dropped) gives Python what kernels warned of, as tb_ops._late_warnings.tell does.");
  m.def("open_budget", &tb::open_budget, "calls"_a, "Allows that many fallbacks until it is closed; its number.");
  m.def("close_budget", &tb::close_budget, "number"_a, "The first refusal's text; empty when there was none.");
  m.def("force_fallback", &tb::force_fallback, "name"_a, "overload"_a, "The CPU runs the operator until released.");
  m.def("release_fallback", &tb::release_fallback, "name"_a, "overload"_a, "Undoes one force_fallback.");
  m.def("forced_fallbacks", &tb::forced_fallbacks, "The operators that are forced now.");
  m.def("waiting_operators", &tb::waiting_operators, "(operator, reason) of native kernels that wait for the device.");
  m.def(
      "tried_products",
      [] {
        nb::list out;
        for (const auto &[size, ours] : tb::tried_products())
          out.append(nb::make_tuple(size.count, size.rows, size.columns, size.inner, size.left_transposed,
                                    size.right_transposed, size.threads, ours));
        return out;
      },
      nb::sig("def tried_products() -> list[tuple[int, int, int, int, bool, bool, int, bool]]"),
      "Sizes of float matrix products that came up often enough to be tried: products in a batch (0: one of its "
      "own), rows, columns, terms of a sum, whether the left and the right factor are transposed in memory, threads; "
      "and whether tb-ops' kernel makes them, which it does where it was faster than the BLAS and had its bits.");
  m.def(
      "tried_attention",
      [] {
        nb::list out;
        for (const auto &[size, ours] : tb::tried_attention())
          out.append(nb::make_tuple(size.batch, size.heads, size.queries, size.keys, size.width, size.causal,
                                    size.backward, ours));
        return out;
      },
      nb::sig("def tried_attention() -> list[tuple[int, int, int, int, int, bool, bool, bool]]"),
      "Sizes of float attention that came up often enough to be tried: batch, heads, queries, keys, size of a head, "
      "whether it is causal, whether it is the backward pass; and whether tb-ops' kernel computes it, which it does "
      "where it was faster than PyTorch's and had its bits.");
  m.def("_sgemm", &tb::run_sgemm, "left"_a, "right"_a, "out"_a, "add"_a,
        "The kernel of float matrix products itself, for tests: out = left right or, with `add`, out += left right, of "
        "CPU matrices, or batches of them, whose rows or columns are dense. False: this processor has no AVX-512.");
  m.def("placements", &tb::placements,
        "Bytes of results so far that CPU operators made in the memory of tb's own, and bytes that had to be copied "
        "there from elsewhere.");
  m.def(
      "team_starts", &tb::spread_teams,
      "OpenMP teams so far of which some threads were new, and how many of these began on the processor of the thread "
      "that made them and had to leave it. Those of the queues' workers; not what PyTorch starts for CPU tensors.");
  m.def("lists_run_together", &tb::lists_run_together,
        "Operations on lists (_foreach_*) so far that a queue's worker ran piece by piece together with the one before "
        "them.");
  m.def(
      "_place",
      [](const std::vector<at::Tensor> &wanted, const std::function<std::vector<at::Tensor>()> &make) {
        tb::Placement placement(wanted);
        placement.take(make());
      },
      "wanted"_a, "make"_a,
      "A placement itself, for tests: what `make` returns comes to lie in the wanted CPU tensors, in their order.");
  m.def(
      "checked_operators", &tb::checked_operators,
      "(operator, when) of native operators that check on the host and wait for that; in all calls where it is empty.");
  m.def("learned_operators", &tb::learned_operators, "Native operators that wait at the first call with new shapes.");
  m.def("reset_fallbacks", &tb::reset_fallbacks, "Empties the ledger.");
  m.def(
      "set_fallback_mode",
      [](const std::string &mode) {
        for (const auto &[text, value] : {std::pair{"allow", tb::FallbackMode::allow},
                                          {"warn", tb::FallbackMode::warn},
                                          {"error", tb::FallbackMode::error}})
          if (mode == text) return tb::set_fallback_mode(value);
        throw nb::value_error(("fallback mode '" + mode + "' is not one of allow, warn, error").c_str());
      },
      "mode"_a, "allow, warn (once per operator) or error.");
  m.def(
      "set_sync_debug_mode", [](int mode) { tb::set_sync_debug_mode(static_cast<tb::SyncDebugMode>(mode)); }, "mode"_a,
      "0: nothing, 1: warn when an operator waits for the device, 2: raise instead.");
  m.def("sync_debug_mode", [] { return static_cast<int>(tb::sync_debug_mode()); });
  m.def("fallback_mode", [] {
    return std::string(tb::fallback_mode() == tb::FallbackMode::allow  ? "allow"
                       : tb::fallback_mode() == tb::FallbackMode::warn ? "warn"
                                                                       : "error");
  });
}
