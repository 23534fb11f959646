// executor.h -- executors: phase 1 of an operator makes one, phase 2 queues its work.
#pragma once

#include <functional>
#include <memory>
#include <vector>

#include "view.h"

namespace sim {

// The arguments of an operator's work: its tensors at the addresses of this call.
class Run {
public:
  std::vector<View> views; // by slot
};
using Work = std::function<void(const Run &)>;

// The result of phase 1.
struct Plan {
  Work work;
  uint64_t workspace = 0; // bytes
};

class Executor {
public:
  explicit Executor(const char *name) : name_(name) {}

  // Add a parameter in phase 1, in the parameters' order. They return its slot, -1 for NULL.
  int32_t add_input(const Tensor *tensor) { return add(tensor, &inputs_); }
  int32_t add_output(const Tensor *tensor) { return add(tensor, &outputs_); }
  const View &view(int32_t slot) const { return run_.views[static_cast<size_t>(slot)]; }

  // Phase 1. `plan` is the operator's own part of it.
  static Error prepare(const char *name, uint64_t *workspace, Executor **out,
                       const std::function<Plan(Executor &)> &plan);
  // Phase 2.
  static Error launch(const char *name, void *workspace, uint64_t size, Executor *executor, void *stream);
  // Called if phase 2 fails, which also uses up the executor.
  static void drop(Executor *executor);

  static Error make_repeatable(Executor *executor);
  static Error destroy(Executor *executor);
  enum class Side { input, output, any };
  static Error set_address(Executor *executor, Side side, size_t index, const Tensor *tensor, void *address);

private:
  struct Described { // a description that must be alive until phase 2
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
