// Groups arguments by the memory that they share, and copies groups.
#include "step/step_arguments.h"

#include <ATen/MemoryOverlap.h>
#include <ATen/ops/empty.h>
#include <ATen/ops/empty_strided.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <numeric>

namespace tb::compile {
namespace {

// The bytes from the first element to the end of the last one.
int64_t span(const at::Tensor &tensor) {
  int64_t last = 0;
  for (int64_t i = 0; i < tensor.dim(); i++) {
    if (tensor.size(i) == 0) return 0;
    last += (tensor.size(i) - 1) * tensor.stride(i);
  }
  return (last + 1) * static_cast<int64_t>(tensor.itemsize());
}

int64_t address(const at::Tensor &tensor) { return reinterpret_cast<int64_t>(tensor.const_data_ptr()); }

// The bytes of a storage, as a tensor. at: from the beginning of the storage.
at::Tensor bytes(const at::Tensor &tensor, int64_t at, int64_t count) {
  at::Tensor made = at::empty({0}, tensor.options().dtype(at::kByte));
  made.set_(tensor.storage(), at, {count}, {1});
  return made;
}

int64_t offset_in_bytes(const at::Tensor &tensor) {
  return tensor.storage_offset() * static_cast<int64_t>(tensor.itemsize());
}

void show(const at::Tensor &tensor, const c10::Storage &storage, int64_t offset) {
  c10::TensorImpl *impl = tensor.unsafeGetTensorImpl();
  const bool allowed = impl->allow_tensor_metadata_change();
  impl->set_allow_tensor_metadata_change(true);
  impl->set_storage_keep_dtype(storage);
  impl->set_storage_offset(offset);
  impl->set_allow_tensor_metadata_change(allowed);
}

bool same_form(const at::Tensor &given, const at::Tensor &own) {
  return given.scalar_type() == own.scalar_type() && given.device() == own.device() && given.layout() == at::kStrided &&
         given.sizes() == own.sizes() && given.strides() == own.strides() && given.is_conj() == own.is_conj() &&
         given.is_neg() == own.is_neg() && given.is_inference() == own.is_inference() &&
         !(given.requires_grad() && c10::GradMode::is_enabled());
}

} // namespace

std::vector<StepArguments::Argument> StepArguments::group(const std::vector<at::Tensor> &given) {
  std::vector<Argument> made(given.size());
  std::vector<size_t> order(given.size());
  std::iota(order.begin(), order.end(), 0);
  std::ranges::sort(order, {}, [&](size_t i) { return address(given[i]); });
  int64_t begin = 0, end = 0;
  int group = 0;
  std::optional<size_t> first;
  for (const size_t i : order) {
    const int64_t here = address(given[i]), bytes = span(given[i]);
    const bool shares = bytes && here < end;
    if (!shares) {
      group++;
      begin = here;
      first = i;
    } else {
      made[*first].alone = false;
    }
    made[i].group = group;
    made[i].offset = here - begin;
    made[i].alone = !shares && at::has_internal_overlap(given[i]) != at::MemOverlap::Yes;
    end = std::max(end, here + bytes);
  }
  return made;
}

StepArguments::StepArguments(std::vector<at::Tensor> given, const std::vector<bool> &bound)
    : given_(std::move(given)), arguments_(group(given_)), pattern_(pattern(given_)), written_(given_.size()) {
  const c10::NoGradGuard no_gradients;
  // Tensors of several types that share memory may be at offsets that no view of new memory can have.
  const auto stays = [&](size_t i) { return bound[i] || arguments_[i].offset % int64_t(given_[i].itemsize()) != 0; };
  for (size_t i = 0; i < given_.size(); i++)
    if (stays(i))
      for (Argument &one : arguments_) one.bound |= one.group == arguments_[i].group;
  for (size_t i = 0; i < given_.size(); i++) {
    Argument &one = arguments_[i];
    const at::Tensor &tensor = given_[i];
    if (one.bound) {
      one.own = tensor;
    } else if (one.alone) {
      one.own = at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options().requires_grad(false));
    } else { // the group's memory is made for its first argument
      int64_t size = 0;
      const Argument *made = nullptr;
      for (size_t k = 0; k < given_.size(); k++)
        if (arguments_[k].group == one.group) {
          size = std::max(size, arguments_[k].offset + span(given_[k]));
          if (arguments_[k].own.defined()) made = &arguments_[k];
        }
      const at::Tensor memory =
          made ? made->own : at::empty({size}, tensor.options().dtype(at::kByte).requires_grad(false));
      one.own = at::empty({0}, tensor.options().requires_grad(false));
      one.own.set_(memory.storage(), one.offset / static_cast<int64_t>(tensor.itemsize()), tensor.sizes(),
                   tensor.strides());
    }
    if (!one.bound) {
      if (tensor.is_conj()) one.own._set_conj(true);
      if (tensor.is_neg()) one.own._set_neg(true);
    }
  }
  load(given_);
}

void StepArguments::substitute() {
  for (size_t i = 0; i < given_.size(); i++) {
    const at::Tensor &tensor = given_[i];
    const auto is_same = [&](const Substituted &one) { return one.tensor.is_same(tensor); };
    if (arguments_[i].bound || std::ranges::any_of(substituted_, is_same)) continue;
    substituted_.push_back({tensor, tensor.storage(), tensor.storage_offset()});
    show(tensor, arguments_[i].own.storage(), arguments_[i].own.storage_offset());
  }
}

void StepArguments::restore() {
  for (const Substituted &one : substituted_) show(one.tensor, one.storage, one.offset);
  substituted_.clear();
  given_.clear();
}

bool StepArguments::match(const std::vector<at::Tensor> &given) const {
  if (given.size() != arguments_.size()) return false;
  for (size_t i = 0; i < given.size(); i++) {
    if (!same_form(given[i], arguments_[i].own)) return false;
    if (arguments_[i].bound &&
        (given[i].const_data_ptr() != arguments_[i].own.const_data_ptr() ||
         given[i].storage().unsafeGetStorageImpl() != arguments_[i].own.storage().unsafeGetStorageImpl()))
      return false;
  }
  return given.size() < 2 || pattern(given) == pattern_;
}

std::vector<int64_t> StepArguments::pattern(const std::vector<at::Tensor> &given) {
  const std::vector<Argument> groups = group(given);
  std::vector<int64_t> found;
  found.reserve(2 * given.size());
  for (size_t i = 0; i < given.size(); i++) {
    size_t first = 0;
    while (groups[first].group != groups[i].group) first++;
    found.push_back(static_cast<int64_t>(first));
    found.push_back(groups[i].offset - groups[first].offset);
  }
  return found;
}

void StepArguments::copy(const std::vector<at::Tensor> &given, bool back) const {
  const c10::NoGradGuard no_gradients;
  std::vector<int> done;
  for (size_t i = 0; i < given.size(); i++) {
    const Argument &one = arguments_[i];
    if (one.bound) continue;
    if (one.alone) {
      if (!back)
        const_cast<at::Tensor &>(one.own).copy_(given[i], /*non_blocking=*/true);
      else if (written_[i])
        const_cast<at::Tensor &>(given[i]).copy_(one.own, /*non_blocking=*/true);
      continue;
    }
    if (std::ranges::find(done, one.group) != done.end()) continue;
    done.push_back(one.group);
    bool written = false;
    int64_t size = 0;
    size_t first = i;
    for (size_t k = 0; k < given.size(); k++) {
      if (arguments_[k].group != one.group) continue;
      written |= written_[k];
      size = std::max(size, arguments_[k].offset + span(given[k]));
      if (arguments_[k].offset == 0) first = k;
    }
    if (size == 0 || (back && !written)) continue;
    const at::Tensor own = bytes(arguments_[first].own, 0, size),
                     callers = bytes(given[first], offset_in_bytes(given[first]), size);
    const_cast<at::Tensor &>(back ? callers : own).copy_(back ? own : callers, /*non_blocking=*/true);
  }
  if (!back) return;
  for (size_t i = 0; i < given.size(); i++)
    if (written_[i] && !given[i].is_inference()) given[i].unsafeGetTensorImpl()->bump_version();
}

void StepArguments::load(const std::vector<at::Tensor> &given) const { copy(given, false); }
void StepArguments::store(const std::vector<at::Tensor> &given) const { copy(given, true); }

std::optional<at::Tensor> StepArguments::of_caller(const at::Tensor &tensor,
                                                   const std::vector<at::Tensor> &given) const {
  const c10::NoGradGuard no_gradients;
  if (!tensor.has_storage()) return std::nullopt;
  for (size_t i = 0; i < given.size(); i++) {
    const at::Tensor &own = arguments_[i].own;
    if (tensor.storage().unsafeGetStorageImpl() != own.storage().unsafeGetStorageImpl()) continue;
    const int64_t offset = offset_in_bytes(tensor) - offset_in_bytes(own) + offset_in_bytes(given[i]);
    at::Tensor made = at::empty({0}, tensor.options().requires_grad(false));
    made.set_(given[i].storage(), offset / static_cast<int64_t>(tensor.itemsize()), tensor.sizes(), tensor.strides());
    if (tensor.is_conj()) made._set_conj(true);
    if (tensor.is_neg()) made._set_neg(true);
    return made;
  }
  return std::nullopt;
}

} // namespace tb::compile
