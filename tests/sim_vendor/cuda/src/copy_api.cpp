// copy_api.cpp -- copies and sets.
//
// Device pointers are checked at the call as far as possible, and again when the work runs. Memory that is freed by
// then, or that the device may not access, breaks the context. Host pointers in the place of device pointers are
// refused.
#include <cstring>

#include "capture.h"

namespace simcuda {
namespace {

// One side of a copy: rows of bytes on the device, or in host memory.
struct Side {
  uintptr_t address;
  uint64_t pitch;
  bool device;
  int owner; // the device that accesses it
};

bool known(const Side &side, uint64_t width, uint64_t height) {
  if (!side.device)
    return side.address != 0 && !(world().holding(side.address) != world().ranges.end() &&
                                  world().holding(side.address)->second.kind < Kind::host);
  for (uint64_t row = 0; row < height; ++row)
    if (!world().known(side.address + row * side.pitch, width)) return false;
  return true;
}

bool pieces(const Side &side, uint64_t offset, uint64_t size, bool write, std::vector<Piece> *out) {
  if (side.device) return world().resolve(side.address + offset, size, side.owner, write, out);
  out->push_back({reinterpret_cast<std::byte *>(side.address + offset), size});
  return true;
}

// The effect of overlapping ranges on a device is not defined. Here the copy always fails.
bool overlap(const Side &dst, const Side &src, uint64_t size) {
  return dst.device && src.device && dst.address < src.address + size && src.address < dst.address + size;
}

CUresult copy_row(const Side &dst, const Side &src, uint64_t row, uint64_t width) {
  std::vector<Piece> to, from;
  {
    Lock lock(world().mutex);
    if (!pieces(dst, row * dst.pitch, width, true, &to) || !pieces(src, row * src.pitch, width, false, &from))
      return CUDA_ERROR_ILLEGAL_ADDRESS;
  }
  if (overlap(dst, src, width)) {
    for (const Piece &piece : to) std::memset(piece.inner, 0xEE, piece.size);
    return CUDA_SUCCESS;
  }
  size_t into = 0, out_of = 0;
  for (uint64_t to_done = 0, from_done = 0; into < to.size();) {
    const uint64_t part = std::min(to[into].size - to_done, from[out_of].size - from_done);
    std::memcpy(to[into].inner + to_done, from[out_of].inner + from_done, part);
    to_done += part;
    from_done += part;
    if (to_done == to[into].size) ++into, to_done = 0;
    if (from_done == from[out_of].size) ++out_of, from_done = 0;
  }
  return CUDA_SUCCESS;
}

bool pinned(const void *address, uint64_t size) {
  const auto found = world().holding(reinterpret_cast<uintptr_t>(address));
  return found != world().ranges.end() && world().known(reinterpret_cast<uintptr_t>(address), size);
}

CUresult copy(CUstream handle, Side dst, Side src, uint64_t width, uint64_t height) {
  World &all = world();
  Lock lock(all.mutex);
  CUresult result;
  const auto stream = find_stream(handle, &result);
  if (!stream) return result;
  if (width == 0 || height == 0) return CUDA_SUCCESS;
  if (!known(dst, width, height) || !known(src, width, height)) return CUDA_ERROR_INVALID_VALUE;
  if (dst.owner < 0) dst.owner = stream->context->device;
  if (src.owner < 0) src.owner = stream->context->device;
  // A pageable source is copied during the call, and a pageable target is written before the call returns, unless the
  // stream captures.
  const bool staged = !src.device && !stream->capture &&
                      !pinned(reinterpret_cast<const void *>(src.address), (height - 1) * src.pitch + width);
  const bool waits = !dst.device && !stream->capture &&
                     !pinned(reinterpret_cast<const void *>(dst.address), (height - 1) * dst.pitch + width);
  std::shared_ptr<std::vector<std::byte>> stage;
  if (staged) {
    const auto *bytes = reinterpret_cast<const std::byte *>(src.address);
    stage = std::make_shared<std::vector<std::byte>>(bytes, bytes + (height - 1) * src.pitch + width);
    src.address = reinterpret_cast<uintptr_t>(stage->data());
  }
  const auto run = [dst, src, width, height, stage](CUresult failed) -> CUresult {
    if (failed) return CUDA_SUCCESS;
    for (uint64_t row = 0; row < height; ++row)
      if (const CUresult wrong = copy_row(dst, src, row, width)) return wrong;
    return CUDA_SUCCESS;
  };
  if ((result = submit(*stream, Work::copy, run)) || !waits) return result;
  const auto queue = stream->queue;
  Context &context = *stream->context;
  const uint64_t last = queue->last();
  lock.unlock();
  queue->wait(last);
  return context.failed;
}

Side device(CUdeviceptr address, int owner = -1) { return {address, 0, true, owner}; }
Side host(const void *address) { return {reinterpret_cast<uintptr_t>(address), 0, false, -1}; }

template <class Value> CUresult set(CUstream handle, CUdeviceptr address, Value value, size_t count) {
  Lock lock(world().mutex);
  CUresult result;
  const auto stream = find_stream(handle, &result);
  if (!stream) return result;
  if (address % sizeof(Value)) return CUDA_ERROR_INVALID_VALUE;
  if (count == 0) return CUDA_SUCCESS;
  const uint64_t size = count * sizeof(Value);
  if (!world().known(address, size)) return CUDA_ERROR_INVALID_VALUE;
  return submit(*stream, Work::set, [address, size, value, owner = stream->context->device](CUresult failed) {
    if (failed) return CUDA_SUCCESS;
    std::vector<Piece> to;
    {
      Lock later(world().mutex);
      if (!world().resolve(address, size, owner, true, &to)) return CUDA_ERROR_ILLEGAL_ADDRESS;
    }
    for (const Piece &piece : to) // each piece begins with a whole value, because ranges are aligned
      for (uint64_t i = 0; i + sizeof value <= piece.size; i += sizeof value)
        std::memcpy(piece.inner + i, &value, sizeof value);
    return CUDA_SUCCESS;
  });
}

} // namespace
} // namespace simcuda

using namespace simcuda;

extern "C" CUresult cuMemcpyHtoDAsync_v2(CUdeviceptr dst, const void *src, size_t size, CUstream stream) {
  return call<"cuMemcpyHtoDAsync_v2">([&] { return copy(stream, device(dst), host(src), size, 1); });
}

extern "C" CUresult cuMemcpyDtoHAsync_v2(void *dst, CUdeviceptr src, size_t size, CUstream stream) {
  return call<"cuMemcpyDtoHAsync_v2">([&] { return copy(stream, host(dst), device(src), size, 1); });
}

extern "C" CUresult cuMemcpyDtoDAsync_v2(CUdeviceptr dst, CUdeviceptr src, size_t size, CUstream stream) {
  return call<"cuMemcpyDtoDAsync_v2">([&] { return copy(stream, device(dst), device(src), size, 1); });
}

// The kind of each side follows from its address.
extern "C" CUresult cuMemcpyAsync(CUdeviceptr dst, CUdeviceptr src, size_t size, CUstream stream) {
  return call<"cuMemcpyAsync">([&] {
    const auto side = [](CUdeviceptr address) {
      Lock lock(world().mutex);
      return Side{address, 0, world().holding(address) != world().ranges.end(), -1};
    };
    return copy(stream, side(dst), side(src), size, 1);
  });
}

extern "C" CUresult cuMemcpyPeerAsync(CUdeviceptr dst, CUcontext dst_context, CUdeviceptr src, CUcontext src_context,
                                      size_t size, CUstream stream) {
  return call<"cuMemcpyPeerAsync">([&]() -> CUresult {
    if (!dst_context || !src_context) return CUDA_ERROR_INVALID_CONTEXT;
    return copy(stream, device(dst, reinterpret_cast<Context *>(dst_context)->device),
                device(src, reinterpret_cast<Context *>(src_context)->device), size, 1);
  });
}

extern "C" CUresult cuMemcpy2DAsync_v2(const CUDA_MEMCPY2D *all, CUstream stream) {
  return call<"cuMemcpy2DAsync_v2">([&]() -> CUresult {
    if (!all || all->src_array || all->dst_array) return CUDA_ERROR_INVALID_VALUE;
    const bool from_host = all->src_memory_type == CU_MEMORYTYPE_HOST,
               to_host = all->dst_memory_type == CU_MEMORYTYPE_HOST;
    Side src = from_host ? host(all->src_host) : device(all->src_device);
    Side dst = to_host ? host(all->dst_host) : device(all->dst_device);
    src.address += all->src_y * all->src_pitch + all->src_x_in_bytes;
    dst.address += all->dst_y * all->dst_pitch + all->dst_x_in_bytes;
    src.pitch = all->src_pitch;
    dst.pitch = all->dst_pitch;
    if (all->height > 1 && (src.pitch < all->width_in_bytes || dst.pitch < all->width_in_bytes))
      return CUDA_ERROR_INVALID_VALUE;
    return copy(stream, dst, src, all->width_in_bytes, all->height);
  });
}

extern "C" CUresult cuMemsetD8Async(CUdeviceptr dst, unsigned char value, size_t count, CUstream stream) {
  return call<"cuMemsetD8Async">([&] { return set(stream, dst, value, count); });
}

extern "C" CUresult cuMemsetD16Async(CUdeviceptr dst, unsigned short value, size_t count, CUstream stream) {
  return call<"cuMemsetD16Async">([&] { return set(stream, dst, value, count); });
}

extern "C" CUresult cuMemsetD32Async(CUdeviceptr dst, unsigned value, size_t count, CUstream stream) {
  return call<"cuMemsetD32Async">([&] { return set(stream, dst, value, count); });
}
