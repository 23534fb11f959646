// Prepares arguments as the library's functions require them: one dtype, one device, memory of their own.
#pragma once
#include <c10/util/BFloat16.h>
#include <c10/util/Half.h>

#include "backends/aclnn/call.h"
#include "dispatch/call_fallback.h"
#include "structured/meta_arguments.h"
#include "structured/structured.h"

namespace tb::ops::aclnn {

using at::Tensor;

// A set of element types, a bit for each.
using Types = uint64_t;
constexpr Types types(std::initializer_list<c10::ScalarType> list) {
  Types out = 0;
  for (const c10::ScalarType type : list) out |= Types(1) << static_cast<int>(type);
  return out;
}
constexpr bool contains(Types set, c10::ScalarType type) { return set >> static_cast<int>(type) & 1; }

// Whether the tensor is a CPU tensor without dimensions, which PyTorch allows among tensors of the device.
inline bool is_number(const Tensor &tensor) { return tensor.is_cpu() && tensor.dim() == 0; }
inline bool is_number(const std::optional<Tensor> &) { return false; }

// Whether the library accepts the tensors. Each must be on the device, have a type that the library has, and have few
// enough dimensions and no lazy conjugation or negation. Numbers and undefined tensors are accepted.
bool fits(std::initializer_list<const Tensor *> tensors);

// Returns the tensor with that type on that device: the tensor itself if it fits, else a converted copy. A number is
// copied to the device.
Tensor operand(const Tensor &tensor, c10::ScalarType type, c10::DeviceIndex device);
inline Tensor operand(const std::optional<Tensor> &tensor, c10::ScalarType type, c10::DeviceIndex device) {
  return tensor ? operand(*tensor, type, device) : Tensor();
}
Tensor cast(const Tensor &tensor, c10::ScalarType type);
// Copies `from` to `to` element by element. Their types and strides may differ.
void copy_elements(const Tensor &from, const Tensor &to);
inline const Tensor &defined(const std::optional<Tensor> &tensor) {
  static const Tensor none;
  return tensor ? *tensor : none;
}

// Returns the iterator's common dtype. If it has none, returns the dtype of its first input, or of its output.
inline c10::ScalarType computed_type(const at::TensorIteratorBase &iterator) {
  const c10::ScalarType first = iterator.ninputs() > 0 ? iterator.input_dtype(0) : iterator.dtype(0);
  return iterator.maybe_common_dtype().value_or(first);
}
c10::ScalarType promoted(std::initializer_list<const Tensor *> tensors);

// These functions return the sizes of a result.
at::DimVector broadcast(std::initializer_list<const Tensor *> tensors);
at::DimVector leading(const Tensor &input, c10::IntArrayRef normalized); // 1 for the normalized dimensions
at::DimVector replaced(const Tensor &tensor, int64_t dim, int64_t size);
at::DimVector joined(c10::IntArrayRef sizes, int64_t last);
inline c10::ScalarType moments_type(const Tensor &input) {
  return input.scalar_type() == c10::kDouble ? c10::kDouble : c10::kFloat;
}

// Whether the last sizes of the input are `shape`, and it has elements.
bool normalizes(const Tensor &input, c10::IntArrayRef shape);
// Returns the class weights that are given, or ones if there are none.
Tensor weights(const std::optional<Tensor> &given, const Tensor &input);
inline bool has_elements(const Tensor &tensor) { return tensor.defined() && tensor.numel() > 0; }

// Returns the dimensions that the argument names, wrapped to be non-negative. No argument or an empty one names all.
at::DimVector dims(const Tensor &self, at::OptionalIntArrayRef given);
inline at::DimVector dims(const Tensor &self, int64_t dim) { return dims(self, c10::IntArrayRef(dim)); }
at::DimVector all_dims(const Tensor &self);

// Checks and resizes the out= argument of an operator that has no meta function.
void prepare(const Tensor &out, const char *operation, c10::IntArrayRef sizes, c10::ScalarType type);

// Runs work(to) on a tensor of dtype `type` that shares no memory with the tensors of `apart`. That is `out` itself if
// it fits, else a new tensor whose elements are then copied to `out`.
template <class Work> void with_result(const Tensor &out, c10::ScalarType type,
                                       std::initializer_list<const Tensor *> apart, const Work &work) {
  bool direct = out.scalar_type() == type;
  for (const Tensor *tensor : apart) direct &= !tensor->defined() || !out.is_alias_of(*tensor);
  if (direct) return work(out);
  const Tensor made = empty(out.sizes(), {}, type, device_number(out));
  work(made);
  copy_elements(made, out);
}

// Registers a kernel for an operator of PyTorch if the library has its functions. Otherwise the operator falls back to
// the CPU.
class Registrar {
public:
  explicit Registrar(torch::Library &aten) : aten_(aten) {}
  template <class Kernel> void add(const char *name, std::initializer_list<const Function *> needed, Kernel &&kernel) {
    for (const Function *function : needed)
      if (!function->found()) return absent(name, *function);
    aten_.impl(name, std::forward<Kernel>(kernel));
    count_++;
  }
  size_t count() const { return count_; }
  const std::vector<std::string> &missing() const { return missing_; }

private:
  void absent(const char *name, const Function &function);

  torch::Library &aten_;
  size_t count_ = 0;
  std::vector<std::string> missing_;
};

void register_table(Registrar &registrar);    // generated from operators.yaml
void register_composed(Registrar &registrar); // by hand: several calls, or tensors in lists

} // namespace tb::ops::aclnn
