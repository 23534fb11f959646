// Cases about misuse: the layer validate refuses it with a text, the driver never sees it, and right use of
// the same functions still passes.
#include <atomic>
#include <utility>

#include "contract/support/layered.h"

namespace tb::contract::misuse_validation_cases {
namespace {

// Refused with this status and a text that has this part.
#define CHECK_REFUSED(call, status, part)                                                                              \
  do {                                                                                                                 \
    (void)kit.take_error();                                                                                            \
    const tb_status got = (call);                                                                                      \
    const std::string reported = kit.take_error().text;                                                                \
    CHECK_EQUAL(got, static_cast<tb_status>(status));                                                                  \
    if (reported.find(part) == std::string::npos)                                                                      \
      fail_check(__FILE__, __LINE__, "no '" + std::string(part) + "' in " + reported);                                 \
  } while (false)

struct Memory {
  Memory(Kit &kit, Layered &layered, uint64_t size, int32_t device = 0) : kit(kit), layered(layered), device(device) {
    void *out = nullptr;
    CHECK_OK(layered.api.mem_alloc(layered.self, device, size, 0, &out));
    data = static_cast<char *>(out);
  }
  ~Memory() {
    if (data) (void)layered.api.mem_free(layered.self, device, data);
  }
  void free() { CHECK_OK(layered.api.mem_free(layered.self, device, std::exchange(data, nullptr))); }
  Kit &kit;
  Layered &layered;
  int32_t device;
  char *data = nullptr;
};

tb_stream *stream_of(Kit &kit, Layered &layered, int32_t device = 0) {
  tb_stream *stream = nullptr;
  if (kit.has_async()) CHECK_OK(layered.api.stream_default(layered.self, device, &stream));
  return stream;
}

} // namespace

TB_CASE(MIS, 01, TB_GROUP_ASYNC, "E7 stream_query.1", "use after destroy names the call that destroyed") {
  Layered layered(kit, "validate");
  tb_stream *stream = nullptr;
  CHECK_OK(layered.api.stream_create(layered.self, 0, 0, 0, &stream));
  CHECK_OK(layered.api.stream_synchronize(layered.self, stream));
  CHECK_OK(layered.api.stream_destroy(layered.self, stream));
  CHECK_REFUSED(layered.api.stream_query(layered.self, stream), TB_INVALID_ARGUMENT, "call 3 (stream_destroy)");
  CHECK_REFUSED(layered.api.stream_synchronize(layered.self, stream), TB_INVALID_ARGUMENT, "call 1 (stream_create)");
}

TB_CASE(MIS, 02, TB_GROUP_ASYNC, "E8 event_destroy.1",
        "destroying twice is refused; destroying a pending event is not") {
  need_submit(kit);
  Layered layered(kit, "validate");
  tb_event *event = nullptr;
  kit::Stream stream(kit);
  CHECK_OK(layered.api.event_create(layered.self, 0, 0, &event));
  {
    kit::Gate gate(kit, stream);
    CHECK_OK(kit.api().event_record(kit.self(), event, stream));
    CHECK_OK(layered.api.event_destroy(layered.self, event));
  }
  CHECK_REFUSED(layered.api.event_destroy(layered.self, event), TB_INVALID_ARGUMENT, "call 2 (event_destroy)");
}

TB_CASE(MIS, 03, TB_GROUP_CORE, "mem_alloc.5 mem_copy.3", "a stream, block or copy of another device is refused") {
  kit.need_devices(2);
  Layered layered(kit, "validate");
  Memory here(kit, layered, 64), there(kit, layered, 64, 1);
  tb_stream *first = stream_of(kit, layered, 0), *second = stream_of(kit, layered, 1);
  CHECK_REFUSED(layered.api.mem_set(layered.self, 0, first, there.data, 0, 1, 64), TB_INVALID_ARGUMENT, "of device 1");
  CHECK_REFUSED(layered.api.mem_free(layered.self, 1, here.data), TB_INVALID_ARGUMENT, "on device 0");
  if (kit.has_async())
    CHECK_REFUSED(layered.api.mem_set(layered.self, 0, second, here.data, 0, 1, 64), TB_INVALID_ARGUMENT, "stream");
  CHECK_OK(layered.api.mem_set(layered.self, 1, second, there.data, 0, 1, 64));
  CHECK_OK(layered.api.mem_copy(layered.self, 0, first, nullptr, nullptr, 0, TB_COPY_HOST_TO_DEVICE));
  kit.synchronize(kit.has_async() ? second : nullptr);
}

TB_CASE(MIS, 04, TB_GROUP_ASYNC, "E7", "a handle of another open driver is refused as such") {
  tb_driver_api api{};
  api.struct_size = sizeof api;
  tb_driver *self = nullptr;
  const tb_status opened = kit.open_raw(Kit::host(), &api, &self);
  if (opened == TB_ALREADY_EXISTS) throw NotOffered("a second open");
  CHECK_OK(opened);
  {
    Layered layered(kit, "validate"), other(api, self, "validate");
    tb_stream *foreign = nullptr;
    CHECK_OK(other.api.stream_create(other.self, 0, 0, 0, &foreign));
    CHECK_REFUSED(layered.api.stream_synchronize(layered.self, foreign), TB_INVALID_ARGUMENT, "another open driver");
    CHECK_OK(other.api.stream_destroy(other.self, foreign));
  }
  CHECK_OK(api.close(self));
}

TB_CASE(MIS, 05, TB_GROUP_CORE, "E1 E7 mem_free.2",
        "NULL is refused where it means nothing, and accepted where it may") {
  Layered layered(kit, "validate");
  CHECK_REFUSED(layered.api.mem_alloc(layered.self, 0, 64, 0, nullptr), TB_INVALID_ARGUMENT, "'out'");
  CHECK_REFUSED(layered.api.get_info(layered.self, nullptr), TB_INVALID_ARGUMENT, "'out'");
  CHECK_OK(layered.api.mem_free(layered.self, 0, nullptr));
  if (!kit.has_async()) return;
  CHECK_REFUSED(layered.api.stream_synchronize(layered.self, nullptr), TB_INVALID_ARGUMENT, "NULL");
  CHECK_REFUSED(layered.api.event_query(layered.self, nullptr), TB_INVALID_ARGUMENT, "NULL");
}

TB_CASE(MIS, 06, TB_GROUP_ASYNC, "mem_free.1 stream_synchronize.1", "freeing a block under queued work is refused") {
  need_submit(kit);
  Layered layered(kit, "validate");
  Memory memory(kit, layered, 4096);
  tb_stream *stream = nullptr;
  CHECK_OK(layered.api.stream_create(layered.self, 0, 0, 0, &stream));
  {
    kit::Gate gate(kit, stream);
    CHECK_OK(layered.api.mem_set(layered.self, 0, stream, memory.data, 1, 1, 4096));
    CHECK_REFUSED(layered.api.mem_free(layered.self, 0, memory.data), TB_FAILED_PRECONDITION, "while work queued");
    gate.open();
    CHECK_OK(layered.api.stream_synchronize(layered.self, stream));
  }
  memory.free();
  CHECK_OK(layered.api.stream_destroy(layered.self, stream));
}

TB_CASE(MIS, 07, TB_GROUP_CORE, "E1 E7", "unknown flags and devices are refused, results untouched") {
  Layered layered(kit, "validate");
  void *const mark = &layered;
  void *out = mark;
  CHECK_REFUSED(layered.api.mem_alloc(layered.self, 0, 64, uint64_t{1} << 63, &out), TB_INVALID_ARGUMENT, "flags");
  CHECK_REFUSED(layered.api.mem_alloc(layered.self, -1, 64, 0, &out), TB_OUT_OF_RANGE, "device -1");
  CHECK_REFUSED(layered.api.mem_alloc(layered.self, kit.device_count(), 64, 0, &out), TB_OUT_OF_RANGE, "device");
  CHECK(out == mark);
}

TB_CASE(MIS, 08, TB_GROUP_CORE, "mem_copy.6", "the kind of a copy must be that of its pointers") {
  Layered layered(kit, "validate");
  Memory memory(kit, layered, 64);
  tb_stream *stream = stream_of(kit, layered);
  char host[64] = {};
  const auto copy = [&](void *dst, const void *src, int32_t kind) {
    return layered.api.mem_copy(layered.self, 0, stream, dst, src, 64, kind);
  };
  CHECK_REFUSED(copy(memory.data, host, TB_COPY_DEVICE_TO_HOST), TB_INVALID_ARGUMENT, "host memory");
  CHECK_REFUSED(copy(memory.data, host, TB_COPY_DEVICE_TO_DEVICE), TB_INVALID_ARGUMENT, "'src'");
  CHECK_REFUSED(copy(memory.data, host, 99), TB_INVALID_ARGUMENT, "kind 99");
  CHECK_OK(copy(memory.data, host, TB_COPY_HOST_TO_DEVICE));
  kit.synchronize(stream);
}

TB_CASE(MIS, 09, TB_GROUP_CORE, "mem_alloc.5 mem_copy.4 mem_set.1 mem_set.3",
        "copies and sets past the end of a block are refused, to the last byte they are not") {
  Layered layered(kit, "validate");
  Memory memory(kit, layered, 100);
  tb_stream *stream = stream_of(kit, layered);
  std::vector<uint8_t> host(101, 7);
  const auto copy = [&](uint64_t offset, uint64_t size) {
    return layered.api.mem_copy(layered.self, 0, stream, memory.data + offset, host.data(), size,
                                TB_COPY_HOST_TO_DEVICE);
  };
  CHECK_REFUSED(copy(0, 101), TB_INVALID_ARGUMENT, "1 bytes past the end");
  CHECK_REFUSED(copy(99, 2), TB_INVALID_ARGUMENT, "begins at byte 99");
  CHECK_REFUSED(layered.api.mem_set(layered.self, 0, stream, memory.data + 96, 0, 4, 2), TB_INVALID_ARGUMENT, "past");
  CHECK_OK(copy(99, 1));
  CHECK_OK(layered.api.mem_set(layered.self, 0, stream, memory.data, 5, 1, 99));
  kit.synchronize(stream);
  const std::vector<uint8_t> back = kit.bytes_of(memory.data, 100);
  CHECK_EQUAL(int{back[98]}, 5);
  CHECK_EQUAL(int{back[99]}, 7);
}

TB_CASE(MIS, 10, TB_GROUP_ASYNC, "stream_default.1 stream_default.2", "the default stream cannot be destroyed") {
  Layered layered(kit, "validate");
  tb_stream *stream = stream_of(kit, layered);
  CHECK_REFUSED(layered.api.stream_destroy(layered.self, stream), TB_INVALID_ARGUMENT, "default stream of device 0");
  CHECK(stream_of(kit, layered) == stream);
  CHECK_OK(layered.api.stream_synchronize(layered.self, stream));
}

TB_CASE(MIS, 11, TB_GROUP_CORE, "E8 mem_free.1", "freeing twice, the inside of a block, or foreign memory is refused") {
  Layered layered(kit, "validate");
  Memory memory(kit, layered, 256);
  char *block = memory.data;
  int local = 0;
  CHECK_REFUSED(layered.api.mem_free(layered.self, 0, block + 64), TB_INVALID_ARGUMENT, "64 bytes into");
  CHECK_REFUSED(layered.api.mem_free(layered.self, 0, &local), TB_INVALID_ARGUMENT, "no block");
  memory.free();
  CHECK_REFUSED(layered.api.mem_free(layered.self, 0, block), TB_INVALID_ARGUMENT, "gave back already");
}

TB_CASE(MIS, 12, TB_GROUP_ASYNC | TB_GROUP_CLOSURE, "closure_commit.1 closure_cancel.1 closure_cancel.2",
        "closure storage ends once: by commit or by cancel") {
  Layered layered(kit, "validate");
  static std::atomic<int> calls{0};
  static const tb_closure closure = {sizeof closure, 0, "counts",
                                     [](void *, const tb_closure_context *) -> tb_status { return ++calls, TB_OK; },
                                     [](void *) { ++calls; }};
  calls = 0;
  tb_stream *stream = nullptr;
  void *storage = nullptr;
  CHECK_OK(layered.api.stream_create(layered.self, 0, 0, 0, &stream));
  CHECK_OK(layered.api.closure_reserve(layered.self, stream, 64, &storage));
  CHECK_REFUSED(layered.api.stream_destroy(layered.self, stream), TB_FAILED_PRECONDITION, "neither committed nor");
  CHECK_OK(layered.api.closure_cancel(layered.self, stream, storage));
  CHECK_REFUSED(layered.api.closure_commit(layered.self, stream, storage, &closure), TB_INVALID_ARGUMENT, "cancelled");
  CHECK_OK(layered.api.stream_synchronize(layered.self, stream));
  CHECK_EQUAL(calls.load(), 0);
  CHECK_OK(layered.api.closure_reserve(layered.self, stream, 64, &storage));
  CHECK_OK(layered.api.closure_commit(layered.self, stream, storage, &closure));
  CHECK_OK(layered.api.stream_synchronize(layered.self, stream));
  CHECK_EQUAL(calls.load(), 2);
  CHECK_OK(layered.api.stream_destroy(layered.self, stream));
}

} // namespace tb::contract::misuse_validation_cases
