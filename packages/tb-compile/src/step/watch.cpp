// Compares objects with what they were.
#include "tb/tensor_caster.h"

#include "step/watch.h"

#include <torch/csrc/autograd/variable.h>

#include <algorithm>
#include <cstring>
#include <utility>

namespace nb = nanobind;

namespace tb::compile {
namespace {

// Equal numbers of one type; floating-point numbers bit by bit, since a step may divide by zero.
bool same_value(PyObject *now, PyObject *then) {
  if (now == then) return true;
  if (!now || Py_TYPE(now) != Py_TYPE(then)) return false;
  if (PyFloat_CheckExact(now)) {
    const double one = PyFloat_AsDouble(now), other = PyFloat_AsDouble(then);
    return std::memcmp(&one, &other, sizeof one) == 0;
  }
  if (!PyLong_Check(now) && !PyUnicode_CheckExact(now) && !PyBytes_CheckExact(now) && !PyComplex_CheckExact(now) &&
      !PyTuple_CheckExact(now))
    return false;
  const int equal = PyObject_RichCompareBool(now, then, Py_EQ);
  if (equal < 0) PyErr_Clear(); // of objects in a tuple
  return equal > 0;
}

bool has_values(PyObject *dict, const std::vector<PyObject *> &values) {
  Py_ssize_t at = 0;
  size_t i = 0;
  for (PyObject *key, *value; PyDict_Next(dict, &at, &key, &value); i++)
    if (i == values.size() || value != values[i]) return false;
  return i == values.size();
}

size_t hooks_of(const at::Tensor &tensor) {
  const auto *meta = torch::autograd::impl::get_autograd_meta(tensor);
  return meta ? meta->hooks_.size() + (meta->post_acc_grad_hooks_ != nullptr) : 0;
}

std::string bytes_of(const at::Tensor &tensor) {
  const at::Tensor contiguous = tensor.contiguous();
  return {static_cast<const char *>(contiguous.const_data_ptr()), contiguous.nbytes()};
}

} // namespace

void Watch::take_values(Dict &dict) {
  dict.all.clear();
  Py_ssize_t at = 0;
  for (PyObject *key, *value; PyDict_Next(dict.dict, &at, &key, &value);) {
    const auto kept = std::ranges::find(dict.entries, key, &Entry::key);
    dict.all.push_back(kept == dict.entries.end() ? value : kept->value);
  }
}

void Watch::add_dict(nb::dict dict, nb::list keys, nb::list values, std::vector<std::string> names, bool whole,
                     std::string name) {
  const Py_ssize_t size = PyDict_Size(dict.ptr());
  if (whole && size == 0) {
    empty_.emplace_back(dict.ptr(), std::move(name));
    return;
  }
  Dict made{dict.ptr(), {}, whole ? size : -1, {}};
  for (size_t i = 0; i < names.size(); i++)
    made.entries.push_back({nb::handle(keys[i]).ptr(), nb::handle(values[i]).ptr(), std::move(names[i])});
  if (whole && 2 * static_cast<Py_ssize_t>(made.entries.size()) >= size) take_values(made);
  dicts_.push_back(std::move(made));
}

void Watch::add_items(nb::handle container, std::string name) {
  Items made{container.ptr(), PyObject_Size(container.ptr()), {}, std::move(name)};
  if (PyList_CheckExact(container.ptr()))
    for (Py_ssize_t i = 0; i < made.size; i++) made.items.push_back(PyList_GetItem(container.ptr(), i));
  items_.push_back(std::move(made));
}

void Watch::add_attribute(nb::handle owner, nb::handle attribute, nb::handle value, std::string name) {
  attributes_.push_back({owner.ptr(), attribute.ptr(), value.ptr(), std::move(name)});
}

// Tensors are borrowed as Python's objects: some functions of PyTorch require that a tensor has no other owner.
void Watch::add_tensor(nb::handle object, std::string name) {
  const at::Tensor &tensor = tensor_unpack(object.ptr());
  places_.push_back({object.ptr(), tensor.unsafeGetTensorImpl(), tensor.const_data_ptr(), tensor.sizes().vec(),
                     tensor.strides().vec(), tensor.scalar_type(), tensor.requires_grad(), hooks_of(tensor),
                     std::move(name)});
}

void Watch::add_values(nb::handle object, std::string name) {
  values_.push_back({object.ptr(), bytes_of(tensor_unpack(object.ptr())), std::move(name)});
}

bool Watch::differs(const Place &place) {
  const at::Tensor &tensor = tensor_unpack(place.object);
  const c10::TensorImpl *impl = tensor.unsafeGetTensorImpl();
  return impl != place.impl || impl->data() != place.data || impl->sizes() != place.sizes ||
         impl->strides() != place.strides || c10::typeMetaToScalarType(impl->dtype()) != place.type ||
         impl->requires_grad() != place.requires_grad || hooks_of(tensor) != place.hooks;
}

const std::string *Watch::difference(Dict &dict) {
  if (!dict.all.empty() && has_values(dict.dict, dict.all)) return nullptr;
  if (dict.size >= 0 && PyDict_Size(dict.dict) != dict.size) return &dict.entries.front().name;
  for (const Entry &entry : dict.entries)
    if (!same_value(PyDict_GetItemWithError(dict.dict, entry.key), entry.value)) return &entry.name;
  if (!dict.all.empty()) take_values(dict);
  return nullptr;
}

const std::string *Watch::difference(const Items &items) {
  if (PyObject_Size(items.container) != items.size) return &items.name;
  for (size_t i = 0; i < items.items.size(); i++)
    if (!same_value(PyList_GetItem(items.container, static_cast<Py_ssize_t>(i)), items.items[i])) return &items.name;
  return nullptr;
}

const std::string *Watch::difference() {
  for (const Place &place : places_)
    if (differs(place)) return &place.name;
  for (const auto &[dict, name] : empty_)
    if (PyDict_Size(dict) != 0) return &name;
  for (Dict &dict : dicts_)
    if (const std::string *name = difference(dict)) return name;
  for (const Items &items : items_)
    if (const std::string *name = difference(items)) return name;
  for (const Attribute &one : attributes_) {
    PyObject *now = PyObject_GetAttr(one.owner, one.attribute);
    if (!now) PyErr_Clear();
    const bool same = same_value(now, one.value);
    Py_XDECREF(now);
    if (!same) return &one.name;
  }
  for (const Values &one : values_)
    if (bytes_of(tensor_unpack(one.object)) != one.bytes) return &one.name;
  return nullptr;
}

} // namespace tb::compile
