// A call of the library in two phases: the first plans and returns the size of the workspace, the second enqueues.
#pragma once
#include <string>
#include <tuple>

#include "backends/aclnn/description.h"
#include "backends/aclnn/executor_cache.h"
#include "launch/launch.h"

namespace tb::ops::aclnn {

// An operator's two functions in the library.
struct Function {
  explicit Function(const char *name); // "Add" of aclnnAdd
  bool found() const { return plan && start; }

  const char *name;
  void *plan, *start;
};

// The one of that name: function<"Add">().
template <Name name> const Function &function() {
  static const Function found(name.value);
  return found;
}

// One call in progress: PyTorch's operator as its user knows it ("aten::add.out"), the function, the device.
class Call {
public:
  Call(const char *operation, const Function &function, c10::DeviceIndex device);

  // Queues by an executor of an earlier call like this one. False: there is none.
  bool again(const Key &key);
  // Phase 2 after a phase 1 that succeeded.
  void start(const Key &key, native::Executor *executor, uint64_t workspace, Descriptions descriptions);
  [[noreturn]] void fail(const char *phase, Status status, const std::string &arguments) const;

  const Function &function() const { return function_; }

private:
  Status queue(native::Executor *executor, uint64_t workspace) const;
  void finish() const;

  const char *operation_;
  const Function &function_;
  c10::DeviceIndex device_;
  void *stream_; // the vendor's own
};

// The text of an argument in a failure.
inline void tell(std::string &, const auto &) {}
void tell(std::string &text, const at::Tensor &tensor);
inline void tell(std::string &text, const Input &input) { tell(text, input.tensor); }
inline void tell(std::string &text, const Output &output) { tell(text, output.tensor); }
inline void tell(std::string &text, const InPlace &tensor) { tell(text, tensor.tensor); }

template <class Argument> using Native = decltype(std::declval<Descriptions &>()(std::declval<const Argument &>()));

// Queues the function. The arguments are those of its first phase, in order, less the last two.
template <class... Arguments>
void run(const char *operation, const Function &function, c10::DeviceIndex device, const Arguments &...arguments) {
  Call call(operation, function, device);
  Key key(&function, device);
  (key.add(arguments), ...);
  if (call.again(key)) return;
  Descriptions described;
  const std::tuple<Native<Arguments>...> native{described(arguments)...}; // braces: in order, as places are counted
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
