// Opens the vendor's library of operators at run time and finds its functions by name.
#pragma once
#include <cstddef>
#include <cstdint>
#include <string>

namespace tb::ops::aclnn {

// The library's opaque objects.
namespace native {
struct Tensor;
struct Scalar;
struct IntArray;
struct BoolArray;
struct TensorList;
struct Executor;
} // namespace native
using Status = int32_t; // 0 is success

// The functions that describe arguments, and those that reuse executors, which only newer versions have.
struct Library {
  native::Tensor *(*create_tensor)(const int64_t *sizes, uint64_t dims, int type, const int64_t *strides,
                                   int64_t offset, int format, const int64_t *storage_sizes, uint64_t storage_dims,
                                   void *storage);
  native::Scalar *(*create_scalar)(void *value, int type);
  native::IntArray *(*create_ints)(const int64_t *values, uint64_t count);
  native::BoolArray *(*create_bools)(const bool *values, uint64_t count);
  native::TensorList *(*create_list)(const native::Tensor *const *tensors, uint64_t count); // the list owns the tensors
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

  const char *(*recent_message)() = nullptr; // null if the library lacks it

  std::string path;   // empty if the library cannot be used
  std::string reason; // why the library cannot be used, and what to do
};

// Opens the library at the first call and never unloads it. TB_ACLNN_LIBRARY names its files, separated by colons; by
// default they are those that CANN installs.
const Library &library();

// Returns the address of a function, or NULL if the library lacks it.
void *find(const std::string &name);

} // namespace tb::ops::aclnn
