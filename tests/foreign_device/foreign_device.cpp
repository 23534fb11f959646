// A PrivateUse1 backend that has nothing of ours: one device in the host's memory, whose operators run on the CPU.
#define Py_LIMITED_API 0x030b0000
#include <Python.h>

#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <ATen/detail/PrivateUse1HooksInterface.h>
#include <ATen/native/CPUFallback.h>
#include <ATen/ops/_copy_from_native.h>
#include <ATen/ops/_local_scalar_dense_native.h>
#include <ATen/ops/_reshape_alias_native.h>
#include <ATen/ops/as_strided_native.h>
#include <ATen/ops/from_blob.h>
#include <ATen/ops/resize_native.h>
#include <ATen/ops/set_native.h>
#include <ATen/ops/view_native.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <cstdlib>

namespace {

constexpr auto TYPE = c10::DeviceType::PrivateUse1;
const c10::Device DEVICE{TYPE, 0};

struct Memory final : c10::Allocator {
  c10::DataPtr allocate(size_t size) override {
    void *data = size ? std::aligned_alloc(64, (size + 63) / 64 * 64) : nullptr;
    TORCH_CHECK(data || !size, "the foreign device has no ", size, " bytes");
    return {data, data, &std::free, DEVICE};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &std::free; }
  void copy_data(void *to, const void *from, size_t size) const override { std::memcpy(to, from, size); }
} memory;
REGISTER_ALLOCATOR(TYPE, &memory);

// One device with one stream, whose work is done when it is queued.
struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return TYPE; }
  c10::Device exchangeDevice(c10::Device) const override { return DEVICE; }
  c10::Device getDevice() const override { return DEVICE; }
  void setDevice(c10::Device device) const override { TORCH_CHECK(device.index() <= 0, "there is one foreign device"); }
  void uncheckedSetDevice(c10::Device) const noexcept override {}
  c10::Stream getStream(c10::Device) const override { return c10::Stream(c10::Stream::DEFAULT, DEVICE); }
  c10::Stream getDefaultStream(c10::Device device) const override { return getStream(device); }
  c10::Stream exchangeStream(c10::Stream stream) const override { return stream; }
  c10::DeviceIndex deviceCount() const noexcept override { return 1; }
  bool queryStream(const c10::Stream &) const override { return true; }
  void synchronizeStream(const c10::Stream &) const override {}
  void synchronizeDevice(c10::DeviceIndex) const override {}
  void record(void **, const c10::Stream &, c10::DeviceIndex, c10::EventFlag) const override {}
  void block(void *, const c10::Stream &) const override {}
  bool queryEvent(void *) const override { return true; }
};
C10_REGISTER_GUARD_IMPL(PrivateUse1, Guard);

// The device's generator is one of the CPU's with another device.
struct Generator final : at::CPUGeneratorImpl {
  Generator() {
    device_ = DEVICE;
    key_set_ = c10::DispatchKeySet(c10::DispatchKey::PrivateUse1);
  }
};

struct Hooks final : at::PrivateUse1HooksInterface {
  bool isBuilt() const override { return true; }
  bool isAvailable() const override { return true; }
  bool hasPrimaryContext(c10::DeviceIndex) const override { return true; }
  c10::DeviceIndex deviceCount() const override { return 1; }
  c10::DeviceIndex getCurrentDevice() const override { return 0; }
  void setCurrentDevice(c10::DeviceIndex) const override {}
  c10::DeviceIndex exchangeDevice(c10::DeviceIndex) const override { return 0; }
  c10::DeviceIndex maybeExchangeDevice(c10::DeviceIndex) const override { return 0; }
  at::Device getDeviceFromPtr(void *) const override { return DEVICE; }
  const at::Generator &getDefaultGenerator(c10::DeviceIndex) const override {
    static const at::Generator generator = at::make_generator<Generator>();
    return generator;
  }
  at::Generator getNewGenerator(c10::DeviceIndex) const override { return at::make_generator<Generator>(); }
  void resizePrivateUse1Bytes(const c10::Storage &storage, size_t size) const override {
    c10::DataPtr data = memory.allocate(size);
    if (storage.nbytes()) std::memcpy(data.get(), storage.data(), std::min(size, storage.nbytes()));
    storage.set_data_ptr_noswap(std::move(data));
    storage.unsafeGetStorageImpl()->set_nbytes(size);
  }
};

const c10::DispatchKeySet KEYS(c10::DispatchKey::PrivateUse1);

at::Tensor empty(c10::IntArrayRef size, std::optional<c10::ScalarType> type, std::optional<c10::Layout>,
                 std::optional<c10::Device>, std::optional<bool>, std::optional<c10::MemoryFormat> format) {
  return at::detail::empty_generic(size, &memory, KEYS, c10::dtype_or_default(type), format);
}

at::Tensor empty_strided(c10::IntArrayRef size, c10::IntArrayRef stride, std::optional<c10::ScalarType> type,
                         std::optional<c10::Layout>, std::optional<c10::Device>, std::optional<bool>) {
  return at::detail::empty_strided_generic(size, stride, &memory, KEYS, c10::dtype_or_default(type));
}

// The same memory as a tensor of the CPU.
at::Tensor on_host(const at::Tensor &tensor) {
  if (tensor.is_cpu()) return tensor;
  at::Tensor host = at::from_blob(const_cast<void *>(tensor.const_data_ptr()), tensor.sizes(), tensor.strides(),
                                  tensor.options().device(c10::kCPU));
  host._set_conj(tensor.is_conj());
  host._set_neg(tensor.is_neg());
  return host;
}

at::Tensor copy_from(const at::Tensor &from, const at::Tensor &to, bool) {
  on_host(to).copy_(on_host(from));
  return to;
}

at::Tensor copy_from_and_resize(const at::Tensor &from, const at::Tensor &to) {
  if (to.sizes() != from.sizes()) at::native::resize_(to, from.sizes());
  return copy_from(from, to, false);
}

at::Scalar item(const at::Tensor &tensor) { return at::native::_local_scalar_dense_cpu(on_host(tensor)); }

// The CPU's kernels check that a generator is the CPU's: they get one with the same state, and give the state back.
void run_on_cpu(const c10::OperatorHandle &op, torch::jit::Stack *stack) {
  std::optional<at::Generator> drawn, on_cpu;
  for (size_t at = stack->size() - op.schema().arguments().size(); at < stack->size(); ++at) {
    c10::IValue &value = (*stack)[at];
    if (!value.isGenerator() || value.toGenerator().device().type() != TYPE) continue;
    drawn = value.toGenerator();
    on_cpu = at::detail::createCPUGenerator();
    on_cpu->set_state(drawn->get_state());
    value = *on_cpu;
  }
  at::native::cpu_fallback(op, stack);
  if (drawn) drawn->set_state(on_cpu->get_state());
}

TORCH_LIBRARY_IMPL(aten, PrivateUse1, library) {
  library.impl("empty.memory_format", &empty);
  library.impl("empty_strided", &empty_strided);
  library.impl("_copy_from", &copy_from);
  library.impl("_copy_from_and_resize", &copy_from_and_resize);
  library.impl("_local_scalar_dense", &item);
  library.impl("as_strided", &at::native::as_strided_tensorimpl);
  library.impl("_reshape_alias", &at::native::_reshape_alias);
  library.impl("view", &at::native::view);
  library.impl("resize_", &at::native::resize_);
  library.impl("set_", &at::native::set_cpu_);
  library.impl("set_.source_Tensor", &at::native::set_tensor_);
  library.impl("set_.source_Storage", static_cast<at::Tensor &(*)(at::Tensor &, at::Storage)>(&at::native::set_));
  library.impl("set_.source_Storage_storage_offset", &at::native::set_storage_cpu_);
}

TORCH_LIBRARY_IMPL(_, PrivateUse1, library) {
  library.fallback(torch::CppFunction::makeFromBoxedFunction<&run_on_cpu>());
}

PyModuleDef definition{
    PyModuleDef_HEAD_INIT, "_foreign_device", nullptr, -1, nullptr, nullptr, nullptr, nullptr, nullptr};

} // namespace

PyMODINIT_FUNC PyInit__foreign_device() {
  at::RegisterPrivateUse1HooksInterface(new Hooks);
  return PyModule_Create(&definition);
}
