// Device memory and pinned memory: its allocation, what a pointer is, and how the devices of a context reach it.
#pragma once

#include <atomic>
#include <cstdint>
#include <map>
#include <mutex>
#include <vector>

#include "devices/platforms.h"

namespace tb::opencl {

class Memory {
public:
  // Bytes to which blocks are aligned: the size of OpenCL's largest type.
  static constexpr uint32_t alignment = 128;

  void open(const tb_host *host, const Functions *cl, cl_context context, const std::vector<Device> &devices,
            std::vector<uint64_t> totals, std::vector<uint64_t> largest);

  // kind: TB_POINTER_DEVICE or TB_POINTER_HOST_PINNED.
  tb_status allocate(int32_t device, uint64_t size, int32_t kind, void **out);
  tb_status free(void *ptr, int32_t kind);
  // Memory that the driver uses itself, which no map has. Null if there is none.
  void *allocate_own(int32_t device, uint64_t size, bool host_visible);
  void free_own(void *ptr) const;

  // False: the pointer is not into a block.
  bool find(const void *ptr, tb_pointer_info *out);
  uint64_t free_bytes(int32_t device);
  size_t live_blocks();

  Sharing sharing() const { return sharing_; }
  bool host_reaches_pinned() const { return sharing_ != Sharing::coarse; }

  cl_int copy(cl_command_queue queue, bool blocking, void *dst, const void *src, uint64_t size, cl_event *out) const;
  cl_int fill(cl_command_queue queue, void *dst, const void *pattern, size_t pattern_size, uint64_t size,
              cl_event *out) const;
  cl_int set_pointer(cl_kernel kernel, cl_uint index, const void *ptr) const;
  // Lets a kernel reach every block by pointers within its arguments. `known` is kept with the kernel, 0 at first.
  cl_int reach_blocks(cl_kernel kernel, uint64_t *known);

private:
  struct Block {
    uint64_t size;
    int32_t device, kind;
  };

  void *raw(int32_t device, uint64_t size, bool on_host) const;
  std::map<uintptr_t, Block>::iterator holding(const void *ptr);

  const tb_host *host_ = nullptr;
  const Functions *cl_ = nullptr;
  cl_context context_ = nullptr;
  Sharing sharing_ = Sharing::none;
  std::vector<Device> devices_;
  std::vector<uint64_t> totals_, largest_;

  std::mutex mutex_; // of what follows
  std::map<uintptr_t, Block> blocks_;
  std::vector<uint64_t> used_;
  std::atomic<uint64_t> generation_{1}; // grows with each change of the map
};

} // namespace tb::opencl
