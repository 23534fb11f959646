// core.cpp -- the module tb_allocator._core.
#include <nanobind/nanobind.h>
#include <nanobind/stl/optional.h>
#include <nanobind/stl/pair.h>
#include <nanobind/stl/string.h>

#include <string>

#include "arenas/capture.h"
#include "buffers/buffer.h"
#include "diagnostics/report.h"
#include "heap/device_heaps.h"
#include "interop/foreign.h"
#include "python/arena.h"
#include "python/buffer.h"
#include "python/memory_stats.h"
#include "python/plan.h"
#include "python/replay.h"
#include "python_errors.h"
#include "table/table.h"
#include "tb/component_python.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace tb::allocator {

namespace {

int32_t device_or_current(std::optional<int32_t> device) {
  require_driver();
  int32_t asked = device ? *device : host.current_device();
  if (asked < 0) raise(TB_OUT_OF_RANGE, "device", asked, "devices are counted from 0");
  return asked;
}

nb::dict memory_stats(std::optional<int32_t> asked) {
  int32_t device = device_or_current(asked);
  tb_allocator_statistics all{};
  all.struct_size = sizeof all;
  check(allocator_table.statistics(device, &all), "statistics", device);
  return as_dict(all);
}

nb::dict host_memory_stats() {
  require_driver();
  tb_allocator_statistics all{};
  all.struct_size = sizeof all;
  check(allocator_table.host_statistics(&all), "host_statistics", -1);
  return as_dict(all);
}

void empty_cache(std::optional<int32_t> asked) {
  int32_t device = asked ? device_or_current(asked) : -1;
  if (!host.is_open()) return; // nothing can be cached
  tb_status status;
  {
    nb::gil_scoped_release released;
    status = allocator_table.empty_cache(device);
  }
  check(status, "empty_cache", device);
}

void empty_host_cache() {
  if (!host.is_open()) return;
  tb_status status;
  {
    nb::gil_scoped_release released;
    status = allocator_table.host_empty_cache();
  }
  check(status, "host_empty_cache", -1);
}

std::pair<uint64_t, uint64_t> mem_get_info(std::optional<int32_t> asked) {
  int32_t device = device_or_current(asked);
  uint64_t free = 0, total = 0;
  check(allocator_table.memory_info(device, &free, &total), "device_memory_info", device);
  return {free, total};
}

void set_memory_limit(std::optional<uint64_t> nbytes, std::optional<int32_t> asked) {
  int32_t device = device_or_current(asked);
  check(allocator_table.set_limit(device, nbytes.value_or(UINT64_MAX)), "set_limit", device);
}

void reset_peak_memory_stats(std::optional<int32_t> asked) {
  int32_t device = device_or_current(asked);
  check(allocator_table.reset_peak(device), "reset_peak", device);
}

void reset_accumulated_memory_stats(std::optional<int32_t> asked) {
  int32_t device = device_or_current(asked);
  check(allocator_table.reset_accumulated(device), "reset_accumulated", device);
}

// Calls read(heap) without Python's lock, because it may take long. device -1: pinned memory.
template <class Read> auto read_heap(int32_t device, Read read) {
  Heap *heap = nullptr;
  check(heap_for(device, &heap), "snapshot", device);
  nb::gil_scoped_release released;
  return read(*heap);
}

template <class Read> auto of_heap(std::optional<int32_t> asked, Read read) {
  return read_heap(device_or_current(asked), read);
}

nb::bytes as_bytes(const std::string &text) { return nb::bytes(text.data(), text.size()); }

nb::bytes host_snapshot() {
  require_driver();
  return as_bytes(read_heap(-1, [](Heap &heap) { return heap.snapshot(); }));
}

} // namespace
} // namespace tb::allocator

using namespace tb::allocator;

NB_MODULE(_core, m) {
  nb::set_leak_warnings(false); // with torch, a script's globals are destroyed after nanobind's check
  m.doc() = "The caching allocators over tb-device.";
  m.def(
      "_connect",
      [] {
        if (!tb_import("tb-allocator", "tb-device", "tb_device._core", TB_DEVICE_API_MAJOR, 0, &tb::host,
                       sizeof tb::host))
          throw nb::python_error();
      },
      "Take tb-device's table. Called once, by the package.");
  m.def(
      "_connect_streams",
      [] {
        if (!tb_import("tb-allocator", "tb-stream", "tb_stream._core", TB_STREAM_API_MAJOR, 0, &streams,
                       sizeof streams))
          throw nb::python_error();
        tb::check(connect_captures(streams), "connect_captures", -1);
      },
      "Take tb-stream's table, for the current stream. Called once, by the package, where tb-stream is installed.");
  bind_buffer(m);
  bind_plan(m);
  bind_arena(m);
  m.def(
      "plan",
      [](const std::string &name, int64_t warmup, std::optional<int32_t> device) {
        int32_t asked = device_or_current(device);
        Heap *heap = nullptr;
        tb::check(heap_for(asked, &heap), "plan", asked);
        return make_plan(*heap, nb::none(), name, warmup);
      },
      "name"_a, "warmup"_a = 2, "device"_a = nb::none(),
      nb::sig("def plan(name: str, warmup: int = 2, device: int | None = None) -> Plan"),
      "As Arena.plan(), of all that any thread allocates on the device outside of arenas during the step: PyTorch's\n"
      "tensors too, on the way back as well.");
  bind_replay(m);
  m.def("memory_stats", memory_stats, "device"_a = nb::none(),
        nb::sig("def memory_stats(device: int | None = None) -> dict[str, int]"),
        "The counts of a device's allocator (of the current device by default) under PyTorch's flat keys, such as\n"
        "\"allocated_bytes.all.peak\". Sizes are bytes.");
  m.def("host_memory_stats", host_memory_stats, nb::sig("def host_memory_stats() -> dict[str, int]"),
        "The counts of the pinned host allocator, under the keys of memory_stats().");
  m.def("reset_peak_memory_stats", reset_peak_memory_stats, "device"_a = nb::none(),
        "Reset the peaks to the current values.");
  m.def("reset_accumulated_memory_stats", reset_accumulated_memory_stats, "device"_a = nb::none(),
        "Reset the sums (allocated, freed, num_*) to 0.");
  m.def("empty_cache", empty_cache, "device"_a = nb::none(),
        "Give unused cached memory back to the driver, of all devices by default. Waits for the device.");
  m.def("empty_host_cache", empty_host_cache, "Give unused cached pinned memory back to the driver.");
  m.def("mem_get_info", mem_get_info, "device"_a = nb::none(), "Free and total bytes of a device, as its driver says.");
  m.def("set_memory_limit", set_memory_limit, "nbytes"_a.none(), "device"_a = nb::none(),
        "Never reserve more than `nbytes` of the device's memory; None: no limit. Memory that is reserved already is "
        "kept.");
  m.def(
      "_snapshot",
      [](std::optional<int32_t> device) {
        return as_bytes(of_heap(device, [](Heap &heap) { return heap.snapshot(); }));
      },
      "device"_a.none(), "The pickle that memory_snapshot() loads.");
  m.def("_host_snapshot", &host_snapshot, "The pickle that host_memory_snapshot() loads.");
  m.def(
      "_rmm_log",
      [](std::optional<int32_t> device) { return of_heap(device, [](Heap &heap) { return heap.rmm_log(); }); },
      "device"_a.none(), "The history as a log of RMM.");
  m.def(
      "_trace", [](std::optional<int32_t> device) { return of_heap(device, [](Heap &heap) { return heap.trace(); }); },
      "device"_a.none(), "The history as a trace for tb_allocator.replay.");
  m.def(
      "record_memory_history",
      [](uint64_t events, std::optional<int32_t> device) {
        of_heap(device, [=](Heap &heap) {
          heap.resize_history(events);
          return 0;
        });
      },
      "events"_a = uint64_t{1} << 16, "device"_a = nb::none(),
      "Forget a device's history and remember the last `events` from now on, rounded up to a power of two; 0: none.\n"
      "Each takes 48 bytes. MemoryError where that is too much.");
  m.def(
      "_foreign_stream",
      [](int32_t device, uint64_t native) {
        tb_stream *stream = nullptr;
        tb::check(foreign_stream(device, native, &stream), "stream_wrap", device);
        return reinterpret_cast<uintptr_t>(stream);
      },
      "device"_a, "native"_a, "The address of the tb_stream of a native stream handle; 0: the default stream.");
  m.def("_bytes_text", bytes_text, "nbytes"_a, "\"1.50 GiB\".");
  m.attr(TB_EXPORT_ATTRIBUTE) = nb::capsule(&allocator_export, TB_EXPORT_CAPSULE);
}
