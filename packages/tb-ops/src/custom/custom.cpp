// Operators of other libraries. They register their kernels when a driver that runs closures is open, and launch calls
// here.
#include "custom/custom.h"

#include <c10/util/SmallVector.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <vector>

#include "intraop/thread_policy.h"
#include "launch/launch.h"

namespace tb::ops {
namespace {

std::mutex lock;
bool native = false;
std::vector<void (*)()> deferred; // called when a driver that runs kernels is open

// Owns the other library's state of a call.
class State {
public:
  State(const tb_operator *op, void *state) : op_(op), state_(state) {}
  State(State &&other) noexcept : op_(other.op_), state_(std::exchange(other.state_, nullptr)) {}
  State &operator=(State &&) = delete;
  ~State() {
    if (state_) op_->destroy(state_);
  }
  void run(void *const *tensors) {
    intraop.distinguish(op_);
    op_->run(state_, tensors);
  }

private:
  const tb_operator *op_;
  void *state_;
};

struct CustomCall {
  CustomCall(State &&other, c10::ArrayRef<const void *> given) : state(std::move(other)) {
    tensors.reserve(given.size());
    for (const void *tensor : given) tensors.emplace_back(*static_cast<const at::Tensor *>(tensor));
  }
  void operator()() {
    c10::SmallVector<void *, 8> aliases;
    for (TensorDescriptor &tensor : tensors) aliases.push_back(&materialize(tensor));
    state.run(aliases.data());
  }
  State state;
  std::vector<TensorDescriptor> tensors;
};

// A call of generated code, whose arguments follow it in the queue.
struct CodeCall {
  void operator()() {
    intraop.distinguish(code);
    intraop.count_elements(elements);
    code->run(arguments);
  }
  const tb_code *code;
  int64_t elements;
  void **arguments;
};

// The kind of closure of an operator or of code. It is made at the first call and never freed.
template <class Call> struct Kind {
  using Queued = Closure<Call>;
  explicit Kind(const char *name)
      : closure{sizeof(tb_closure), 0, name, &Queued::template run<ThreadInvariance::never>, &Queued::destroy} {}

  // Returns the kind that a tb_operator or tb_code keeps at `place`, and makes it if there is none.
  static Kind &of(void *&place, const char *name) {
    const std::atomic_ref<void *> known(place);
    void *kind = known.load(std::memory_order_acquire);
    if (!kind) {
      kind = new Kind(name); // the loser of a race leaks one
      known.store(kind, std::memory_order_release);
    }
    return *static_cast<Kind *>(kind);
  }

  tb_closure closure;
  DtypeProbe dtype_probe;
};

} // namespace

void on_native(void (*function)()) {
  {
    const std::lock_guard guard(lock);
    if (!native) return deferred.push_back(function);
  }
  function();
}

void launch_custom(tb_operator *op, int32_t number, const void *const *tensors, uint64_t count, uint32_t flags,
                   void *state) {
  State owned(op, state);
  const auto device = static_cast<c10::DeviceIndex>(number);
  auto &kind = Kind<CustomCall>::of(op->kind, op->name);
  const LaunchNote note = enqueue<CustomCall>(device, kind.closure, std::move(owned), c10::ArrayRef(tensors, count));
  if ((flags & TB_LAUNCH_WAIT) != 0 || !kind.dtype_probe.known(note.types))
    kind.dtype_probe.wait(device, note.types, kind.closure.name);
}

void launch_code(tb_code *code, int32_t number, void *const *arguments, uint64_t count, int64_t elements) {
  using Queued = Closure<CodeCall>;
  static_assert(sizeof(Queued) % alignof(void *) == 0);
  const auto device = static_cast<c10::DeviceIndex>(number);
  const tb_closure &kind = Kind<CodeCall>::of(code->kind, code->name).closure;
  enqueue_made<Queued>(
      device, kind,
      [&](void *storage) {
        void **behind = reinterpret_cast<void **>(static_cast<Queued *>(storage) + 1);
        std::copy_n(arguments, count, behind);
        new (storage) Queued{{}, {code, elements, behind}};
      },
      count * sizeof(void *));
}

void register_custom() {
  std::vector<void (*)()> functions;
  {
    const std::lock_guard guard(lock);
    native = true;
    functions.swap(deferred);
  }
  for (void (*function)() : functions) function();
}

} // namespace tb::ops
