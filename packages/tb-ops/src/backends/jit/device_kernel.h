// Kernels by name: compiled, loaded and looked up when first launched on a device.
#pragma once
#include <string>
#include <string_view>

#include "runtime/runtime.h"

namespace tb::ops::jit {

// One entry of one program: a header of the kernels, the function in it with its template arguments, its argument
// struct; threads: the most that a block may have; synchronizing: whether the function calls __syncthreads().
struct Kernel {
  std::string_view header; // "pointwise.cuh"
  std::string body;        // "pointwise<Add, float>"
  std::string_view arguments;
  unsigned threads = 256;
  bool synchronizing = false;
};

struct Function {
  tb_function *handle;
  unsigned threads; // the most in a block: what the device and the kernel allow
};

// Throws if compiling or loading fails. Cheap after the first call; from any thread.
Function find(c10::DeviceIndex device, const Kernel &kernel);

// Queues blocks of `threads` threads on the device's current stream.
void launch(c10::DeviceIndex device, const Function &function, unsigned blocks_x, unsigned blocks_y, unsigned threads,
            const void *arguments, size_t size);

// A thread for each of `count` elements, or fewer that take several each. No element: nothing.
template <class Arguments>
void launch_elements(c10::DeviceIndex device, const Kernel &kernel, int64_t count, const Arguments &arguments) {
  if (count == 0) return;
  const Function function = find(device, kernel);
  constexpr int64_t most = 1 << 16; // blocks; more would not run at the same time
  const int64_t blocks = (count + function.threads - 1) / function.threads;
  launch(device, function, static_cast<unsigned>(blocks < most ? blocks : most), 1, function.threads, &arguments,
         sizeof arguments);
}

// A block for each of `count` rows, up to the number that a grid may have; kernels go on with row + grid.
template <class Arguments>
void launch_rows(c10::DeviceIndex device, const Kernel &kernel, int64_t count, const Arguments &arguments) {
  if (count == 0) return;
  const Function function = find(device, kernel);
  constexpr int64_t most = 1 << 20;
  launch(device, function, static_cast<unsigned>(count < most ? count : most), 1, function.threads, &arguments,
         sizeof arguments);
}

} // namespace tb::ops::jit
