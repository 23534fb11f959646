// The tensors that a step is called with: where a graph reads them, and how their values get there and back.
#pragma once
#include <ATen/core/Tensor.h>

#include <cstdint>
#include <optional>
#include <utility>
#include <vector>

namespace tb::compile {

// A graph reads an argument from memory of its own, to which each call copies the values, or, if it is bound, where the
// caller has it at each call. Arguments that share memory share it in the graph too.
class StepArguments {
public:
  // Made before the capture begins, since it copies the arguments' values. bound: for each argument, whether it is one.
  StepArguments(std::vector<at::Tensor> given, const std::vector<bool> &bound);

  // The arguments' tensors show the graph's memory until restore(). Identities stay.
  void substitute();
  void restore();
  // Whether tensors have the forms of the arguments, share memory in the same way, and are the bound ones.
  bool match(const std::vector<at::Tensor> &given) const;
  // Copies values to the graph's memory.
  void load(const std::vector<at::Tensor> &given) const;
  // Copies what the step wrote back. written: for each argument.
  void set_written(std::vector<bool> written) { written_ = std::move(written); }
  void store(const std::vector<at::Tensor> &given) const;
  // If a tensor shows the memory that the graph has for an argument: the same view of the caller's tensor.
  std::optional<at::Tensor> of_caller(const at::Tensor &tensor, const std::vector<at::Tensor> &given) const;

  // How tensors share memory: for each, the first one that it shares it with, and how many bytes it is behind that.
  static std::vector<int64_t> pattern(const std::vector<at::Tensor> &given);

  size_t size() const { return arguments_.size(); }
  const at::Tensor &own(size_t i) const { return arguments_[i].own; }
  bool is_bound(size_t i) const { return arguments_[i].bound; }

private:
  struct Argument {
    at::Tensor own; // of the argument's form, in the graph's memory; the argument itself if it is bound
    bool bound = false;
    bool alone = true;  // it shares no memory, and no two of its elements are one
    int group = 0;      // arguments of one group share memory
    int64_t offset = 0; // in bytes, from the beginning of the group's memory
  };
  struct Substituted {
    at::Tensor tensor;
    c10::Storage storage;
    int64_t offset;
  };
  static std::vector<Argument> group(const std::vector<at::Tensor> &given);
  void copy(const std::vector<at::Tensor> &given, bool back) const;

  std::vector<at::Tensor> given_;
  std::vector<Argument> arguments_;
  std::vector<int64_t> pattern_;
  std::vector<bool> written_;
  std::vector<Substituted> substituted_;
};

} // namespace tb::compile
