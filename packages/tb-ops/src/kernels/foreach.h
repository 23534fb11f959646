// Operators on lists of tensors: one launch for the whole list. The closure calls the CPU's out= kernel for each tensor.
// Lists that need broadcasting, type promotion or several devices go PyTorch's slow way, one operator call per tensor.
#pragma once
#include <ATen/ScalarOps.h>
#include <ATen/native/ForeachUtils.h>

#include "kernels/output.h"

namespace tb {

using Tensors = std::vector<at::Tensor>;

template <size_t count, class Apply> struct ForeachCall {
  std::array<TensorArguments, count> lists;
  Apply apply;
  void operator()() {
    for (size_t i = 0; i < lists[0].size(); i++)
      [&]<size_t... list>(std::index_sequence<list...>) {
        apply(i, lists[list][i].alias()...);
      }(std::make_index_sequence<count>{});
  }
};

// operation(i, out, self, others...) for every i, with out = self.
template <Name name, class Operation, class... Lists>
void launch_in_place_lists(Operation operation, at::TensorList self, Lists... others) {
  auto apply = [operation = std::move(operation)](size_t i, at::Tensor &first, auto &...rest) mutable {
    operation(i, first, first, rest...);
  };
  launch<name>(device_number(self[0]), ForeachCall<1 + sizeof...(others), decltype(apply)>{
                                           {stored_list(self), stored_list(others)...}, std::move(apply)});
}

// The same into new tensors, which allocate(tensor of self, type) lays out.
template <Name name, auto allocate = &empty_pointwise, class Operation, class... Lists>
Tensors launch_new_lists(Operation operation, at::TensorList self, Lists... others) {
  Tensors out;
  out.reserve(self.size());
  for (const at::Tensor &tensor : self) out.push_back(allocate(tensor, tensor.scalar_type()));
  launch<name>(device_number(self[0]),
               ForeachCall<2 + sizeof...(others), Operation>{
                   {stored_list(out), stored_list(self), stored_list(others)...}, std::move(operation)});
  return out;
}

inline bool all_here(std::initializer_list<at::TensorList> lists) {
  return std::all_of(lists.begin(), lists.end(), [&](at::TensorList list) {
    return std::all_of(list.begin(), list.end(),
                       [&](const at::Tensor &tensor) { return tensor.device() == (*lists.begin())[0].device(); });
  });
}

// Numbers of a call: one for all tensors, or one each.
class Numbers {
public:
  explicit Numbers(c10::ArrayRef<c10::Scalar> numbers) : numbers_(numbers.vec()) {}
  const c10::Scalar &operator[](size_t i) const { return numbers_[numbers_.size() == 1 ? 0 : i]; }
  // On the worker: as the 0-dimensional tensor that binary operators make of a number.
  const at::Tensor &tensor(size_t i) {
    if (numbers_.size() > 1 || !tensor_.defined()) tensor_ = at::native::wrapped_scalar_tensor((*this)[i]);
    return tensor_;
  }

private:
  std::vector<c10::Scalar> numbers_;
  at::Tensor tensor_;
};

} // namespace tb
