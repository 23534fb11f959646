// cudart_check.cpp -- checks what the peers rely on in the emulated CUDA runtime: capacity, the count of used memory,
// and memory that is mapped at two addresses.
#include "emulation.h"

#include <cstdio>
#include <cstdlib>

namespace {

void check(bool condition, const char *promise) {
  if (condition) return;
  fprintf(stderr, "the emulated CUDA runtime broke a promise: %s\n", promise);
  exit(1);
}

template <class Function> Function driver(Function, const char *name) {
  void *found = nullptr;
  cudaDriverEntryPointQueryResult result;
  check(cudaGetDriverEntryPointByVersion(name, &found, 12000, 0, &result) == cudaSuccess && found, name);
  return reinterpret_cast<Function>(found);
}

uint64_t used() {
  size_t free, total;
  cudaMemGetInfo(&free, &total);
  return total - free;
}

} // namespace

#define DRIVER(name) driver(static_cast<decltype(&name)>(nullptr), #name)

int main() {
  constexpr uint64_t page = uint64_t{2} << 20;
  cudart_emulation_set_capacity(4 * page);
  void *first, *second;
  check(cudaMalloc(&first, 3 * page) == cudaSuccess && used() == 3 * page, "memory is charged");
  check(cudaMalloc(&second, 2 * page) == cudaErrorMemoryAllocation && used() == 3 * page, "a full device refuses");
  check(cudaGetLastError() == cudaErrorMemoryAllocation && cudaGetLastError() == cudaSuccess,
        "errors are reported once");
  check(cudaFree(first) == cudaSuccess && used() == 0, "freed memory is discharged");
  check(cudaFree(first) == cudaErrorInvalidValue, "memory is freed once");
  check(cudart_emulation_peak() == 3 * page, "the most bytes at one time are remembered");

  CUdeviceptr base;
  CUmemGenericAllocationHandle handle;
  check(DRIVER(cuMemAddressReserve)(&base, 4 * page, 0, 0, 0) == CUDA_SUCCESS && base % page == 0,
        "ranges are aligned");
  check(DRIVER(cuMemCreate)(&handle, page, nullptr, 0) == CUDA_SUCCESS && used() == page, "pages are charged");
  auto map = DRIVER(cuMemMap);
  check(map(base, page, 0, handle, 0) == CUDA_SUCCESS && map(base + 2 * page, page, 0, handle, 0) == CUDA_SUCCESS,
        "a handle is mapped at two addresses");
  check(map(base, page, 0, handle, 0) == CUDA_ERROR_INVALID_VALUE, "an address is mapped once");
  check(DRIVER(cuMemSetAccess)(base, page, nullptr, 0) == CUDA_SUCCESS, "access is given");
  check(DRIVER(cuMemSetAccess)(base + 2 * page, page, nullptr, 0) == CUDA_SUCCESS, "access is given");
  // volatile, because the compiler takes these for different objects and could read before it writes.
  *reinterpret_cast<volatile int *>(base + 8) = 42;
  check(*reinterpret_cast<volatile int *>(base + 2 * page + 8) == 42, "both addresses show the same bytes");
  check(DRIVER(cuMemRelease)(handle) == CUDA_SUCCESS && used() == page, "mapped pages stay");
  auto unmap = DRIVER(cuMemUnmap);
  check(unmap(base, page) == CUDA_SUCCESS && used() == page, "the other mapping stays");
  check(DRIVER(cuMemAddressFree)(base, 4 * page) == CUDA_ERROR_INVALID_VALUE, "a mapped range is not given back");
  check(unmap(base + 2 * page, page) == CUDA_SUCCESS && used() == 0, "the last mapping frees the page");
  check(DRIVER(cuMemAddressFree)(base, 4 * page) == CUDA_SUCCESS, "an empty range is given back");
}
