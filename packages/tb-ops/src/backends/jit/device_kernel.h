// Finds device kernels by name. A kernel is compiled and loaded when it is first used on a device.
#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "backends/jit/compiler/source.h"
#include "launch/device_function.h"
#include "tb_ops/device_kernels/argument_pointers.h"

namespace tb::ops::jit {

// Names a kernel: its header, the function in it with its template arguments, and its argument struct. `threads` is the
// most that a block may have; `synchronizing` says whether the function calls __syncthreads().
struct Kernel {
  std::string_view header; // "pointwise.cuh"
  std::string body;        // "pointwise<Add, float>"
  std::string_view arguments;
  unsigned threads = 256;
  bool synchronizing = false;
};

using Function = DeviceFunction;

// The device's architecture, as its driver names it.
std::string architecture_of(c10::DeviceIndex device);

// Returns the kernel's function, with no more threads than the kernel allows. The first call finds its image in a pack
// or in the cache, or compiles it, and loads it; it throws if that fails. Later calls are cheap. Any thread may call
// this.
Function find(c10::DeviceIndex device, const Kernel &kernel);

// Compiles a generated kernel, whose instance has a text and no defines, or finds its image in the cache, and loads it.
// Throws if that fails. Each call loads it again.
Function load_instance(c10::DeviceIndex device, Instance instance);

// A kernel's one argument, and what tb_launch.next says of it.
struct Argument {
  const void *value;
  size_t size;
  const tb_launch_arguments &pointers;
};

// Queues blocks of `threads` threads on the device's current stream.
void launch(c10::DeviceIndex device, const Function &function, unsigned blocks_x, unsigned blocks_y, unsigned threads,
            const Argument &argument, const char *name = "launch");

template <class Arguments> Argument argument_of(const Arguments &arguments) {
  static_assert(sizeof arguments <= kernels::max_argument_size);
  static constexpr auto &offsets = kernels::pointer_offsets<Arguments>;
  static_assert(!offsets.empty(), "argument_pointers.h lacks the struct");
  static constexpr tb_launch_argument kind{TB_LAUNCH_ARGUMENT_STRUCT, static_cast<uint32_t>(offsets.size()),
                                           offsets.data()};
  static constexpr tb_launch_arguments pointers{sizeof pointers, TB_EXTENSION_LAUNCH_ARGUMENTS, nullptr, &kind};
  return {&arguments, sizeof arguments, pointers};
}

// The blocks of a launch with a thread for each of `count` elements, or with fewer threads that compute several each.
inline unsigned blocks_of_elements(int64_t count, unsigned threads) {
  constexpr int64_t most = 1 << 16; // more would not run at the same time
  const int64_t blocks = (count + threads - 1) / threads;
  return static_cast<unsigned>(blocks < most ? blocks : most);
}
// The blocks of a launch with one for each of `count` rows, or with fewer that continue with row + grid size.
inline unsigned blocks_of_rows(int64_t count) {
  constexpr int64_t most = 1 << 20;
  return static_cast<unsigned>(count < most ? count : most);
}

// Launches one thread for each of `count` elements, or fewer threads that compute several elements each. Does nothing
// if `count` is 0.
template <class Arguments>
void launch_elements(c10::DeviceIndex device, const Kernel &kernel, int64_t count, const Arguments &arguments) {
  if (count == 0) return;
  const Function function = find(device, kernel);
  launch(device, function, blocks_of_elements(count, function.threads), 1, function.threads, argument_of(arguments));
}

// Launches one block for each of `count` tiles, or fewer blocks that compute several tiles each. The kernel demands the
// number of threads.
template <class Arguments>
void launch_tiles(c10::DeviceIndex device, const Kernel &kernel, int64_t count, const Arguments &arguments) {
  if (count == 0) return;
  const Function function = find(device, kernel);
  launch(device, function, blocks_of_rows(count), 1, function.threads, argument_of(arguments));
}

// The threads of a block that computes a row, for a kernel that takes any number: few where a thread computes with
// vectors, since a barrier there ends a loop over the threads, and keeps their variables in memory.
unsigned threads_of_row(c10::DeviceIndex device, const Function &function);

// Launches one block for each of `count` rows, or fewer blocks that compute several rows each.
template <class Arguments>
void launch_rows(c10::DeviceIndex device, const Kernel &kernel, int64_t count, const Arguments &arguments) {
  if (count == 0) return;
  const Function function = find(device, kernel);
  launch(device, function, blocks_of_rows(count), 1, threads_of_row(device, function), argument_of(arguments));
}

// The kernels that this process has asked for.
std::vector<Instance> used_instances();

} // namespace tb::ops::jit
