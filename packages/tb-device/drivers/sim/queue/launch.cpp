// Copies a launch's arguments and runs its blocks.
#include "drivers/sim/queue/launch.h"

#include <algorithm>
#include <cstring>

#include "drivers/common/host_launch.h"

namespace tb::drivers::sim {

namespace {

uint64_t padded(uint64_t size, uint64_t unit) { return (size + unit - 1) / unit * unit; }

} // namespace

LaunchOperation::LaunchOperation(std::shared_ptr<Stream> stream, const Function &function, const tb_launch &config)
    : Operation(std::move(stream)), module_(function.module), function_(function) {
  uint64_t total = 0;
  for (uint32_t number = 0; number < config.arg_count; ++number)
    total += padded(config.arg_sizes[number], value_alignment);
  values_.resize(padded(total, sizeof(Line)) / sizeof(Line));
  auto *value = reinterpret_cast<std::byte *>(values_.data());
  for (uint32_t number = 0; number < config.arg_count; ++number) {
    const uint64_t size = config.arg_sizes[number];
    std::memcpy(value, config.args[number], size);
    args_.push_back(value);
    arg_sizes_.push_back(size);
    value += padded(size, value_alignment);
  }
  call_.struct_size = sizeof call_;
  call_.arg_count = config.arg_count;
  std::copy_n(config.grid, 3, call_.grid);
  std::copy_n(config.block, 3, call_.block);
  call_.shared_size = function.shared_size + config.shared_size;
  shared_.resize(padded(call_.shared_size, sizeof(Line)) / sizeof(Line));
  call_.shared = shared_.data();
  call_.args = args_.data();
  call_.arg_sizes = arg_sizes_.data();
  units = std::max<uint64_t>(values_.size(), 1);
}

tb_status LaunchOperation::run(Run &run) {
  // Blocks run in no order on which a kernel may rely: here the last one runs first.
  return run_blocks(function_, call_, run.context, BlockOrder::descending);
}

} // namespace tb::drivers::sim
