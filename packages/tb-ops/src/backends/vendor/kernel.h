// The kernel of an operator that a vendor's table serves. It chooses an entry for each call, and calls the earlier kernel of
// the operator if no entry takes the call.
//
// What is found for a call (the entry, its plan, the layout of the outputs) is kept for later calls that are equal in
// everything but addresses, so PyTorch's meta function and the entry's `plan` run once for each combination.
#pragma once
#include <ATen/core/boxing/KernelFunction.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "backends/vendor/table.h"
#include "dispatch/layout_cache/call_key.h"
#include "dispatch/layout_cache/result_layout.h"

namespace tb::ops::vendor {

enum class Form { functional, in_place, out };

// What was found for a call.
struct Choice {
  Choice() = default;
  Choice(const Choice &) = delete;
  Choice &operator=(const Choice &) = delete;
  ~Choice();

  Entry *entry = nullptr;    // NULL: the earlier kernel runs
  std::vector<Count *> left; // for each entry that was asked in vain
  c10::DeviceIndex device = -1;
  std::vector<ResultLayout> outputs;
  struct Prepared {
    size_t argument;
    c10::ScalarType type; // to which the tensor is converted; it becomes dense
  };
  std::vector<Prepared> prepared;
  uint64_t workspace = 0;
  void *plan = nullptr;
};

// The choices of one kernel. When it is full the oldest are dropped.
class Choices {
public:
  std::shared_ptr<const Choice> find(const CallKey &key);
  void keep(const CallKey &key, std::shared_ptr<const Choice> choice);

private:
  static constexpr size_t most = 4096;
  std::mutex mutex_;
  std::unordered_map<CallKey, std::shared_ptr<const Choice>, CallKeyHash> choices_;
  std::deque<const CallKey *> order_;
};

class VendorKernel final : public c10::OperatorKernel {
public:
  // `functional` is the form of the operator that returns new tensors.
  VendorKernel(const c10::OperatorHandle &op, Form form, const c10::OperatorHandle &functional, size_t outputs,
               std::vector<Entry *> entries);
  void operator()(const c10::OperatorHandle &op, c10::DispatchKeySet keys, torch::jit::Stack *stack);

private:
  using Arguments = c10::ArrayRef<c10::IValue>;
  void run_earlier(const c10::OperatorHandle &op, c10::DispatchKeySet keys, torch::jit::Stack *stack) const;
  // Why the entry of a choice cannot run this call, which depends on addresses or on the stream; NULL if it can.
  const char *obstacle(const Choice &choice, Arguments arguments) const;
  std::shared_ptr<const Choice> choose(Arguments arguments) const;
  // Returns why the entry does not take the call; empty if it takes it, and then the choice is complete.
  std::string ask(Entry &entry, std::vector<c10::IValue> inputs, const std::vector<at::Tensor> &outputs,
                  Choice &choice) const;
  void run(const c10::OperatorHandle &op, const Choice &choice, torch::jit::Stack *stack) const;
  Arguments inputs(Arguments arguments) const { return arguments.slice(0, functional_.schema().arguments().size()); }
  // The tensors that a call in place or with out= writes to.
  std::vector<at::Tensor> written(Arguments arguments) const;

  const Form form_;
  const c10::OperatorHandle functional_;
  const size_t outputs_;
  const std::vector<Entry *> entries_;
  const std::optional<c10::SafeKernelFunction> earlier_;
  Choices choices_;
};

} // namespace tb::ops::vendor
