// The operation that launches a kernel on the host (tb/host_kernel.h).
#pragma once

#include <memory>
#include <vector>

#include "drivers/common/host_module.h"
#include "drivers/sim/queue/operation.h"

namespace tb::drivers::sim {

class LaunchOperation : public Operation {
public:
  // Copies the arguments. Throws std::bad_alloc without memory for what the blocks share.
  LaunchOperation(std::shared_ptr<Stream> stream, const Function &function, const tb_launch &config);
  const char *name() const noexcept override { return "launch"; }
  tb_status run(Run &run) override;
  bool is_function() const noexcept override { return true; }
  bool needs_success() const noexcept override { return true; }

private:
  static constexpr uint64_t value_alignment = 16; // of every argument's value, enough for any C type
  struct alignas(TB_HOST_KERNEL_ALIGNMENT) Line {
    std::byte bytes[TB_HOST_KERNEL_ALIGNMENT];
  };

  const Ref<Module> module_; // also keeps the function
  const Function &function_;
  std::vector<Line> values_, shared_;
  std::vector<const void *> args_;
  std::vector<uint64_t> arg_sizes_;
  tb_host_kernel_call call_{};
};

} // namespace tb::drivers::sim
