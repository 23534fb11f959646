// One open driver in Python.
#include <nanobind/nanobind.h>
#include <nanobind/stl/map.h>
#include <nanobind/stl/string.h>
#include <nanobind/stl/vector.h>

#include <cstdio>

#include "bindings/bindings.h"
#include "drivers/builtin.h"
#include "host/errors.h"
#include "host/gil.h"
#include "loading/complete_table.h"
#include "loading/load.h"
#include "process/process.h"

namespace nb = nanobind;
using namespace nb::literals;

namespace tb::device {
namespace {

nb::str text_of(const char *text, size_t size) {
  return nb::steal<nb::str>(PyUnicode_DecodeUTF8(text, static_cast<Py_ssize_t>(strnlen(text, size)), "replace"));
}

// Calls a function of the handed-out table without Python's lock; throws what went wrong.
template <auto Member, class... A> void call(Driver &driver, Slot slot, int32_t device, A... arguments) {
  tb_status status;
  {
    Unlocked unlocked;
    clear_error();
    status = (driver.table.*Member)(driver.self, arguments...);
  }
  if (status != TB_OK) throw Failure::take(status, driver.name.c_str(), facts(slot).name, device);
}

// The same for a function that waits. Afterwards warnings and errors of queued work are reported, which may raise.
template <auto Member, class... A> void wait(Driver &driver, Slot slot, int32_t device, A... arguments) {
  call<Member>(driver, slot, device, arguments...);
  if (report_late() != 0) throw nb::python_error();
}

nb::list groups_of(const Driver &driver) {
  nb::list out;
  for (const Group &group : all_groups())
    if (driver.offers(group.bit)) out.append(group.name);
  return out;
}

nb::list functions_of(const Driver &driver) {
  nb::list out;
  for (int i = 0; i < driver_slot_count; ++i)
    if (slot_value(driver.offered, static_cast<Slot>(i))) out.append(slot_facts[i].name);
  return out;
}

nb::dict info_of(const Driver &driver) {
  const tb_driver_info &info = driver.info;
  nb::dict out;
  out["name"] = text_of(info.name, sizeof info.name);
  out["vendor"] = text_of(info.vendor, sizeof info.vendor);
  out["version"] = text_of(info.version, sizeof info.version);
  out["native"] = text_of(info.native, sizeof info.native);
  out["dlpack_type"] = info.dlpack_type;
  out["abi"] = nb::make_tuple(driver.offered.abi_major, driver.offered.abi_minor);
  out["build_id"] = text_of(driver.build_id.c_str(), driver.build_id.size() + 1);
  return out;
}

nb::dict device_info_of(const Driver &driver, int32_t device) {
  if (tb_status status = check_device(driver, device, Slot::device_get_info))
    throw Failure::take(status, driver.name.c_str(), "device_get_info", device);
  const tb_device_info &info = driver.devices[static_cast<size_t>(device)];
  nb::dict out;
  out["name"] = text_of(info.name, sizeof info.name);
  out["arch"] = text_of(info.arch, sizeof info.arch);
  out["uuid"] = nb::bytes(reinterpret_cast<const char *>(info.uuid), sizeof info.uuid);
  out["total_memory"] = info.total_memory;
  out["max_allocation"] = info.max_allocation;
  out["alignment"] = info.alignment;
  out["compute_units"] = info.compute_units;
  out["priority_range"] = nb::make_tuple(info.priority_least, info.priority_greatest);
  out["pci"] = nb::make_tuple(info.pci_domain, info.pci_bus, info.pci_device);
  out["numa_node"] = info.numa_node;
  out["host_accessible"] = (info.flags & TB_DEVICE_HOST_ACCESSIBLE) != 0;
  out["max_argument_size"] = info.max_argument_size;
  nb::list lacks;
  if (info.lacks & TB_LACKS_FLOAT64) lacks.append("float64");
  if (info.lacks & TB_LACKS_ATOMIC64) lacks.append("atomic64");
  if (info.lacks & TB_LACKS_FLOAT_ATOMICS) lacks.append("float_atomics");
  if (info.lacks & TB_LACKS_FMA) lacks.append("fma");
  out["lacks"] = nb::tuple(lacks);
  out["vector_size"] = info.vector_size;
  return out;
}

// A contiguous buffer, held for one call.
class Bytes {
public:
  Bytes(nb::handle object, bool writable) {
    if (PyObject_GetBuffer(object.ptr(), &view_, writable ? PyBUF_C_CONTIGUOUS | PyBUF_WRITABLE : PyBUF_C_CONTIGUOUS))
      throw nb::python_error();
  }
  ~Bytes() { PyBuffer_Release(&view_); }
  Bytes(const Bytes &) = delete;
  void *data() const { return view_.buf; }
  uint64_t size() const { return static_cast<uint64_t>(view_.len); }

private:
  Py_buffer view_;
};

void *pointer(uintptr_t address) { return reinterpret_cast<void *>(address); }

tb_stream *default_stream(Driver &driver, int32_t device) {
  tb_stream *stream = nullptr;
  call<&tb_driver_api::stream_default>(driver, Slot::stream_default, device, device, &stream);
  return stream;
}

uintptr_t mem_alloc(Driver &driver, int32_t device, uint64_t size) {
  void *out = nullptr;
  call<&tb_driver_api::mem_alloc>(driver, Slot::mem_alloc, device, device, size, uint64_t{0}, &out);
  return reinterpret_cast<uintptr_t>(out);
}

void mem_free(Driver &driver, int32_t device, uintptr_t address) {
  call<&tb_driver_api::mem_free>(driver, Slot::mem_free, device, device, pointer(address));
}

void copy_and_wait(Driver &driver, int32_t device, void *dst, const void *src, uint64_t size, int32_t kind) {
  tb_stream *stream = default_stream(driver, device);
  call<&tb_driver_api::mem_copy>(driver, Slot::mem_copy, device, device, stream, dst, src, size, kind);
  wait<&tb_driver_api::stream_synchronize>(driver, Slot::stream_synchronize, device, stream);
}

// An address is any number in Python: where the host writes to device memory itself, the driver is asked whether it has
// the memory, if it can say so. Elsewhere its own refusal says more.
void check_memory(Driver &driver, int32_t device, Slot slot, uintptr_t address, uint64_t size) {
  if (!size || check_device(driver, device, slot) != TB_OK) return clear_error(); // the driver refuses the device
  if (!(driver.devices[static_cast<size_t>(device)].flags & TB_DEVICE_HOST_ACCESSIBLE)) return;
  tb_pointer_info info{};
  info.struct_size = sizeof info;
  uint64_t left = 0;
  try {
    call<&tb_driver_api::mem_get_info>(driver, Slot::mem_get_info, device, static_cast<const void *>(pointer(address)),
                                       &info);
    left = info.size - (address - reinterpret_cast<uintptr_t>(info.base));
  } catch (const Failure &failure) {
    if (failure.status == TB_UNSUPPORTED) return;
    if (failure.status != TB_NOT_FOUND) throw;
  }
  if (left >= size) return;
  char text[200];
  std::snprintf(
      text, sizeof text,
      left ? "%llu bytes at %#llx asked, but only %llu bytes of memory are there: stay inside what mem_alloc gave"
           : "%llu bytes at %#llx asked, but the driver has no memory there: use an address that mem_alloc gave",
      static_cast<unsigned long long>(size), static_cast<unsigned long long>(address),
      static_cast<unsigned long long>(left));
  throw Failure{TB_OUT_OF_RANGE, 0, device, driver.name, facts(slot).name, text};
}

void copy_to_device(Driver &driver, int32_t device, uintptr_t dst, nb::handle src) {
  Bytes bytes(src, false);
  check_memory(driver, device, Slot::mem_copy, dst, bytes.size());
  copy_and_wait(driver, device, pointer(dst), bytes.data(), bytes.size(), TB_COPY_HOST_TO_DEVICE);
}

void copy_from_device(Driver &driver, int32_t device, nb::handle dst, uintptr_t src) {
  Bytes bytes(dst, true);
  check_memory(driver, device, Slot::mem_copy, src, bytes.size());
  copy_and_wait(driver, device, bytes.data(), pointer(src), bytes.size(), TB_COPY_DEVICE_TO_HOST);
}

void copy_between(Driver &driver, int32_t dst_device, uintptr_t dst, int32_t src_device, uintptr_t src, uint64_t size) {
  check_memory(driver, dst_device, Slot::mem_copy, dst, size);
  check_memory(driver, src_device, Slot::mem_copy, src, size);
  if (dst_device == src_device)
    return copy_and_wait(driver, dst_device, pointer(dst), pointer(src), size, TB_COPY_DEVICE_TO_DEVICE);
  tb_stream *stream = default_stream(driver, dst_device);
  call<&tb_driver_api::peer_copy>(driver, Slot::peer_copy, dst_device, stream, pointer(dst), dst_device, pointer(src),
                                  src_device, size);
  wait<&tb_driver_api::stream_synchronize>(driver, Slot::stream_synchronize, dst_device, stream);
}

void mem_set(Driver &driver, int32_t device, uintptr_t dst, uint32_t pattern, uint32_t pattern_size, uint64_t count) {
  if (pattern_size && count > UINT64_MAX / pattern_size) count = UINT64_MAX / pattern_size; // more than there is
  check_memory(driver, device, Slot::mem_set, dst, pattern_size * count);
  tb_stream *stream = default_stream(driver, device);
  call<&tb_driver_api::mem_set>(driver, Slot::mem_set, device, device, stream, pointer(dst), pattern, pattern_size,
                                count);
  wait<&tb_driver_api::stream_synchronize>(driver, Slot::stream_synchronize, device, stream);
}

nb::tuple memory_info(Driver &driver, int32_t device) {
  uint64_t free = 0, total = 0;
  call<&tb_driver_api::device_memory_info>(driver, Slot::device_memory_info, device, device, &free, &total);
  return nb::make_tuple(free, total);
}

void synchronize(Driver &driver, int32_t device) {
  wait<&tb_driver_api::device_synchronize>(driver, Slot::device_synchronize, device, device);
}

int64_t query(Driver &driver, int32_t device, const std::string &key) {
  int64_t out = 0;
  call<&tb_driver_api::device_query>(driver, Slot::device_query, device, device, key.c_str(), &out);
  return out;
}

bool has_extension(Driver &driver, const std::string &name, uint32_t version) {
  // More room than any extension's table takes; the driver fills no further than it knows.
  struct Table {
    uint32_t struct_size, version;
    void *functions[254];
  } table{sizeof(Table), version, {}};
  if (!driver.offered.get_extension) return false;
  try {
    call<&tb_driver_api::get_extension>(driver, Slot::get_extension, -1, name.c_str(), version,
                                        static_cast<void *>(&table), static_cast<uint32_t>(sizeof table));
  } catch (const Failure &failure) {
    if (failure.status == TB_NOT_FOUND) return false;
    throw;
  }
  return true;
}

nb::object devices_of(nb::handle driver) {
  return nb::module_::import_("tb_device.device_objects").attr("devices_of")(driver);
}

void close(Driver &driver) {
  if (&driver == default_driver())
    throw Failure{TB_FAILED_PRECONDITION,
                  0,
                  -1,
                  driver.name,
                  "close",
                  "it is the process's default driver, which other components use; it is closed at exit"};
  tb_status status;
  {
    Unlocked unlocked;
    status = close_driver(driver);
  }
  if (status != TB_OK) throw Failure::take(status, driver.name.c_str(), "close", -1);
}

Driver *load_from_python(const std::string &path, const std::string &name, const Options &options) {
  Unlocked unlocked;
  return load_library(path, name, options);
}

OpenFunction find_entry(const std::string &name) {
  if (const OpenFunction open = drivers::builtin_entry(name)) return open;
  std::string known;
  for (const drivers::BuiltinDriver &driver : drivers::builtin_drivers)
    known += (known.empty() ? "" : ", ") + std::string(driver.name);
  throw Failure{TB_NOT_FOUND, 0, -1, name, "load", "the built-in drivers are " + known};
}

nb::list builtin_drivers() {
  nb::list out;
  for (const drivers::BuiltinDriver &driver : drivers::builtin_drivers)
    out.append(nb::make_tuple(std::string(driver.name), driver.search_order));
  return out;
}

Driver *builtin_from_python(const std::string &name, const Options &options) {
  const OpenFunction open = find_entry(name);
  Unlocked unlocked;
  return open_embedded(open, name, options);
}

uintptr_t builtin_entry(const std::string &name) { return reinterpret_cast<uintptr_t>(find_entry(name)); }

} // namespace

void bind_driver(nb::module_ &module) {
  nb::class_<Driver>(module, "Driver",
                     "An open driver. Made by tb_device.load_driver and tb_device.default_driver. Addresses are plain "
                     "integers, sizes bytes; every method raises tb_device.Error with the driver's own text.")
      .def_prop_ro(
          "name", [](const Driver &driver) { return text_of(driver.name.c_str(), driver.name.size() + 1); },
          "The driver's name for itself, such as \"cpu\".")
      .def_prop_ro(
          "path", [](const Driver &driver) { return driver.path; }, "Of the library, or what was embedded.")
      .def_prop_ro(
          "is_open", [](const Driver &driver) { return driver.open.load(); }, "False once close() has succeeded.")
      .def_prop_ro("groups", groups_of, nb::sig("def groups(self) -> list[str]"),
                   "What the driver itself offers, by group name; the host emulates everything else.")
      .def_prop_ro("functions", functions_of, nb::sig("def functions(self) -> list[str]"),
                   "The functions that the driver itself has, in the order of the table.")
      .def_prop_ro(
          "layers", [](const Driver &driver) { return driver.layers; },
          "The names of the layers around it, outermost first (tb_device.layers).")
      .def_prop_ro("info", info_of, nb::sig("def info(self) -> dict[str, object]"),
                   "name, vendor, version, native, dlpack_type, abi, build_id.")
      .def_prop_ro(
          "device_count", [](const Driver &driver) { return driver.device_count(); },
          "The number of devices; the same as long as the driver is open.")
      .def("devices", devices_of, nb::sig("def devices(self) -> list[tb_device.device_objects.Device]"),
           "The devices, in their order.")
      .def("has_extension", has_extension, "name"_a, "version"_a,
           "Whether the driver itself has this version of an extension, such as tb.graph.")
      .def("device_info", device_info_of, "device"_a,
           nb::sig("def device_info(self, device: int) -> dict[str, object]"), "The facts of one device.")
      .def("memory_info", memory_info, "device"_a, nb::sig("def memory_info(self, device: int) -> tuple[int, int]"),
           "Free and total bytes of a device.")
      .def("mem_alloc", mem_alloc, "device"_a, "size"_a, "The address of `size` new bytes; OutOfMemoryError.")
      .def("mem_free", mem_free, "device"_a, "address"_a,
           "Gives memory back at once, waiting for nothing; 0 is allowed.")
      .def("copy_to_device", copy_to_device, "device"_a, "dst"_a, "src"_a,
           nb::sig("def copy_to_device(self, device: int, dst: int, src: bytes | bytearray | memoryview) -> None"),
           "Copies a contiguous buffer to an address on the device and waits for it.")
      .def("copy_from_device", copy_from_device, "device"_a, "dst"_a, "src"_a,
           nb::sig("def copy_from_device(self, device: int, dst: bytearray | memoryview, src: int) -> None"),
           "Fills a writable contiguous buffer from an address on the device and waits for it.")
      .def("copy_between", copy_between, "dst_device"_a, "dst"_a, "src_device"_a, "src"_a, "size"_a,
           "Copies between two addresses on devices of this driver and waits for it.")
      .def("mem_set", mem_set, "device"_a, "dst"_a, "pattern"_a, "pattern_size"_a, "count"_a,
           "Writes `count` times the low `pattern_size` (1, 2, 4) bytes of `pattern` and waits for it.")
      .def("query", query, "device"_a, "key"_a, "A fact of the vendor's own by its key.")
      .def("synchronize", synchronize, "device"_a, "Waits for all work of a device; raises what failed.")
      .def("close", close, "The end of the driver; refused with FailedPreconditionError while objects of it live.")
      .def_prop_ro(
          "table_address", [](const Driver &driver) { return reinterpret_cast<uintptr_t>(&driver.table); },
          "Of the completed tb_driver_api, for ctypes; valid for the life of the process.")
      .def_prop_ro(
          "self_address", [](const Driver &driver) { return reinterpret_cast<uintptr_t>(driver.self); },
          "The address that every function of the table takes first.")
      .def("__repr__", [](const Driver &driver) {
        std::string text = "<tb_device.Driver " + driver.name + ", " + std::to_string(driver.device_count()) +
                           " device(s), from " + driver.path + (driver.open.load() ? ">" : ", closed>");
        return text_of(text.c_str(), text.size() + 1);
      });
  module.def("load_library", load_from_python, "path"_a, "name"_a, "options"_a, nb::rv_policy::reference,
             "Opens a driver library. Options not given come from TB_<NAME>_<OPTION>.");
  module.def("builtin_drivers", builtin_drivers, nb::sig("def builtin_drivers() -> list[tuple[str, int]]"),
             "The built-in drivers by name, each with its place in the search for a default driver; 0: not searched.");
  module.def("open_builtin", builtin_from_python, "name"_a, "options"_a, nb::rv_policy::reference,
             "Opens a driver that is part of this module: cpu, cuda, npu, sim or replay.");
  module.def("builtin_entry", builtin_entry, "name"_a,
             "The address of a built-in driver's tb_driver_open_v1, for the contract kit, which opens it raw.");
}

} // namespace tb::device
