// objects.h -- the objects by which programs describe an operator's arguments: aclTensor, aclScalar, arrays and lists.
//
// Programs hold pointers to them. Each object gets a unique number and is registered while it is alive, so that the use
// of a destroyed object is detected.
#pragma once

#include <cstdint>
#include <vector>

#include "numbers.h"

namespace sim {

using Dims = std::vector<int64_t>;

inline int64_t count_of(const Dims &dims) {
  int64_t count = 1;
  for (const int64_t dim : dims) count *= dim;
  return count;
}

struct Object {
  enum class Kind { tensor, scalar, ints, floats, bools, tensors, scalars };
  explicit Object(Kind kind) : kind(kind) {}
  const Kind kind;
  uint64_t number = 0; // set by keep()
};

struct Tensor : Object {
  Tensor() : Object(Kind::tensor) {}
  int32_t type = kFloat, format = 2;
  Dims dims, strides, storage;
  int64_t offset = 0; // in elements, as are the strides
  void *address = nullptr;
};
struct Scalar : Object {
  Scalar() : Object(Kind::scalar) {}
  int32_t type = kFloat;
  double real = 0;
  int64_t whole = 0;
};
struct Ints : Object {
  Ints() : Object(Kind::ints) {}
  Dims values;
};
struct Floats : Object {
  Floats() : Object(Kind::floats) {}
  std::vector<float> values;
};
struct Bools : Object {
  Bools() : Object(Kind::bools) {}
  std::vector<uint8_t> values;
};
struct Tensors : Object {
  Tensors() : Object(Kind::tensors) {}
  std::vector<const Tensor *> each; // owned
};
struct Scalars : Object {
  Scalars() : Object(Kind::scalars) {}
  std::vector<const Scalar *> each; // owned
};

// Whether a pointer is to a live object of this kind and, if a number is given, still to the same object.
bool alive(const void *object, Object::Kind kind, uint64_t number = 0);

} // namespace sim
