#include "memory/memory.h"

#include "opencl/failure.h"

namespace tb::opencl {

void Memory::open(const tb_host *host, const Functions *cl, cl_context context, const std::vector<Device> &devices,
                  std::vector<uint64_t> totals, std::vector<uint64_t> largest) {
  host_ = host, cl_ = cl, context_ = context, devices_ = devices, sharing_ = devices.front().sharing;
  totals_ = std::move(totals), largest_ = std::move(largest);
  used_.assign(devices.size(), 0);
}

void *Memory::raw(int32_t device, uint64_t size, bool on_host) const {
  cl_int code = CL_SUCCESS;
  if (sharing_ == Sharing::usm)
    return on_host ? cl_->clHostMemAllocINTEL(context_, nullptr, size, alignment, &code)
                   : cl_->clDeviceMemAllocINTEL(context_, devices_[static_cast<size_t>(device)].id, nullptr, size,
                                                alignment, &code);
  const bool fine = sharing_ == Sharing::fine;
  return cl_->clSVMAlloc(context_, CL_MEM_READ_WRITE | (fine ? CL_MEM_SVM_FINE_GRAIN_BUFFER : cl_ulong{0}), size,
                         alignment);
}

void *Memory::allocate_own(int32_t device, uint64_t size, bool host_visible) {
  if (sharing_ == Sharing::fine && host_visible)
    return cl_->clSVMAlloc(context_, CL_MEM_READ_WRITE | CL_MEM_SVM_FINE_GRAIN_BUFFER | CL_MEM_SVM_ATOMICS, size,
                           alignment);
  return raw(device, size, host_visible);
}

void Memory::free_own(void *ptr) const {
  if (sharing_ == Sharing::usm)
    cl_->clMemFreeINTEL(context_, ptr);
  else
    cl_->clSVMFree(context_, ptr);
}

tb_status Memory::allocate(int32_t device, uint64_t size, int32_t kind, void **out) {
  const auto place = static_cast<size_t>(device);
  const bool charged = kind == TB_POINTER_DEVICE;
  if (size > largest_[place])
    return fail(host_, TB_OUT_OF_MEMORY, 0, "%llu bytes were asked for; the device gives at most %llu at once",
                static_cast<unsigned long long>(size), static_cast<unsigned long long>(largest_[place]));
  const uint64_t bytes = ((size ? size : 1) + alignment - 1) / alignment * alignment;
  {
    // Implementations give more than the size of the device's memory, and fail later.
    const std::lock_guard lock(mutex_);
    if (charged && bytes > totals_[place] - used_[place])
      return fail(host_, TB_OUT_OF_MEMORY, 0, "%llu bytes were asked for; %llu of %llu are in use",
                  static_cast<unsigned long long>(size), static_cast<unsigned long long>(used_[place]),
                  static_cast<unsigned long long>(totals_[place]));
    if (charged) used_[place] += bytes;
  }
  void *base = raw(device, bytes, !charged);
  const std::lock_guard lock(mutex_);
  if (!base) {
    if (charged) used_[place] -= bytes;
    return fail(host_, TB_OUT_OF_MEMORY, 0, "OpenCL gave no block of %llu bytes",
                static_cast<unsigned long long>(bytes));
  }
  blocks_.emplace(reinterpret_cast<uintptr_t>(base), Block{bytes, device, kind});
  ++generation_;
  *out = base;
  return TB_OK;
}

tb_status Memory::free(void *ptr, int32_t kind) {
  if (!ptr) return TB_OK;
  {
    const std::lock_guard lock(mutex_);
    const auto found = blocks_.find(reinterpret_cast<uintptr_t>(ptr));
    if (found == blocks_.end() || found->second.kind != kind)
      return fail(host_, TB_INVALID_ARGUMENT, 0, "%p is no block of this driver, or of another kind", ptr);
    if (kind == TB_POINTER_DEVICE) used_[static_cast<size_t>(found->second.device)] -= found->second.size;
    blocks_.erase(found);
    ++generation_;
  }
  free_own(ptr);
  return TB_OK;
}

std::map<uintptr_t, Memory::Block>::iterator Memory::holding(const void *ptr) {
  const auto address = reinterpret_cast<uintptr_t>(ptr);
  auto next = blocks_.upper_bound(address);
  if (next == blocks_.begin()) return blocks_.end();
  --next;
  return address - next->first < next->second.size ? next : blocks_.end();
}

bool Memory::find(const void *ptr, tb_pointer_info *out) {
  const std::lock_guard lock(mutex_);
  const auto found = holding(ptr);
  if (found == blocks_.end()) return false;
  if (out) {
    out->kind = found->second.kind, out->device = found->second.device, out->size = found->second.size;
    out->base = reinterpret_cast<void *>(found->first);
  }
  return true;
}

uint64_t Memory::free_bytes(int32_t device) {
  const std::lock_guard lock(mutex_);
  return totals_[static_cast<size_t>(device)] - used_[static_cast<size_t>(device)];
}

size_t Memory::live_blocks() {
  const std::lock_guard lock(mutex_);
  return blocks_.size();
}

cl_int Memory::copy(cl_command_queue queue, bool blocking, void *dst, const void *src, uint64_t size,
                    cl_event *out) const {
  const auto function = sharing_ == Sharing::usm ? cl_->clEnqueueMemcpyINTEL : cl_->clEnqueueSVMMemcpy;
  return function(queue, blocking, dst, src, size, 0, nullptr, out);
}

cl_int Memory::fill(cl_command_queue queue, void *dst, const void *pattern, size_t pattern_size, uint64_t size,
                    cl_event *out) const {
  const auto function = sharing_ == Sharing::usm ? cl_->clEnqueueMemFillINTEL : cl_->clEnqueueSVMMemFill;
  return function(queue, dst, pattern, pattern_size, size, 0, nullptr, out);
}

cl_int Memory::set_pointer(cl_kernel kernel, cl_uint index, const void *ptr) const {
  const auto function = sharing_ == Sharing::usm ? cl_->clSetKernelArgMemPointerINTEL : cl_->clSetKernelArgSVMPointer;
  return function(kernel, index, ptr);
}

cl_int Memory::reach_blocks(cl_kernel kernel, uint64_t *known) {
  if (*known == generation_) return CL_SUCCESS;
  if (sharing_ == Sharing::usm) { // two switches name all blocks, also later ones
    const cl_bool yes = 1;
    cl_int code = CL_SUCCESS;
    for (const cl_uint what :
         {CL_KERNEL_EXEC_INFO_INDIRECT_DEVICE_ACCESS_INTEL, CL_KERNEL_EXEC_INFO_INDIRECT_HOST_ACCESS_INTEL})
      if (*known == 0 && code == CL_SUCCESS) code = cl_->clSetKernelExecInfo(kernel, what, sizeof yes, &yes);
    if (code == CL_SUCCESS) *known = generation_;
    return code;
  }
  const std::lock_guard lock(mutex_);
  std::vector<const void *> all;
  for (const auto &[base, block] : blocks_) all.push_back(reinterpret_cast<const void *>(base));
  if (all.empty()) return CL_SUCCESS;
  const cl_int code =
      cl_->clSetKernelExecInfo(kernel, CL_KERNEL_EXEC_INFO_SVM_PTRS, all.size() * sizeof(void *), all.data());
  if (code == CL_SUCCESS) *known = generation_;
  return code;
}

} // namespace tb::opencl
