// What a captured step has read on the host: objects, numbers and addresses that must not have changed before a launch.
#pragma once
#include <nanobind/nanobind.h>

#include <ATen/core/Tensor.h>

#include <string>
#include <utility>
#include <vector>

namespace tb::compile {

// Borrows all Python objects, so that no reference cycle goes through it: its owner keeps them. Needs the GIL.
class Watch {
public:
  // Some entries of a dictionary. whole: keys may not be added or removed.
  void add_dict(nanobind::dict dict, nanobind::list keys, nanobind::list values, std::vector<std::string> names,
                bool whole, std::string name);
  // The items of a list, or the number of items of another container.
  void add_items(nanobind::handle container, std::string name);
  void add_attribute(nanobind::handle owner, nanobind::handle attribute, nanobind::handle value, std::string name);
  // The address, form, requires_grad and hooks of a tensor of the device.
  void add_tensor(nanobind::handle tensor, std::string name);
  // The values of a tensor of the host.
  void add_values(nanobind::handle tensor, std::string name);

  // The name of something that is not what it was; NULL if there is nothing. Valid as long as this object.
  const std::string *difference();

private:
  struct Entry {
    PyObject *key, *value;
    std::string name;
  };
  struct Dict {
    PyObject *dict;
    std::vector<Entry> entries;
    Py_ssize_t size; // if no key may be added or removed; otherwise -1
    // The values in their order, if most of them are entries: most calls find the same ones, which is faster than a lookup
    // of each; those of `entries` are the ones that are kept, so that no other object can
    // have their address.
    std::vector<PyObject *> all;
  };
  struct Items {
    PyObject *container;
    Py_ssize_t size;
    std::vector<PyObject *> items; // of a list
    std::string name;
  };
  struct Attribute {
    PyObject *owner, *attribute, *value;
    std::string name;
  };
  struct Place {
    PyObject *object;
    const c10::TensorImpl *impl; // compared only: torch.utils.swap_tensors gives the object another one
    const void *data;
    std::vector<int64_t> sizes, strides;
    c10::ScalarType type;
    bool requires_grad;
    size_t hooks;
    std::string name;
  };
  struct Values {
    PyObject *object;
    std::string bytes;
    std::string name;
  };
  static void take_values(Dict &dict);
  static const std::string *difference(Dict &dict);
  static const std::string *difference(const Items &items);
  static bool differs(const Place &place);

  std::vector<Dict> dicts_;
  std::vector<std::pair<PyObject *, std::string>> empty_; // dictionaries that have to stay so, such as those of hooks
  std::vector<Items> items_;
  std::vector<Attribute> attributes_;
  std::vector<Place> places_;
  std::vector<Values> values_;
};

} // namespace tb::compile
