// simulated_backend.cpp -- replaces PyTorch's CUDA backend in a PyTorch that is built without it: a device guard,
// memory and kernels for DispatchKey::CUDA, on the simulated libcuda.
//
// One kernel serves every operator: it copies the storages of the arguments to the host on CUDA's current stream, runs
// the CPU's kernel and copies back what that wrote. Like a CUDA kernel it uses the given addresses and only that stream,
// and leaves alone what it does not write: other streams may be writing there.
#include <ATen/CPUGeneratorImpl.h>
#include <ATen/EmptyTensor.h>
#include <ATen/SparseTensorImpl.h>
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/detail/CUDAHooksInterface.h>
#include <c10/core/impl/DeviceGuardImplInterface.h>
#include <torch/library.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cstdlib>
#include <deque>
#include <memory>
#include <mutex>
#include <vector>

#include "libcuda.h"

namespace {

constexpr c10::DeviceType kCuda = c10::DeviceType::CUDA;

thread_local c10::DeviceIndex current_device = 0;
thread_local std::array<c10::StreamId, 8> current_streams{};
std::atomic<uint64_t> kernels{0}, last_stream{0};
std::atomic<int32_t> last_device{-1};
std::atomic<int64_t> blocks{0};

struct Guard final : c10::impl::DeviceGuardImplInterface {
  c10::DeviceType type() const override { return kCuda; }
  c10::Device exchangeDevice(c10::Device device) const override {
    const c10::Device before = getDevice();
    setDevice(device);
    return before;
  }
  c10::Device getDevice() const override { return {kCuda, current_device}; }
  void setDevice(c10::Device device) const override {
    current_device = device.index();
    void *context = nullptr;
    int native = 0;
    cuda("cuDeviceGet", &native, static_cast<int>(current_device));
    cuda("cuDevicePrimaryCtxRetain", &context, native);
    cuda("cuCtxSetCurrent", context);
  }
  void uncheckedSetDevice(c10::Device device) const noexcept override { current_device = device.index(); }
  c10::Stream getStream(c10::Device device) const override {
    return c10::Stream(c10::Stream::UNSAFE, device, current_streams[device.index()]);
  }
  c10::Stream exchangeStream(c10::Stream stream) const override {
    const c10::Stream before = getStream(stream.device());
    current_streams[stream.device_index()] = stream.id();
    return before;
  }
  c10::DeviceIndex deviceCount() const noexcept override {
    int count = 0;
    cuda("cuInit", 0u);
    cuda("cuDeviceGetCount", &count);
    if (const char *fewer = std::getenv("SIMULATED_BACKEND_DEVICES"))
      count = std::atoi(fewer); // hides devices, as CUDA_VISIBLE_DEVICES does
    return static_cast<c10::DeviceIndex>(count);
  }
};
C10_REGISTER_GUARD_IMPL(CUDA, Guard);

// Makes a tensor's device current while its bytes are copied.
class On {
public:
  explicit On(c10::Device device) : before_(kCuda, current_device) { change(device); }
  ~On() { change(before_); }

private:
  static void change(c10::Device device) {
    if (device.index() != current_device) Guard().setDevice(device);
  }
  const c10::Device before_;
};

void *stream() {
  const auto handle = static_cast<uint64_t>(current_streams[current_device]);
  last_stream = handle;
  last_device = current_device;
  return reinterpret_cast<void *>(handle);
}
Address address(const void *pointer) { return reinterpret_cast<Address>(pointer); }
void fetch(void *host, const void *device, size_t bytes) {
  if (bytes) cuda("cuMemcpyDtoHAsync_v2", host, address(device), bytes, stream());
  cuda("cuStreamSynchronize", stream());
}
// Queues a copy of some bytes to the device, as a kernel writes its results after the call. The host's bytes are kept
// until the copy is done.
void store(const void *device, const c10::Storage &host, size_t begin, size_t bytes) {
  static std::mutex lock;
  static auto *sources = new std::array<std::vector<c10::Storage>, 8>(); // by device
  if (bytes == 0) return;
  cuda("cuMemcpyHtoDAsync_v2", address(device) + begin, static_cast<const char *>(host.data()) + begin, bytes,
       stream());
  const std::lock_guard guard(lock);
  std::vector<c10::Storage> &mine = (*sources)[current_device];
  mine.push_back(host);
  if (mine.size() < 64) return;
  cuda("cuCtxSynchronize");
  mine.clear();
}

struct Generator final : c10::GeneratorImpl {
  explicit Generator(c10::DeviceIndex device)
      : GeneratorImpl({kCuda, device}, c10::DispatchKeySet(c10::DispatchKey::CUDA)) {}
  void set_current_seed(uint64_t seed) override { seed_ = seed; }
  uint64_t current_seed() const override { return seed_; }
  uint64_t seed() override { return seed_; }
  void set_offset(uint64_t) override { refuse(); }
  uint64_t get_offset() const override { return refuse(), 0; }
  void set_state(const c10::TensorImpl &) override { refuse(); }
  c10::intrusive_ptr<c10::TensorImpl> get_state() const override { return refuse(), nullptr; }
  GeneratorImpl *clone_impl() const override { return refuse(), nullptr; }

private:
  static void refuse() { TORCH_CHECK(false, "simulated CUDA backend: nobody asks a generator for that"); }
  uint64_t seed_ = 0;
};

std::atomic<bool> initialized{false};
struct CUDAHooks final : at::CUDAHooksInterface {
  explicit CUDAHooks(at::CUDAHooksArgs) {}
  bool hasCUDA() const override { return true; }
  void init() const override { initialized = true; }
  at::Generator getNewGenerator(c10::DeviceIndex device) const override {
    return at::make_generator<Generator>(device);
  }
};
using at::CUDAHooksRegistry, at::RegistererCUDAHooksRegistry;
REGISTER_CUDA_HOOKS(CUDAHooks);

// A block, which is freed in the order of the stream that it was allocated for, as by CUDA's allocator.
struct Block {
  Address address;
  void *stream;
};
void free_block(void *context) {
  const std::unique_ptr<Block> block(static_cast<Block *>(context));
  blocks.fetch_sub(1);
  cuda("cuStreamSynchronize", block->stream);
  cuda("cuMemFree_v2", block->address);
}
c10::DataPtr allocate(size_t bytes) {
  TORCH_CHECK(initialized, "simulated CUDA backend: the allocator is not initialized");
  auto block = std::make_unique<Block>(Block{0, stream()});
  cuda("cuMemAlloc_v2", &block->address, bytes ? bytes : 1);
  blocks.fetch_add(1);
  void *pointer = reinterpret_cast<void *>(block->address);
  return {pointer, block.release(), &free_block, c10::Device(kCuda, current_device)};
}

struct Allocator final : c10::Allocator {
  c10::DataPtr allocate(size_t bytes) override { return ::allocate(bytes); }
  void copy_data(void *, const void *, size_t) const override {
    TORCH_CHECK(false, "simulated CUDA backend: nobody copies so");
  }
} allocator;
const bool registered = (c10::SetAllocator(kCuda, &allocator), true);

at::Tensor like(const at::Tensor &tensor, c10::Storage storage, c10::DispatchKey key) {
  at::Tensor out =
      at::detail::make_tensor<c10::TensorImpl>(std::move(storage), c10::DispatchKeySet(key), tensor.dtype());
  out.unsafeGetTensorImpl()->set_sizes_and_strides(tensor.sizes(), tensor.strides(), tensor.storage_offset());
  out.unsafeGetTensorImpl()->_set_conj(tensor.is_conj());
  out.unsafeGetTensorImpl()->_set_neg(tensor.is_neg());
  return out;
}

c10::Storage storage(c10::DataPtr data, size_t bytes) {
  c10::Allocator *owner = c10::GetAllocator(data.device().type());
  return c10::Storage(
      c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), bytes, std::move(data), owner, true));
}

// The copies on the host during one call.
class Call {
public:
  at::Tensor to_host(const at::Tensor &tensor) {
    if (!tensor.defined() || tensor.is_cpu()) return tensor;
    TORCH_CHECK(tensor.device().type() == kCuda, "simulated CUDA backend: a tensor on ", tensor.device());
    for (const Pair &pair : pairs_)
      if (pair.cuda.is_same(tensor)) return pair.host;
    const Shared *shared = nullptr;
    for (const Shared &each : storages_)
      if (each.cuda.unsafeGetStorageImpl() == tensor.storage().unsafeGetStorageImpl()) shared = &each;
    if (!shared) {
      const size_t bytes = tensor.storage().nbytes();
      c10::Storage host = storage(c10::GetAllocator(c10::kCPU)->allocate(bytes), bytes);
      const On on(tensor.device());
      fetch(host.mutable_data(), tensor.storage().data(), bytes);
      const auto *data = static_cast<const char *>(host.data());
      shared = &storages_.emplace_back(Shared{tensor.storage(), std::move(host), data, {data, data + bytes}});
    }
    pairs_.push_back({tensor, like(tensor, shared->host, c10::DispatchKey::CPU)});
    return pairs_.back().host;
  }
  void write_back() {
    for (Shared &shared : storages_) {
      c10::StorageImpl &cuda = *shared.cuda.unsafeGetStorageImpl(), &host = *shared.host.unsafeGetStorageImpl();
      const On on(cuda.device());
      if (host.data() != shared.fetched || host.nbytes() != cuda.nbytes()) {
        cuda.set_data_ptr_noswap(allocate(host.nbytes()));
        cuda.set_nbytes(host.nbytes());
        store(cuda.data(), shared.host, 0, host.nbytes());
        continue;
      }
      write_changes(shared);
    }
    for (Pair &pair : pairs_)
      pair.cuda.unsafeGetTensorImpl()->set_sizes_and_strides(pair.host.sizes(), pair.host.strides(),
                                                             pair.host.storage_offset());
  }
  at::Tensor to_cuda(const at::Tensor &tensor) {
    if (!tensor.defined() || !tensor.is_cpu()) return tensor;
    if (tensor.is_sparse()) // an empty one suffices, because tb refuses it anyway
      return at::detail::make_tensor<at::SparseTensorImpl>(c10::DispatchKeySet(c10::DispatchKey::SparseCUDA),
                                                           tensor.dtype());
    for (const Pair &pair : pairs_)
      if (pair.host.is_same(tensor)) return pair.cuda;
    for (const Shared &shared : storages_)
      if (shared.host.unsafeGetStorageImpl() == tensor.storage().unsafeGetStorageImpl())
        return like(tensor, shared.cuda, c10::DispatchKey::CUDA);
    c10::Storage made = storage(allocate(tensor.storage().nbytes()), tensor.storage().nbytes());
    store(made.data(), tensor.storage(), 0, tensor.storage().nbytes());
    return like(tensor, std::move(made), c10::DispatchKey::CUDA);
  }

private:
  struct Pair {
    at::Tensor cuda, host;
  };
  struct Shared {
    c10::Storage cuda, host;
    const void *fetched;
    std::vector<char> before; // the bytes that were fetched
  };

  // Stores runs of changed bytes, with short gaps, because some bytes of a changed number stay as they were.
  static void write_changes(const Shared &shared) {
    constexpr size_t gap = 16; // the largest element
    const auto *now = static_cast<const char *>(shared.host.data());
    const auto differs = [&](size_t i) { return now[i] != shared.before[i]; };
    const size_t bytes = shared.before.size();
    for (size_t begin = 0; begin < bytes; begin++) {
      if (!differs(begin)) continue;
      size_t end = begin + 1;
      for (size_t i = end; i < bytes && i < end + gap; i++)
        if (differs(i)) end = i + 1;
      store(shared.cuda.data(), shared.host, begin, end - begin);
      begin = end;
    }
  }

  std::deque<Pair> pairs_;
  std::deque<Shared> storages_;
};

template <class Convert> void convert(c10::IValue &value, Convert tensor) {
  if (value.isTensor()) {
    value = tensor(value.toTensor());
  } else if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor &item : value.toTensorVector()) list.push_back(tensor(item));
    value = list;
  } else if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const std::optional<at::Tensor> &item : value.toOptionalTensorVector())
      list.push_back(item ? std::optional<at::Tensor>(tensor(*item)) : std::nullopt);
    value = list;
  }
}

uint64_t cuda_seed(const at::Generator &generator) {
  TORCH_CHECK(generator.device().type() == kCuda, "simulated CUDA backend: a generator on ", generator.device());
  return generator.current_seed();
}

void kernel(const c10::OperatorHandle &op, c10::DispatchKeySet, torch::jit::Stack *stack) {
  kernels.fetch_add(1);
  Call call;
  const size_t given = op.schema().arguments().size();
  for (size_t i = stack->size() - given; i < stack->size(); i++) {
    c10::IValue &value = (*stack)[i];
    if (value.isDevice() && value.toDevice().type() == kCuda) value = c10::Device(c10::kCPU);
    if (value.isGenerator()) value = at::detail::createCPUGenerator(cuda_seed(value.toGenerator()));
    convert(value, [&](const at::Tensor &tensor) { return call.to_host(tensor); });
  }
  op.redispatchBoxed(c10::DispatchKeySet(c10::DispatchKey::CPU), stack);
  call.write_back();
  for (size_t i = stack->size() - op.schema().returns().size(); i < stack->size(); i++)
    convert((*stack)[i], [&](const at::Tensor &tensor) { return call.to_cuda(tensor); });
}

TORCH_LIBRARY_IMPL(_, CUDA, all) { all.fallback(torch::CppFunction::makeFromBoxedFunction<&kernel>()); }
// PyTorch's own copy_ calls a table that only its CUDA build fills. The others are some operators for which CUDA has
// kernels, and which PyTorch composes on other devices.
TORCH_LIBRARY_IMPL(aten, CUDA, aten) {
  for (const char *name :
       {"copy_", "native_layer_norm", "native_group_norm", "_foreach_add.Scalar", "_foreach_add_.Scalar",
        "_foreach_mul_.Scalar", "_foreach_sqrt", "_foreach_norm.Scalar", "mode.values"})
    aten.impl(name, torch::CppFunction::makeFromBoxedFunction<&kernel>());
}

} // namespace

// The number of kernels so far, the stream and device of the last one, the current stream, and the number of live
// blocks.
extern "C" uint64_t simulated_kernels() { return kernels; }
extern "C" uint64_t simulated_last_stream() { return last_stream; }
extern "C" int32_t simulated_last_device() { return last_device; }
extern "C" uint64_t simulated_current_stream() { return static_cast<uint64_t>(current_streams[current_device]); }
extern "C" int64_t simulated_blocks() { return blocks; }
