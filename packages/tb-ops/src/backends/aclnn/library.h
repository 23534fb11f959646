// The vendor's library of operators in two phases: opened at run time, its functions found by name.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

namespace tb::ops::aclnn {

// The vendor's objects, known by address only.
namespace native {
struct Tensor;
struct Scalar;
struct IntArray;
struct BoolArray;
struct TensorList;
struct Executor;
} // namespace native
using Status = int32_t; // 0: done

// What arguments are described with, and, since newer versions only, what executors are used again with.
struct Library {
  native::Tensor *(*create_tensor)(const int64_t *sizes, uint64_t dims, int type, const int64_t *strides,
                                   int64_t offset, int format, const int64_t *storage_sizes, uint64_t storage_dims,
                                   void *storage);
  native::Scalar *(*create_scalar)(void *value, int type);
  native::IntArray *(*create_ints)(const int64_t *values, uint64_t count);
  native::BoolArray *(*create_bools)(const bool *values, uint64_t count);
  native::TensorList *(*create_list)(const native::Tensor *const *tensors, uint64_t count); // owns the tensors
  Status (*destroy_tensor)(const native::Tensor *);
  Status (*destroy_scalar)(const native::Scalar *);
  Status (*destroy_ints)(const native::IntArray *);
  Status (*destroy_bools)(const native::BoolArray *);
  Status (*destroy_list)(const native::TensorList *);

  Status (*set_repeatable)(native::Executor *) = nullptr;
  Status (*destroy_executor)(native::Executor *) = nullptr;
  Status (*set_input)(native::Executor *, size_t index, native::Tensor *, void *storage) = nullptr;
  Status (*set_output)(native::Executor *, size_t index, native::Tensor *, void *storage) = nullptr;
  bool repeats() const { return set_repeatable && destroy_executor && set_input && set_output; }

  const char *(*recent_message)() = nullptr; // may be absent: then there is no text

  std::string path;   // empty: not usable
  std::string reason; // why not, and what to do, in a sentence
};

// Opened at the first call: TB_ACLNN_LIBRARY (files with : between them), else what CANN installs. Never unloaded.
const Library &library();

// The address of a function; NULL where the library lacks it.
void *find(const std::string &name);

} // namespace tb::ops::aclnn
