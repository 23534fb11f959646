// Running a kernel's blocks, in an order of the scheduler's liking.
#include "drivers/sim/queue/launch.h"

#include <algorithm>
#include <cstdio>
#include <cstring>

namespace tb::sim {

namespace {

uint64_t padded(uint64_t size, uint64_t unit) { return (size + unit - 1) / unit * unit; }

} // namespace

LaunchOperation::LaunchOperation(std::shared_ptr<Stream> stream, const cpu::Function &function, const tb_launch &config)
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
  // The operation's name is the kernel's, so that a text says which of many launches failed.
  char *text = run.context.error_text;
  const int prefix = std::snprintf(text, run.context.error_capacity, "%.200s: ", function_.name);
  call_.error_text = text + prefix;
  call_.error_capacity = run.context.error_capacity - static_cast<uint32_t>(prefix);
  // Blocks run in no order that a kernel may rely on: here the last comes first.
  for (call_.index[2] = call_.grid[2]; call_.index[2]-- > 0;)
    for (call_.index[1] = call_.grid[1]; call_.index[1]-- > 0;)
      for (call_.index[0] = call_.grid[0]; call_.index[0]-- > 0;) {
        const tb_status status = function_.entry(&call_);
        if (!status) continue;
        if (!call_.error_text[0])
          std::snprintf(call_.error_text, call_.error_capacity, "failed with status %d and no text", status);
        return status;
      }
  return TB_OK;
}

} // namespace tb::sim
