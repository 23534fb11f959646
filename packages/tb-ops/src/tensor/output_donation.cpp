// The allocator that gives wanted memory, and what becomes of results.
#include "tensor/output_donation.h"

#include <ATen/ops/clone_ops.h>
#include <ATen/ops/empty_ops.h>
#include <ATen/ops/empty_strided_ops.h>
#include <ATen/ops/resize_ops.h>
#include <c10/core/Allocator.h>

#include <algorithm>
#include <atomic>

#include "tensor/outputs.h"

namespace tb {
namespace {

thread_local constinit Placement *current = nullptr;
thread_local constinit bool learns = false; // this thread makes tensors to see from where they are made
std::atomic<int64_t> placed{0}, copied{0};

// PyTorch's own, but for threads with a placement, and then only for tensors: oneDNN takes memory for itself from the
// same allocator and gives it back there. What tells them apart is the place in PyTorch that the call comes from.
class PlacingAllocator final : public c10::Allocator {
public:
  explicit PlacingAllocator(c10::Allocator &inner) : inner_(inner) {}

  c10::DataPtr allocate(size_t bytes) override {
    const void *const caller = __builtin_extract_return_addr(__builtin_return_address(0));
    if (current && makes_tensors(caller)) [[unlikely]]
      if (void *memory = current->give(bytes)) return {memory, nullptr, &c10::detail::deleteNothing, c10::kCPU};
    if (learns) [[unlikely]]
      callers_.push_back(caller);
    return inner_.allocate(bytes);
  }
  bool is_simple_data_ptr(const c10::DataPtr &pointer) const override { return inner_.is_simple_data_ptr(pointer); }
  c10::DeleterFnPtr raw_deleter() const override { return inner_.raw_deleter(); }
  void copy_data(void *to, const void *from, size_t bytes) const override { inner_.copy_data(to, from, bytes); }

  // Sees from where PyTorch makes tensors, with sizes, with strides, and larger than they were.
  void learn() {
    learns = true;
    const auto empty = [](c10::SymInt size) {
      const c10::SymInt sizes[] = {std::move(size)};
      return at::_ops::empty_memory_format::call(sizes, at::kFloat, std::nullopt, c10::kCPU, std::nullopt,
                                                 std::nullopt);
    };
    const c10::SymInt one[] = {1};
    empty(1);
    at::_ops::empty_strided::call(one, one, at::kFloat, std::nullopt, c10::kCPU, std::nullopt);
    at::_ops::resize_::call(empty(0), one, std::nullopt);
    learns = false;
  }

private:
  bool makes_tensors(const void *caller) const {
    return std::find(callers_.begin(), callers_.end(), caller) != callers_.end();
  }

  c10::Allocator &inner_;
  c10::SmallVector<const void *, 8> callers_;
};

bool lies_in(const at::Tensor &result, const at::Tensor &wanted) {
  return result.data_ptr() == wanted.data_ptr() && result.scalar_type() == wanted.scalar_type() &&
         result.sizes() == wanted.sizes() && result.strides() == wanted.strides() && !result.is_conj() &&
         !result.is_neg();
}

} // namespace

Placement::Placement(c10::ArrayRef<at::Tensor> wanted) : before_(current) {
  for (const at::Tensor &tensor : wanted) wants_.push_back({tensor});
  current = this;
}

Placement::~Placement() { end(); }

void Placement::end() {
  if (lives_) current = before_;
  lives_ = false;
}

void *Placement::give(size_t bytes) {
  for (Want &want : wants_)
    if (!want.given && want.tensor.defined() && bytes != 0 && want.tensor.nbytes() == bytes) {
      want.given = true;
      return want.tensor.data_ptr();
    }
  return nullptr;
}

bool Placement::gave(const at::Tensor &tensor) const {
  return std::any_of(wants_.begin(), wants_.end(),
                     [&](const Want &want) { return want.given && tensor.storage().data() == want.tensor.data_ptr(); });
}

void Placement::take(c10::ArrayRef<at::Tensor> results) {
  end();
  TORCH_INTERNAL_ASSERT(results.size() <= wants_.size());
  c10::SmallVector<at::Tensor, 4> from(results.begin(), results.end());
  const auto elsewhere = [&](size_t i) { return wants_[i].tensor.defined() && !lies_in(from[i], wants_[i].tensor); };
  // First what lies in another result's memory, or in its own with other strides: the copies would write over it.
  for (size_t i = 0; i < from.size(); i++)
    if (elsewhere(i) && gave(from[i])) from[i] = at::_ops::clone::call(from[i], std::nullopt);
  for (size_t i = 0; i < from.size(); i++) {
    at::Tensor &to = wants_[i].tensor;
    if (!to.defined()) continue;
    const bool copies = elsewhere(i);
    if (copies) copy_result(to, from[i]);
    (copies ? copied : placed).fetch_add(static_cast<int64_t>(to.nbytes()), std::memory_order_relaxed);
  }
}

std::pair<int64_t, int64_t> placements() { return {placed, copied}; }

void install_placements() {
  static PlacingAllocator &placing = *new PlacingAllocator(*c10::GetAllocator(c10::kCPU));
  c10::SetAllocator(c10::kCPU, &placing);
  placing.learn();
}

} // namespace tb
