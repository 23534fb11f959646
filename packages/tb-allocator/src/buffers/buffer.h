// buffer.h -- bytes of a device or of pinned host memory with an owner: what tb_allocator.Buffer holds.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <optional>

#include "host.h"

namespace tb::allocator {

inline tb_stream_table streams{}; // of tb-stream, if it is installed; otherwise struct_size is 0

// Memory that goes back to its heap with the last owner: the Buffer, a memoryview, a DLPack consumer.
struct Storage {
  Storage() = default;
  Storage(const Storage &) = delete;
  ~Storage();

  void *pointer = nullptr;
  tb_block *block = nullptr;
  uint64_t size = 0;
  int32_t device = -1; // -1: pinned host memory
  tb_stream *stream = nullptr;

  bool pinned() const { return device < 0; }
};

class Buffer {
public:
  explicit Buffer(std::shared_ptr<Storage> storage) : storage_(std::move(storage)) {}

  // Raises after free().
  const std::shared_ptr<Storage> &storage() const;
  void free() { storage_.reset(); }
  bool freed() const { return !storage_; }
  // Whether the host may use the pointer.
  bool host_accessible() const;
  // Waits for the buffer's own stream, so that the host sees the bytes, and no work of an earlier owner writes to them.
  void synchronize() const;

private:
  std::shared_ptr<Storage> storage_;
};

class Heap;

// The stream of a Python argument. None: the current stream where tb-stream is installed, else NULL, the default
// stream. *device is -1 when the caller asked for none, and is set. Raises where the object is no stream.
tb_stream *stream_argument(nanobind::handle object, int32_t *device);
// From that heap, or from the device's own. Raises on failure.
std::shared_ptr<Storage> allocate_storage(uint64_t size, std::optional<int32_t> device, nanobind::handle stream,
                                          Heap *heap = nullptr);
std::shared_ptr<Storage> allocate_pinned(uint64_t size);

} // namespace tb::allocator
