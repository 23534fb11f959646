// sources.h -- where a heap's segments come from and go to: device memory or pinned host memory.
#pragma once

#include "host.h"

namespace tb::allocator {

class Source {
public:
  explicit Source(const Driver &driver) : driver_(driver) {}
  virtual ~Source() = default;
  virtual tb_status allocate(uint64_t size, void **out) = 0;
  // No queued work may use the memory any more.
  virtual tb_status free(void *pointer) = 0;
  // Afterwards no queued work uses blocks that were deallocated before the call.
  virtual tb_status synchronize() = 0;
  virtual int32_t device() const = 0; // -1: the host

protected:
  Driver driver_;
};

class DeviceSource final : public Source {
public:
  DeviceSource(const Driver &driver, int32_t device) : Source(driver), device_(device) {}
  tb_status allocate(uint64_t size, void **out) override {
    return driver_.api->mem_alloc(driver_.self, device_, size, 0, out);
  }
  tb_status free(void *pointer) override { return driver_.api->mem_free(driver_.self, device_, pointer); }
  tb_status synchronize() override { return driver_.api->device_synchronize(driver_.self, device_); }
  int32_t device() const override { return device_; }

private:
  int32_t device_;
};

// A freed host block waits for its recorded streams itself, so no work uses a free one.
class HostSource final : public Source {
public:
  using Source::Source;
  tb_status allocate(uint64_t size, void **out) override {
    return driver_.api->mem_alloc_host(driver_.self, host.current_device(), size, 0, out);
  }
  tb_status free(void *pointer) override { return driver_.api->mem_free_host(driver_.self, pointer); }
  tb_status synchronize() override { return TB_OK; }
  int32_t device() const override { return -1; }
};

} // namespace tb::allocator
