// executor.h -- what phase 1 of an operator gives and phase 2 queues.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "view.h"

namespace sim {

// What an operator's work sees: its tensors where they are at this call.
class Run {
public:
  std::vector<View> views; // by slot
};
using Work = std::function<void(const Run &)>;

// What phase 1 decides.
struct Plan {
  Work work;
  uint64_t workspace = 0; // bytes
};

class Executor {
public:
  explicit Executor(const char *name) : name_(name) {}

  // For phase 1, in the order of the parameters. The slot, -1 for NULL.
  int32_t add_input(const Tensor *tensor) { return add(tensor, &inputs_); }
  int32_t add_output(const Tensor *tensor) { return add(tensor, &outputs_); }
  const View &view(int32_t slot) const { return run_.views[static_cast<size_t>(slot)]; }

  // Phase 1, with the operator's own part of it.
  static Error prepare(const char *name, uint64_t *workspace, Executor **out,
                       const std::function<Plan(Executor &)> &plan);
  // Phase 2.
  static Error launch(const char *name, void *workspace, uint64_t size, Executor *executor, void *stream);
  // Phase 2 takes the executor also when it fails.
  static void drop(Executor *executor);

  static Error make_repeatable(Executor *executor);
  static Error destroy(Executor *executor);
  enum class Side { input, output, any };
  static Error set_address(Executor *executor, Side side, size_t index, const Tensor *tensor, void *address);

private:
  struct Described { // whose description must be alive until phase 2
    const Tensor *tensor;
    uint64_t number;
  };
  int32_t add(const Tensor *tensor, std::vector<int32_t> *side);
  const char *name_;
  Run run_;
  std::vector<Described> described_;      // by slot
  std::vector<int32_t> inputs_, outputs_; // slots, by index
  std::shared_ptr<const Work> work_;
  uint64_t workspace_ = 0;
  bool repeatable_ = false;
};

} // namespace sim
