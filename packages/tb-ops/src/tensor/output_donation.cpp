// Implements the allocator that hands out donated memory, and copies results.
#include "tensor/output_donation.h"

#include <ATen/ops/clone_ops.h>
#include <ATen/ops/empty_ops.h>
#include <ATen/ops/empty_strided_ops.h>
#include <ATen/ops/resize_ops.h>
#include <c10/core/Allocator.h>

#include <algorithm>
#include <atomic>
#include <memory>

#include "tensor/outputs.h"

namespace tb::ops {
namespace {

thread_local constinit OutputDonation *current = nullptr;
thread_local constinit ResultMemory *result_memory = nullptr;
thread_local constinit bool probes =
    false; // this thread makes tensors to find the call sites in PyTorch that allocate them
std::atomic<int64_t> donated{0}, copied{0};

// Allocates with PyTorch's own allocator, except for tensors of threads with a donation. oneDNN takes scratch memory
// from the same allocator and frees it there, so scratch memory must not be donated. The call site in PyTorch
// distinguishes the two.
class DonatingAllocator final : public c10::Allocator {
public:
  explicit DonatingAllocator(c10::Allocator &inner) : inner_(inner) {}

  c10::DataPtr allocate(size_t bytes) override {
    const void *const caller = __builtin_extract_return_addr(__builtin_return_address(0));
    if (current && makes_tensors(caller)) [[unlikely]]
      if (void *memory = current->allocate(bytes)) return {memory, nullptr, &c10::detail::deleteNothing, c10::kCPU};
    if (result_memory && bytes != 0 && makes_tensors(caller)) [[unlikely]]
      return result_memory->allocate(bytes);
    if (probes) [[unlikely]]
      callers_.push_back(caller);
    return inner_.allocate(bytes);
  }
  bool is_simple_data_ptr(const c10::DataPtr &pointer) const override { return inner_.is_simple_data_ptr(pointer); }
  c10::DeleterFnPtr raw_deleter() const override { return inner_.raw_deleter(); }
  void copy_data(void *to, const void *from, size_t bytes) const override { inner_.copy_data(to, from, bytes); }

  // Finds the call sites at which PyTorch allocates tensors: with sizes, with strides, and to grow one.
  void probe() {
    probes = true;
    const auto empty = [](c10::SymInt size) {
      const c10::SymInt sizes[] = {std::move(size)};
      return at::_ops::empty_memory_format::call(sizes, at::kFloat, std::nullopt, c10::kCPU, std::nullopt,
                                                 std::nullopt);
    };
    const c10::SymInt one[] = {1};
    empty(1);
    at::_ops::empty_strided::call(one, one, at::kFloat, std::nullopt, c10::kCPU, std::nullopt);
    at::_ops::resize_::call(empty(0), one, std::nullopt);
    probes = false;
  }

private:
  bool makes_tensors(const void *caller) const {
    return std::find(callers_.begin(), callers_.end(), caller) != callers_.end();
  }

  c10::Allocator &inner_;
  c10::SmallVector<const void *, 8> callers_;
};

void free_result(void *data) { delete static_cast<c10::DataPtr *>(data); }

bool is_in(const at::Tensor &result, const at::Tensor &donated) {
  return result.data_ptr() == donated.data_ptr() && result.scalar_type() == donated.scalar_type() &&
         result.sizes() == donated.sizes() && result.strides() == donated.strides() && !result.is_conj() &&
         !result.is_neg();
}

} // namespace

OutputDonation::OutputDonation(c10::ArrayRef<at::Tensor> donated) : before_(current) {
  for (const at::Tensor &tensor : donated) buffers_.push_back({tensor});
  current = this;
}

OutputDonation::~OutputDonation() { end(); }

void OutputDonation::end() {
  if (active_) current = before_;
  active_ = false;
}

void *OutputDonation::allocate(size_t bytes) {
  for (Buffer &buffer : buffers_)
    if (!buffer.used && buffer.tensor.defined() && bytes != 0 && buffer.tensor.nbytes() == bytes) {
      buffer.used = true;
      return buffer.tensor.data_ptr();
    }
  return nullptr;
}

bool OutputDonation::holds(const at::Tensor &tensor) const {
  return std::any_of(buffers_.begin(), buffers_.end(), [&](const Buffer &buffer) {
    return buffer.used && tensor.storage().data() == buffer.tensor.data_ptr();
  });
}

void OutputDonation::collect(c10::ArrayRef<at::Tensor> results) {
  end();
  TORCH_INTERNAL_ASSERT(results.size() <= buffers_.size());
  c10::SmallVector<at::Tensor, 4> from(results.begin(), results.end());
  const auto elsewhere = [&](size_t i) { return buffers_[i].tensor.defined() && !is_in(from[i], buffers_[i].tensor); };
  // First clone the results that are in another result's memory, or in their own with other strides, because the copies
  // below would overwrite them.
  for (size_t i = 0; i < from.size(); i++)
    if (elsewhere(i) && holds(from[i])) from[i] = at::_ops::clone::call(from[i], std::nullopt);
  for (size_t i = 0; i < from.size(); i++) {
    at::Tensor &to = buffers_[i].tensor;
    if (!to.defined()) continue;
    const bool copies = elsewhere(i);
    if (copies) copy_result(to, from[i]);
    (copies ? copied : donated).fetch_add(static_cast<int64_t>(to.nbytes()), std::memory_order_relaxed);
  }
}

ResultMemory::ResultMemory(c10::function_ref<c10::DataPtr(size_t)> allocate)
    : allocate_(allocate), before_(std::exchange(result_memory, this)) {}

ResultMemory::~ResultMemory() { result_memory = before_; }

c10::DataPtr ResultMemory::allocate(size_t bytes) const {
  // What runs inside of allocate_ makes no results.
  struct Pause {
    ResultMemory *const paused = std::exchange(result_memory, nullptr);
    ~Pause() { result_memory = paused; }
  } const pause;
  auto data = std::make_unique<c10::DataPtr>(allocate_(bytes));
  void *const memory = data->get();
  return {memory, data.release(), &free_result, c10::kCPU};
}

std::optional<c10::DataPtr> ResultMemory::take(const c10::Storage &storage) {
  c10::StorageImpl &impl = *storage.unsafeGetStorageImpl();
  if (storage.use_count() != 1 || impl.data_ptr().get_deleter() != &free_result) return std::nullopt;
  c10::DataPtr cpu = impl.set_data_ptr(c10::DataPtr(nullptr, c10::kCPU));
  return std::move(*static_cast<c10::DataPtr *>(cpu.get_context()));
}

std::pair<int64_t, int64_t> donated_bytes() { return {donated, copied}; }

void install_output_donation() {
  static DonatingAllocator &donating = *new DonatingAllocator(*c10::GetAllocator(c10::kCPU));
  c10::SetAllocator(c10::kCPU, &donating);
  donating.probe();
}

} // namespace tb::ops
