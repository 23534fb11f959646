// hooks.cpp -- at::PrivateUse1HooksInterface: what ATen needs of the backend besides the device guard.
#include <ATen/core/CachingHostAllocator.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/Storage.h>

#include "allocators.h"
#include "components.h"
#include "generator.h"
#include "registration.h"

namespace tb::backend {
namespace {

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return device_count() > 0; }
  bool hasPrimaryContext(c10::DeviceIndex device) const override {
    return readiness.load() == Readiness::ready && device >= 0 && device < device_count();
  }
  // ATen calls this inside a std::call_once. Initializing here would take the GIL there and could deadlock. The first
  // function that needs the device initializes it (ensure_ready).
  void init() const override {}

  c10::DeviceIndex deviceCount() const override { return device_count(); }
  c10::DeviceIndex getCurrentDevice() const override {
    return static_cast<c10::DeviceIndex>(components.device.current_device());
  }
  void setCurrentDevice(c10::DeviceIndex device) const override {
    if (device == getCurrentDevice()) return;
    ensure_ready();
    check(components.device.set_current_device(device), "set_current_device", device);
  }
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex device) const override {
    const c10::DeviceIndex previous = getCurrentDevice();
    if (device >= 0) setCurrentDevice(device);
    return previous;
  }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex device) const override { return exchangeDevice(device); }

  bool isPinnedPtr(const void *data) const override {
    return data && readiness.load() == Readiness::ready && components.allocator.host_find(data);
  }
  at::Allocator *getPinnedMemoryAllocator() const override { return host_allocator(); }
  at::Device getDeviceFromPtr(void *data) const override {
    ensure_ready();
    tb_pointer_info info{};
    info.struct_size = sizeof info;
    check(components.api->mem_get_info(components.driver, data, &info), "mem_get_info");
    TORCH_CHECK_VALUE(info.kind == TB_POINTER_DEVICE, "the pointer is pinned host memory, not memory of a tb device");
    return make_device(info.device);
  }
  const at::Generator &getDefaultGenerator(c10::DeviceIndex device) const override { return default_generator(device); }
  at::Generator getNewGenerator(c10::DeviceIndex device) const override { return new_generator(device); }

  // Allocates new memory, copies the old bytes in stream order and replaces the pointer. The old memory may belong to
  // another stream, so it must not be reused before the copy on this stream is done.
  void resizePrivateUse1Bytes(const c10::Storage &storage, size_t size) const override {
    ensure_ready();
    c10::StorageImpl *impl = storage.unsafeGetStorageImpl();
    TORCH_CHECK(impl->resizable(), "Trying to resize storage that is not resizable");
    const c10::DeviceGuard on(storage.device());
    c10::DataPtr grown = device_allocator()->allocate(size);
    const size_t kept = std::min(size, storage.nbytes());
    if (kept && storage.data()) {
      device_allocator()->copy_data(grown.get(), storage.data(), kept);
      const int32_t device = components.device.current_device();
      record_stream(storage.data_ptr(), to_c10(current_stream(device), device));
    }
    impl->set_data_ptr_noswap(std::move(grown));
    impl->set_nbytes(size);
  }
};

} // namespace

void register_hooks() { at::RegisterPrivateUse1HooksInterface(new Hooks); }

} // namespace tb::backend
