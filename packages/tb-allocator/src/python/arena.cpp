// arena.cpp -- tb_allocator.Arena: memory of a device apart from the rest, with a limit, that can be paused.
#include "python/arena.h"

#include <nanobind/stl/optional.h>
#include <nanobind/stl/string.h>

#include "arenas/arena_registry.h"
#include "buffers/buffer.h"
#include "heap/device_heaps.h"
#include "python/memory_stats.h"
#include "python/plan.h"
#include "python_errors.h"
#include "table/table.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace tb::allocator {
namespace {

struct Arena {
  Heap *heap = nullptr; // lives as long as the process: buffers may outlive the arena
  int32_t device = 0;
  bool contiguous = false;
  std::string tag;

  // Runs without Python's lock, because it waits for the device.
  template <class Body> void run(const char *function, Body body) {
    tb_status status;
    {
      nb::gil_scoped_release released;
      status = guarded(device, function, [&] { return body(*heap); });
    }
    check(status, function, device);
  }
};

void make(Arena *self, std::optional<int32_t> device, std::optional<uint64_t> limit, std::string tag, bool contiguous) {
  require_driver();
  Arena arena;
  arena.device = device ? *device : host.current_device();
  arena.contiguous = contiguous;
  arena.tag = std::move(tag);
  tb_arena *made = nullptr;
  uint64_t flags = contiguous ? TB_ARENA_CONTIGUOUS : 0;
  check(arena_create(arena.device, limit.value_or(UINT64_MAX), flags, &made), "Arena", arena.device);
  arena.heap = as_heap(made);
  new (self) Arena(std::move(arena));
}

// What this thread allocated from before each `with` block that it is in.
thread_local std::vector<tb_arena *> before;

void pause(Arena &self, const std::optional<std::string> &backup) {
  if (backup && *backup != "host") throw nb::value_error("backup is \"host\", or None to lose the contents");
  self.run("pause", [&](Heap &heap) { return heap.pause(backup.has_value()); });
}

} // namespace

void bind_arena(nb::module_ &m) {
  nb::class_<Arena>(m, "Arena",
                    "Memory of one device apart from all other, for what should have a limit, go away or stay together."
                    "\n\ndevice: number, by default the current one. limit: bytes, at most reserved. tag: a name for "
                    "people.\ncontiguous: plain memory of the driver, for IPC and for libraries that register memory; "
                    "it cannot\nbe paused. Buffers of an arena may outlive it.")
      .def("__init__", &make, "device"_a = nb::none(), nb::kw_only(), "limit"_a = nb::none(), "tag"_a = "",
           "contiguous"_a = false)
      .def(
          "empty",
          [](Arena &self, uint64_t nbytes, nb::handle stream) {
            return Buffer(allocate_storage(nbytes, self.device, stream, self.heap));
          },
          "nbytes"_a, "stream"_a.none() = nb::none(),
          nb::sig("def empty(self, nbytes: int, stream: object | None = None) -> tb_allocator.Buffer"),
          "As tb_allocator.empty(), from this arena. FailedPreconditionError while it is paused.")
      .def(
          "__enter__",
          [](nb::object self) {
            before.push_back(nullptr);
            before.back() = arena_enter(as_arena(nb::cast<Arena &>(self).heap));
            return self;
          },
          nb::sig("def __enter__(self) -> Arena"),
          "`with arena:` all that this thread allocates on the arena's device comes from it, PyTorch's tensors too.")
      .def(
          "__exit__",
          [](Arena &, nb::args) {
            arena_enter(before.back());
            before.pop_back();
          },
          nb::sig("def __exit__(self, *arguments: object) -> None"))
      .def(
          "plan",
          [](nb::object self, const std::string &name, int64_t warmup) {
            return make_plan(*nb::cast<Arena &>(self).heap, self, name, warmup);
          },
          "name"_a, "warmup"_a = 2, nb::sig("def plan(self, name: str, warmup: int = 2) -> Plan"),
          "The plan of that name, made where there is none: `with arena.plan(\"step\"):` around each repetition of a "
          "step"
          "\nthat allocates the same each time. Enters the arena too. The first `warmup` repetitions are recorded.")
      .def(
          "trim", [](Arena &self) { self.run("trim", [](Heap &heap) { return heap.empty_cache(); }); },
          "Give unused memory back to the driver. Waits for the device.")
      .def(
          "pause", &pause, "backup"_a.none() = "host",
          "Give all memory back while every buffer keeps its address: until resume() their bytes must not be "
          "touched.\n\n"
          "backup: \"host\" keeps the contents in host memory, None loses them. Waits for the device. When it raises "
          "for want\nof host memory or a failed copy, nothing has changed. UnsupportedError where memory does not come "
          "in pages.")
      .def(
          "resume", [](Arena &self) { self.run("resume", [](Heap &heap) { return heap.resume(); }); },
          "Take the memory back, at the same addresses and with the contents that pause() kept.\n\n"
          "OutOfMemoryError where the device has no room: the arena stays paused, and a later resume() may succeed.")
      .def(
          "memory_stats", [](Arena &self) { return statistics_of(*self.heap); },
          nb::sig("def memory_stats(self) -> dict[str, int]"), "As tb_allocator.memory_stats(), of this arena.")
      .def(
          "_snapshot",
          [](Arena &self) {
            std::string text = self.heap->snapshot();
            return nb::bytes(text.data(), text.size());
          },
          "The pickle of a memory snapshot of this arena.")
      .def_ro("device", &Arena::device, "Number of the device.")
      .def_ro("tag", &Arena::tag, "The name that it was given.")
      .def_ro("contiguous", &Arena::contiguous, "Whether its memory is plain memory of the driver.")
      .def_prop_ro(
          "paused", [](const Arena &self) { return self.heap->paused(); }, "Whether its memory is given back.");
}

} // namespace tb::allocator
