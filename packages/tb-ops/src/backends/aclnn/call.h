// Calls a function of the vendor's library in its two phases. The first plans the call and returns the size of the
// workspace; the second enqueues the call.
#pragma once
#include <string>
#include <tuple>

#include "backends/aclnn/description.h"
#include "backends/aclnn/executor_cache.h"
#include "launch/launch.h"

namespace tb::ops::aclnn {

// An operator's two functions in the library, null where the library lacks them.
struct Function {
  explicit Function(const char *name); // "Add" of aclnnAdd
  bool found() const { return plan && start; }

  const char *name;
  void *plan, *start;
};

// Returns the functions of that name, as in function<"Add">(). They are looked up once.
template <Name name> const Function &function() {
  static const Function found(name.value);
  return found;
}

// One call in progress. `operation` is the PyTorch operator that error messages name, such as "aten::add.out".
class Call {
public:
  Call(const char *operation, const Function &function, c10::DeviceIndex device);

  // Queues the call with the executor of an equal earlier call. Returns false if there is none that can be reused.
  bool again(const Key &key);
  // Runs phase 2. Phase 1 must have succeeded.
  void start(const Key &key, native::Executor *executor, uint64_t workspace, Descriptions descriptions);
  [[noreturn]] void fail(const char *phase, Status status, const std::string &arguments) const;

  const Function &function() const { return function_; }

private:
  Status queue(native::Executor *executor, uint64_t workspace) const;
  void finish() const;

  const char *operation_;
  const Function &function_;
  c10::DeviceIndex device_;
  void *stream_; // the vendor's handle
};

// Appends an argument to the text of an error message. Arguments that are not tensors are left out.
inline void tell(std::string &, const auto &) {}
void tell(std::string &text, const at::Tensor &tensor);
inline void tell(std::string &text, const Input &input) { tell(text, input.tensor); }
inline void tell(std::string &text, const Output &output) { tell(text, output.tensor); }
inline void tell(std::string &text, const InPlace &tensor) { tell(text, tensor.tensor); }

template <class Argument> using Native = decltype(std::declval<Descriptions &>()(std::declval<const Argument &>()));

// Queues the function. The arguments are those of its first phase, in order, without the last two: the size of the
// workspace and the executor.
template <class... Arguments>
void run(const char *operation, const Function &function, c10::DeviceIndex device, const Arguments &...arguments) {
  Call call(operation, function, device);
  Key key(&function, device);
  (key.add(arguments), ...);
  if (call.again(key)) return;
  Descriptions described;
  const std::tuple<Native<Arguments>...> native{described(arguments)...}; // braces: in order, which counts places
  using Plan = Status (*)(Native<Arguments>..., uint64_t *, native::Executor **);
  uint64_t workspace = 0;
  native::Executor *executor = nullptr;
  const auto plan = [&](auto... each) { return reinterpret_cast<Plan>(function.plan)(each..., &workspace, &executor); };
  if (const Status status = std::apply(plan, native)) {
    std::string text;
    (tell(text, arguments), ...);
    call.fail("GetWorkspaceSize", status, text);
  }
  call.start(key, executor, workspace, std::move(described));
}

} // namespace tb::ops::aclnn
