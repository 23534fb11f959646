// Builds launches of kernels in the queue of a stream.
#include "drivers/cpu/stream/launch.h"

#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>

#include "drivers/common/error_text.h"
#include "drivers/common/host_launch.h"
#include "drivers/cpu/device/device.h"

namespace tb::drivers::cpu {

namespace {

constexpr uint64_t value_alignment = 16; // of every argument's value, enough for any C type

uint64_t padded(uint64_t size) { return (size + value_alignment - 1) / value_alignment * value_alignment; }

struct Free {
  void operator()(void *memory) const noexcept { std::free(memory); }
};
using SharedMemory = std::unique_ptr<void, Free>;

// Followed in its storage by a pointer to each value, the sizes, and the values.
struct alignas(value_alignment) LaunchWork {
  static constexpr char name[] = "launch";
  static constexpr uint32_t flags = TB_CLOSURE_ON_WAITER;
  Ref<Module> module; // also keeps the function
  const Function *function;
  SharedMemory shared;
  tb_host_kernel_call call;

  tb_status run(const tb_closure_context *context) {
    return run_blocks(*function, call, *context, BlockOrder::ascending);
  }
};

} // namespace

Module::Place place_of(Device &device) { return {device.host(), device.number(), &device}; }

tb_status launch(Stream &stream, Function &function, const tb_launch &config) {
  const tb_host *host = stream.device().host();
  if (const tb_status status =
          check_launch(function, place_of(stream.device()), config, {"CPU", ClosureQueue::largest}))
    return status;
  const uint64_t pointers = sizeof(LaunchWork), sizes = pointers + config.arg_count * sizeof(void *);
  const uint64_t values = padded(sizes + config.arg_count * sizeof(uint64_t));
  uint64_t total = values;
  for (uint32_t number = 0; number < config.arg_count; ++number) total += padded(config.arg_sizes[number]);
  SharedMemory shared;
  const uint64_t shared_size = function.shared_size + config.shared_size;
  if (shared_size) {
    const bool absurd = config.shared_size > UINT64_MAX / 2;
    const uint64_t whole = (shared_size + TB_HOST_KERNEL_ALIGNMENT - 1) & ~uint64_t(TB_HOST_KERNEL_ALIGNMENT - 1);
    if (!absurd) shared.reset(std::aligned_alloc(TB_HOST_KERNEL_ALIGNMENT, whole));
    if (!shared)
      return fail(host, TB_OUT_OF_MEMORY, "launch of %.200s: no host memory for %s of shared memory", function.name,
                  ByteText(shared_size).text);
  }

  return enqueue<LaunchWork>(stream, total, [&](void *storage) noexcept {
    auto *bytes = static_cast<std::byte *>(storage);
    auto *work = new (storage) LaunchWork{Ref<Module>(function.module), &function, std::move(shared), {}};
    auto **args = reinterpret_cast<const void **>(bytes + pointers);
    auto *arg_sizes = reinterpret_cast<uint64_t *>(bytes + sizes);
    std::byte *value = bytes + values;
    for (uint32_t number = 0; number < config.arg_count; ++number) {
      args[number] = value;
      arg_sizes[number] = config.arg_sizes[number];
      std::memcpy(value, config.args[number], config.arg_sizes[number]);
      value += padded(config.arg_sizes[number]);
    }
    tb_host_kernel_call &call = work->call;
    call.struct_size = sizeof call;
    call.arg_count = config.arg_count;
    std::copy_n(config.grid, 3, call.grid);
    std::copy_n(config.block, 3, call.block);
    call.shared = work->shared.get();
    call.shared_size = shared_size;
    call.args = args;
    call.arg_sizes = arg_sizes;
  });
}

} // namespace tb::drivers::cpu
