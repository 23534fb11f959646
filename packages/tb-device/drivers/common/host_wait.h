// Lets the host give up Python's lock while a call of a built-in driver waits.
#pragma once

#include <cstddef>

#include "tb/driver.h"

namespace tb::drivers {

// While it lives, the calling thread holds nothing of the host's that queued work may need, which is Python's lock. A
// host that is too old for tb_host.before_wait gives up nothing.
class HostWait {
public:
  explicit HostWait(const tb_host *host) noexcept
      : host_(host), given_up_(knows(host) && host->before_wait ? host->before_wait() : nullptr) {}
  ~HostWait() {
    if (given_up_) host_->after_wait(given_up_);
  }
  HostWait(const HostWait &) = delete;
  HostWait &operator=(const HostWait &) = delete;

private:
  static bool knows(const tb_host *host) noexcept {
    return host->struct_size >= offsetof(tb_host, after_wait) + sizeof host->after_wait;
  }

  const tb_host *const host_;
  void *const given_up_;
};

} // namespace tb::drivers
