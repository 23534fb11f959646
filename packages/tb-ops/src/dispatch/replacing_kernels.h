// Lets kernels be registered in the place of others, about which PyTorch warns.
#pragma once
#include <c10/util/Exception.h>

namespace tb::ops {

// While it lives, this thread does not see those warnings. Others reach the handler that was there before.
class ReplacingKernels {
public:
  ReplacingKernels() : handler_(c10::WarningUtils::get_warning_handler()), guard_(&handler_) {}
  ReplacingKernels(const ReplacingKernels &) = delete;
  ReplacingKernels &operator=(const ReplacingKernels &) = delete;

private:
  class Handler : public c10::WarningHandler {
  public:
    explicit Handler(c10::WarningHandler *others) : others_(others) {}
    void process(const c10::Warning &warning) override {
      if (warning.msg().find("previously registered kernel") == std::string::npos) others_->process(warning);
    }

  private:
    c10::WarningHandler *others_;
  };

  Handler handler_;
  c10::WarningUtils::WarningHandlerGuard guard_;
};

} // namespace tb::ops
