// Operators on lists of tensors: one launch for the whole list. The closure calls the CPU's out= kernel for each
// tensor. Lists that need broadcasting, type promotion or several devices take PyTorch's slow path, one operator call
// for each tensor.
#pragma once
#include <ATen/ScalarOps.h>
#include <ATen/native/ForeachUtils.h>

#include <algorithm>

#include "backends/host/foreach/foreach_fusion.h"
#include "intraop/thread_policy.h"
#include "tensor/outputs.h"
#include "worker/worker_tensors.h"

namespace tb::ops::host {

using Tensors = std::vector<at::Tensor>;

// Estimates the time of a list on one thread, tensor by tensor, and divides the list among several threads.
class ListCost {
public:
  void add(int64_t elements) {
    total_ += each_tensor + each_element * static_cast<double>(elements);
    until_.push_back(total_);
    longest_ = std::max(longest_, until_.size() > 1 ? total_ - until_[until_.size() - 2] : total_);
  }
  // Returns the number of parts. It is 1 if one tensor takes most of the time, because that tensor's own kernel may use
  // several threads.
  int64_t parts() const { return longest_ > total_ / 2 ? 1 : intraop.parts(std::ssize(until_), total_); }
  // Returns the first tensor of each part, and the end of the list.
  std::vector<size_t> split(int64_t parts) const;

private:
  static constexpr double each_tensor = 2000, each_element = .2; // nanoseconds
  std::vector<double> until_;
  double total_ = 0, longest_ = 0;
};

// Whether no tensor that is written shares memory with another one of the list. If one does, the order of the
// operations matters. The first of every `every` tensors is written.
bool apart(c10::ArrayRef<at::Tensor *> tensors, size_t every);

template <size_t count, class Apply> struct ForeachCall {
  WrittenDescriptors written;
  std::array<TensorDescriptors, count - 1> read;
  Apply apply;

  const void *kernel_address() const
    requires requires { apply.kernel_address(); }
  {
    return apply.kernel_address();
  }
  // One thread computes each tensor, and several threads share a list if that is faster.
  void operator()() {
    const std::vector<Together> tensors = aliases();
    ListCost cost;
    for (const Together &together : tensors) cost.add(together[0]->numel());
    const auto run = [&](size_t i) {
      [&]<size_t... list>(std::index_sequence<list...>) {
        apply(i, *tensors[i][list]...);
      }(std::make_index_sequence<count>{});
    };
    const int64_t parts = cost.parts();
    if (parts == 1 || !apart(c10::ArrayRef<at::Tensor *>(tensors[0].data(), count * tensors.size()), count)) {
      for (size_t i = 0; i < tensors.size(); i++) run(i);
      return;
    }
    run(0); // before the threads start, because an operation may create state at its first tensor
    const std::vector<size_t> begins = cost.split(parts);
    intraop.share(parts, [&](int64_t part, int64_t) {
      for (size_t i = std::max<size_t>(begins[part], 1); i < begins[part + 1]; i++) run(i);
    });
  }

private:
  using Together = std::array<at::Tensor *, count>; // the tensors at one place of the lists
  std::vector<Together> aliases() {
    std::vector<Together> tensors(written.size());
    for (size_t i = 0; i < tensors.size(); i++) {
      tensors[i][0] = &written[i].as_cpu_tensor();
      for (size_t list = 1; list < count; list++) tensors[i][list] = &materialize(read[list - 1][i]);
    }
    return tensors;
  }
};

// Whether two tensors of the same sizes, both without gaps, have their elements in the same order in memory.
inline bool same_layout(const at::Tensor &a, const at::Tensor &b) {
  if (a.is_contiguous() && b.is_contiguous()) return true;
  for (int64_t d = 0; d < a.dim(); d++)
    if (a.size(d) != 1 && a.stride(d) != b.stride(d)) return false;
  return true;
}

template <class Operation> struct InPlace {
  Operation operation;
  const void *kernel_address() const
    requires requires { operation.kernel_address(); }
  {
    return operation.kernel_address();
  }
  void operator()(size_t i, at::Tensor &self, auto &...others) { operation(i, self, self, others...); }
};

// Counts a modification of each tensor, for autograd. PyTorch's generated code counts modifications of what an operator
// returns, but these operators return nothing. PyTorch's bodies for lists, and so the slow paths, call an in-place
// operator for each tensor, which counts. Bodies that call none (_fused_*_, _amp_*_) count nothing on any device.
void count_modifications(at::TensorList written);

// What lists that run whole need of an operation: all of it, unless it says that its base Whole does.
template <class Operation> struct WholeOf {
  using Type = Operation;
};
template <class Operation>
  requires requires { typename Operation::Whole; }
struct WholeOf<Operation> {
  using Type = typename Operation::Whole;
};
template <class Operation, size_t lists> using InPlaceCall =
    ForeachCall<lists, InPlace<typename WholeOf<Operation>::Type>>;
template <class Operation, size_t lists> using NewCall = ForeachCall<lists, typename WholeOf<Operation>::Type>;

// What the launches of an operator on lists have of its name, for lists that run whole and for those that can be fused.
struct ListsLaunchedAs {
  LaunchedAs whole, elements;
};
template <Name name, class Operation, class Call> ListsLaunchedAs lists_launched_as() {
  const LaunchedAs whole = launched_as<Call, name>();
  if constexpr (ByElement<Operation>) return {whole, elements_launched_as<Operation, name>()};
  return {whole, whole};
}

template <class Operation, class... Lists>
void queue_in_place_lists(const ListsLaunchedAs &as, Operation operation, at::TensorList self, Lists... others) {
  if constexpr (ByElement<Operation>)
    if (c10::isFloatingType(self[0].scalar_type()))
      return launch_elements(as.elements, device_number(self[0]), std::move(operation), self, others...);
  using Call = InPlaceCall<Operation, 1 + sizeof...(others)>;
  launch_as<Call>(as.whole, device_number(self[0]), false,
                  Call{capture_list<WrittenDescriptors>(self), {capture_list(others)...}, {std::move(operation)}});
}

// Launches operation(i, out, self, others...) for every i, with out = self. All tensors of one i have the same layout.
template <Name name, class Operation, class... Lists>
void launch_in_place_lists(Operation operation, at::TensorList self, Lists... others) {
  using Call = InPlaceCall<Operation, 1 + sizeof...(others)>;
  queue_in_place_lists(lists_launched_as<name, Operation, Call>(), std::move(operation), self, others...);
  count_modifications(self);
}

using Allocate = at::Tensor (*)(const at::Tensor &like, c10::ScalarType type);

template <class Operation, class... Lists> Tensors queue_new_lists(const ListsLaunchedAs &as, Allocate allocate,
                                                                   Operation operation, at::TensorList self,
                                                                   Lists... others) {
  Tensors out;
  out.reserve(self.size());
  bool uniform = c10::isFloatingType(self[0].scalar_type());
  for (const at::Tensor &tensor : self) {
    out.push_back(allocate(tensor, tensor.scalar_type()));
    uniform = uniform && same_layout(out.back(), tensor);
  }
  if constexpr (ByElement<Operation>)
    if (uniform) {
      launch_elements(as.elements, device_number(self[0]), std::move(operation), at::TensorList(out), self, others...);
      return out;
    }
  using Call = NewCall<Operation, 2 + sizeof...(others)>;
  launch_as<Call>(
      as.whole, device_number(self[0]), false,
      Call{capture_list<WrittenDescriptors>(out), {capture_list(self), capture_list(others)...}, std::move(operation)});
  return out;
}

// As launch_in_place_lists, with new tensors as outputs, which allocate(tensor of self, type) makes. Returns them.
template <Name name, Allocate allocate = &empty_pointwise, class Operation, class... Lists>
Tensors launch_new_lists(Operation operation, at::TensorList self, Lists... others) {
  using Call = NewCall<Operation, 2 + sizeof...(others)>;
  return queue_new_lists(lists_launched_as<name, Operation, Call>(), allocate, std::move(operation), self, others...);
}

inline bool all_here(std::initializer_list<at::TensorList> lists) {
  return std::all_of(lists.begin(), lists.end(), [&](at::TensorList list) {
    return std::all_of(list.begin(), list.end(),
                       [&](const at::Tensor &tensor) { return tensor.device() == (*lists.begin())[0].device(); });
  });
}

// The numbers of a call: one for all tensors, or one for each.
class Numbers {
public:
  explicit Numbers(c10::ArrayRef<c10::Scalar> numbers) : numbers_(numbers.vec()) {
    for (const c10::Scalar &number : numbers_) launch_notes.add(number);
  }
  const c10::Scalar &operator[](size_t i) const { return numbers_[numbers_.size() == 1 ? 0 : i]; }
  // Whether the numbers of two places are bit-identical.
  bool same(size_t i, size_t j) const;
  // Returns a number as the 0-dimensional tensor that binary operators make of it. Runs on the worker.
  at::Tensor tensor(size_t i) {
    if (numbers_.size() > 1) return at::native::wrapped_scalar_tensor(numbers_[i]);
    if (!tensor_.defined()) tensor_ = at::native::wrapped_scalar_tensor(numbers_[0]);
    return tensor_;
  }

private:
  std::vector<c10::Scalar> numbers_;
  at::Tensor tensor_;
};

} // namespace tb::ops::host
