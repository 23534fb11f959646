// objects.cpp -- creates, queries and destroys descriptions.
#include "objects.h"

#include <memory>
#include <mutex>
#include <unordered_map>

#include "../src/entry.h"
#include "functions.h"

namespace sim {
namespace {

Live live_tensors{"tensors"}, live_scalars{"scalars"}, live_arrays{"arrays"}, live_lists{"lists"};

struct Known {
  std::mutex mutex;
  uint64_t last = 0;
  std::unordered_map<const void *, std::pair<Object::Kind, uint64_t>> objects;
};
Known &known() {
  static auto *known = new Known; // used until the process ends
  return *known;
}

Live &live(Object::Kind kind) {
  switch (kind) {
  case Object::Kind::tensor:
    return live_tensors;
  case Object::Kind::scalar:
    return live_scalars;
  case Object::Kind::tensors:
  case Object::Kind::scalars:
    return live_lists;
  default:
    return live_arrays;
  }
}

template <class T> T *keep(std::unique_ptr<T> object) {
  Known &all = known();
  std::lock_guard lock(all.mutex);
  object->number = ++all.last;
  all.objects[object.get()] = {object->kind, object->number};
  ++live(object->kind).count;
  return object.release();
}

bool forget(const void *object, Object::Kind kind) {
  Known &all = known();
  std::lock_guard lock(all.mutex);
  const auto found = all.objects.find(object);
  if (found == all.objects.end() || found->second.first != kind) return false;
  all.objects.erase(found);
  --live(kind).count;
  return true;
}

template <class T> Error destroy(const T *object, Object::Kind kind) {
  if (!object) return kOk;
  if (!forget(object, kind))
    return fail(kOperatorParameter, "EZ1001: %p is no such object, or was destroyed",
                static_cast<const void *>(object));
  delete object;
  return kOk;
}

std::nullptr_t refused(Error code, const char *why) { return fail(code, "EZ1002: %s", why), nullptr; }

Error copy_out(const Dims &from, int64_t **values, uint64_t *count) {
  if (!values || !count) return fail(kOperatorNull, "EZ1003: no place for the answer");
  *count = from.size();
  *values = new int64_t[from.size()]; // the caller frees it by delete[]
  std::copy(from.begin(), from.end(), *values);
  return kOk;
}

// Checks a tensor, then answers a query about it.
template <class Answer> Error ask(const Tensor *tensor, Answer answer) {
  if (!tensor) return fail(kOperatorNull, "EZ1003: the tensor is NULL");
  if (!alive(tensor, Object::Kind::tensor)) return fail(kOperatorParameter, "EZ1001: the tensor was destroyed");
  return answer();
}

template <class T, class V> T *array(const V *values, uint64_t count) {
  if (!values && count) return refused(kOperatorNull, "an array without values");
  auto made = std::make_unique<T>();
  made->values.assign(values, values + count);
  return keep(std::move(made));
}

template <class T, class E> T *list(const E *const *each, uint64_t count, Object::Kind kind) {
  if (!each && count) return refused(kOperatorNull, "a list without elements");
  auto made = std::make_unique<T>();
  for (uint64_t i = 0; i < count; ++i) {
    if (each[i] && !alive(each[i], kind)) return refused(kOperatorParameter, "an element of the list was destroyed");
    made->each.push_back(each[i]);
  }
  return keep(std::move(made));
}

template <class T> Error destroy_list(const T *list, Object::Kind kind, Object::Kind element) {
  if (!list) return kOk;
  if (!alive(list, kind)) return fail(kOperatorParameter, "EZ1001: the list was destroyed");
  Error error = kOk;
  for (const auto *each : list->each)
    if (const Error one = destroy(each, element)) error = one;
  destroy(list, kind);
  return error;
}

} // namespace

bool alive(const void *object, Object::Kind kind, uint64_t number) {
  Known &all = known();
  std::lock_guard lock(all.mutex);
  const auto found = all.objects.find(object);
  return found != all.objects.end() && found->second.first == kind && (!number || found->second.second == number);
}

Tensor *aclCreateTensor(const int64_t *dims, uint64_t rank, int32_t type, const int64_t *strides, int64_t offset,
                        int32_t format, const int64_t *storage, uint64_t storage_rank, void *data) {
  if ((rank && (!dims || !strides)) || (storage_rank && !storage))
    return refused(kOperatorNull, "a tensor without shape");
  if (rank > 8 || storage_rank > 8) return refused(kOperatorParameter, "a tensor of more than 8 dimensions");
  if (!size_of(type)) return refused(kOperatorParameter, "a tensor of a type that is not simulated");
  auto made = std::make_unique<Tensor>();
  made->type = type;
  made->format = format;
  made->offset = offset;
  made->address = data;
  if (rank) made->dims.assign(dims, dims + rank), made->strides.assign(strides, strides + rank);
  if (storage_rank) made->storage.assign(storage, storage + storage_rank);
  int64_t last = offset;
  bool empty = false;
  for (uint64_t i = 0; i < rank; ++i) {
    if (dims[i] < 0 || strides[i] < 0) return refused(kOperatorParameter, "a negative dimension or stride");
    empty |= dims[i] == 0;
    last += (dims[i] - 1) * strides[i];
  }
  if (offset < 0 || (!empty && last >= count_of(made->storage)))
    return refused(kOperatorParameter, "a view that is larger than its storage");
  return keep(std::move(made));
}

Scalar *aclCreateScalar(const void *value, int32_t type) {
  if (!value) return refused(kOperatorNull, "a scalar without value");
  auto made = std::make_unique<Scalar>();
  made->type = type;
  const bool simulated = with_element(type, [&]<class E>() {
    made->real = from_element<double>(*static_cast<const E *>(value));
    made->whole =
        is_floating(type) ? to_element<int64_t>(made->real) : from_element<int64_t>(*static_cast<const E *>(value));
  });
  if (!simulated) return refused(kOperatorParameter, "a scalar of a type that is not simulated");
  return keep(std::move(made));
}

Ints *aclCreateIntArray(const int64_t *values, uint64_t count) { return array<Ints>(values, count); }
Floats *aclCreateFloatArray(const float *values, uint64_t count) { return array<Floats>(values, count); }
Bools *aclCreateBoolArray(const bool *values, uint64_t count) { return array<Bools>(values, count); }
Tensors *aclCreateTensorList(const Tensor *const *each, uint64_t count) {
  return list<Tensors>(each, count, Object::Kind::tensor);
}
Scalars *aclCreateScalarList(const Scalar *const *each, uint64_t count) {
  return list<Scalars>(each, count, Object::Kind::scalar);
}

Error aclDestroyTensor(const Tensor *tensor) { return destroy(tensor, Object::Kind::tensor); }
Error aclDestroyScalar(const Scalar *scalar) { return destroy(scalar, Object::Kind::scalar); }
Error aclDestroyIntArray(const Ints *array) { return destroy(array, Object::Kind::ints); }
Error aclDestroyFloatArray(const Floats *array) { return destroy(array, Object::Kind::floats); }
Error aclDestroyBoolArray(const Bools *array) { return destroy(array, Object::Kind::bools); }
Error aclDestroyTensorList(const Tensors *list) {
  return destroy_list(list, Object::Kind::tensors, Object::Kind::tensor);
}
Error aclDestroyScalarList(const Scalars *list) {
  return destroy_list(list, Object::Kind::scalars, Object::Kind::scalar);
}

Error aclGetViewShape(const Tensor *tensor, int64_t **dims, uint64_t *count) {
  return ask(tensor, [&] { return copy_out(tensor->dims, dims, count); });
}
Error aclGetStorageShape(const Tensor *tensor, int64_t **dims, uint64_t *count) {
  return ask(tensor, [&] { return copy_out(tensor->storage, dims, count); });
}
Error aclGetViewStrides(const Tensor *tensor, int64_t **strides, uint64_t *count) {
  return ask(tensor, [&] { return copy_out(tensor->strides, strides, count); });
}
Error aclGetViewOffset(const Tensor *tensor, int64_t *offset) {
  return ask(tensor, [&] { return *offset = tensor->offset, Error(kOk); });
}
Error aclGetFormat(const Tensor *tensor, int32_t *format) {
  return ask(tensor, [&] { return *format = tensor->format, Error(kOk); });
}
Error aclGetDataType(const Tensor *tensor, int32_t *type) {
  return ask(tensor, [&] { return *type = tensor->type, Error(kOk); });
}
Error aclGetRawTensorAddr(const Tensor *tensor, void **address) {
  return ask(tensor, [&] { return *address = tensor->address, Error(kOk); });
}
Error aclSetRawTensorAddr(Tensor *tensor, void *address) {
  return ask(tensor, [&] { return tensor->address = address, Error(kOk); });
}

} // namespace sim
