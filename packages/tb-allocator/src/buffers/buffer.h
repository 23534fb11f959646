// buffer.h -- tb_allocator.Buffer: bytes of a device or of pinned host memory, shared with Python and DLPack.
#pragma once

#include <nanobind/nanobind.h>

#include <memory>
#include <optional>

#include "host.h"

namespace tb::allocator {

inline tb_stream_table streams{}; // of tb-stream, if it is installed; else struct_size is 0

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
  // Waits for the buffer's own stream, so that the host sees the bytes and no earlier owner's work writes to them.
  void synchronize() const;

private:
  std::shared_ptr<Storage> storage_;
};

class Heap;
// From that heap, or from the device's own.
std::shared_ptr<Storage> allocate_storage(uint64_t size, std::optional<int32_t> device, nanobind::handle stream,
                                          Heap *heap = nullptr);
std::shared_ptr<Storage> allocate_pinned(uint64_t size);

void bind_buffer(nanobind::module_ &m);
// buffer_dlpack.cpp
nanobind::object export_dlpack(const Buffer &buffer, nanobind::handle stream, nanobind::handle max_version,
                               nanobind::handle dl_device, std::optional<bool> copy);
std::pair<int32_t, int32_t> dlpack_device(const Buffer &buffer);
// buffer_cuda.cpp
nanobind::dict cuda_array_interface(const Buffer &buffer);
// From any memory of the host or of a device, in the order of the buffer's stream, when what `after`, the address of a
// tb_stream or 0, has to do by now is done.
void copy_from_address(const Buffer &buffer, uintptr_t source, uintptr_t after);

} // namespace tb::allocator
