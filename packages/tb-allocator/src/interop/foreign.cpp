// foreign.cpp -- native streams as tb_streams, and the functions for PyTorch's pluggable CUDA allocator.
#include "interop/foreign.h"

#include <cstdio>
#include <map>
#include <mutex>
#include <stdexcept>
#include <string>
#include <utility>

#include "heap/device_heaps.h"
#include "table/table.h"
#include "tb/memory_resource.h"

namespace tb::allocator {
namespace {

std::mutex wrapping;
std::map<std::pair<int32_t, uint64_t>, tb_stream *> wrappers; // guarded by `wrapping`

// Never destroyed, because memory may come back while the process ends.
BlocksByAddress &blocks() {
  static auto *all = new BlocksByAddress;
  return *all;
}

class OutOfMemory final : public std::bad_alloc {
public:
  explicit OutOfMemory(const char *text) { snprintf(text_, sizeof text_, "%s", text); }
  const char *what() const noexcept override { return text_; }

private:
  char text_[sizeof(tb_error::text)];
};

void require(tb_status status, const char *otherwise) {
  if (status == TB_OK) [[likely]]
    return;
  tb_error error{};
  error.struct_size = sizeof error;
  throw OutOfMemory(host.take_error(&error) && error.text[0] ? error.text : otherwise);
}

tb_stream *stream_of(int device, void *native) {
  tb_stream *stream = nullptr;
  require(foreign_stream(device, reinterpret_cast<uint64_t>(native), &stream), "the stream's native handle is unknown");
  return stream;
}

// PyTorch calls these functions while it frees memory: they must not throw, and must not hide a failure.
template <class Body> void reported(const char *function, Body body) noexcept {
  try {
    body();
  } catch (const std::exception &error) {
    fprintf(stderr, "tb-allocator: %s: %s\n", function, error.what());
  }
}

} // namespace

tb_status foreign_stream(int32_t device, uint64_t native, tb_stream **out) {
  return guarded(device, "stream_wrap", [=]() -> tb_status {
    std::lock_guard guard(wrapping);
    auto key = std::pair(device, native);
    if (auto found = wrappers.find(key); found != wrappers.end()) {
      *out = found->second;
      return TB_OK;
    }
    Driver driver;
    if (tb_status status = open_driver(&driver); status != TB_OK) return status;
    tb_status status = TB_UNSUPPORTED;
    if (driver.api->groups & TB_GROUP_NATIVE) status = driver.api->stream_wrap(driver.self, device, native, out);
    if (status != TB_OK && native == 0) {
      drop_error();
      status = driver.api->stream_default(driver.self, device, out);
    } else if (status == TB_UNSUPPORTED) {
      return fail(status, device, "stream_wrap", "the driver knows no native streams (group NATIVE)");
    }
    if (status == TB_OK) wrappers.emplace(key, *out);
    return status;
  });
}

} // namespace tb::allocator

using namespace tb;
using namespace tb::allocator;

void *tb_torch_alloc(ssize_t size, int device, void *stream) {
  if (size <= 0) return nullptr;
  void *pointer = nullptr;
  BlocksByAddress::Entry entry{nullptr, stream_of(device, stream), device};
  auto bytes = static_cast<uint64_t>(size);
  tb_arena *pool = open_pool(device, stream);
  require(pool ? allocator_table.arena_allocate(pool, bytes, entry.stream, &pointer, &entry.block)
               : allocator_table.allocate(device, bytes, entry.stream, &pointer, &entry.block),
          "out of memory");
  blocks().insert(pointer, entry);
  return pointer;
}

void tb_torch_free(void *pointer, ssize_t, int device, void *stream) {
  if (!pointer) return;
  reported("tb_torch_free", [=] {
    BlocksByAddress::Entry entry = blocks().take(pointer);
    if (!entry.block) throw std::invalid_argument("the address is none of ours: free memory with who allocated it");
    tb_stream *freed_on = stream_of(device, stream);
    if (freed_on != entry.stream) require(allocator_table.record_stream(entry.block, freed_on), "record_stream failed");
    allocator_table.deallocate(entry.block);
  });
}

void tb_torch_record_stream(void *pointer, void *stream) {
  BlocksByAddress::Entry entry = blocks().find(pointer);
  if (!entry.block) return; // memory of another library, which PyTorch's own allocator ignores as well
  require(allocator_table.record_stream(entry.block, stream_of(entry.device, stream)), "record_stream failed");
}

void tb_torch_reset() { require(allocator_table.empty_cache(-1), "empty_cache failed"); }

void tb_torch_memory_fraction(double fraction, int device) {
  uint64_t free = 0, total = 0;
  require(allocator_table.memory_info(device, &free, &total), "device_memory_info failed");
  require(allocator_table.set_limit(device, static_cast<uint64_t>(fraction * static_cast<double>(total))),
          "set_limit failed");
}

void *tb_torch_base_allocation(void *pointer, size_t *size) {
  Driver driver;
  require(open_driver(&driver), "there is no driver");
  tb_pointer_info info{};
  info.struct_size = sizeof info;
  if (!(driver.api->groups & TB_GROUP_PTR)) throw std::invalid_argument("the driver does not tell bases (group PTR)");
  require(driver.api->mem_get_info(driver.self, pointer, &info), "the address is none of the driver's");
  if (size) *size = info.size;
  return info.base;
}
