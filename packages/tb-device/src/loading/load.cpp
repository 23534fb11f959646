// Opens a driver, checks its table, completes it.
#include "loading/load.h"

#include <dlfcn.h>

#include <array>
#include <cstdlib>
#include <cstring>
#include <set>
#include <utility>

#include "host/errors.h"
#include "layers/framework/stack.h"
#include "layers/layers.h"
#include "loading/complete_table.h"

namespace tb::device {
namespace {

using Findings = std::vector<std::string>;

std::mutex loading;

[[noreturn]] void refuse(const std::string &name, tb_status status, const std::string &what,
                         const std::string &remedy) {
  throw Failure{status, 0, -1, name, "load", what + ". " + remedy};
}

std::string joined(const Findings &findings) {
  std::string out;
  for (const std::string &finding : findings) out += (out.empty() ? "" : "; ") + finding;
  return out;
}

std::string names(const std::vector<const char *> &list) {
  std::string out;
  for (const char *name : list) out += (out.empty() ? "" : ", ") + std::string(name);
  return out;
}

OpenFunction find_entry(const std::string &path, const std::string &name) {
  // Without RTLD_LOCAL two drivers' symbols, or a driver's and torch's, would meet.
  void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!library) {
    const char *reason = dlerror();
    refuse(name, TB_NOT_FOUND, "cannot load " + path + ": " + (reason ? reason : "no reason given"),
           "Check the path and that the libraries it needs are installed");
  }
  if (void *entry = dlsym(library, TB_DRIVER_ENTRY)) {
    OpenFunction open;
    std::memcpy(&open, &entry, sizeof open);
    return open;
  }
  for (int major = 0; major <= 9; ++major) {
    std::string other = "tb_driver_open_v" + std::to_string(major);
    if (major == TB_ABI_MAJOR || !dlsym(library, other.c_str())) continue;
    refuse(name, TB_ABI_MISMATCH,
           path + " is a driver for device ABI " + std::to_string(major) + " (it exports " + other +
               "), while this tb-device speaks " + std::to_string(TB_ABI_MAJOR),
           major > TB_ABI_MAJOR ? "Upgrade tb-device: pip install -U tb-device" : "Ask the vendor for a newer driver");
  }
  refuse(name, TB_ABI_MISMATCH, path + " is a library but no driver: it does not export " TB_DRIVER_ENTRY,
         "Export that function with C linkage and default visibility (TB_EXPORT in tb/driver.h)");
}

void check_group(const tb_driver_api &api, const Group &group, Findings &findings) {
  std::vector<const char *> missing, present, optional;
  for (int i = 0; i < driver_slot_count; ++i) {
    const SlotFacts &slot = slot_facts[i];
    if (slot.group_bit != group.bit) continue;
    bool there = slot_value(api, static_cast<Slot>(i)) != nullptr;
    if (there) (slot.required ? present : optional).push_back(slot.name);
    if (!there && slot.required) missing.push_back(slot.name);
  }
  bool declared = (api.groups & group.bit) != 0;
  std::string name = group.name;
  if (group.bit == TB_GROUP_CORE) {
    if (!missing.empty()) findings.push_back("required functions are missing: " + names(missing));
    if (missing.empty() && !declared) findings.push_back("groups lacks the bit TB_GROUP_CORE");
    return;
  }
  if (!present.empty() && !missing.empty())
    findings.push_back("group " + name + " is half filled: it has " + names(present) + " but lacks " + names(missing));
  else if (declared && !missing.empty())
    findings.push_back("groups declares " + name + " but its functions are NULL");
  else if (!declared && !present.empty())
    findings.push_back("group " + name + " is filled but groups lacks the bit TB_GROUP_" + name);
  else if (!declared && !optional.empty())
    findings.push_back(names(optional) + " is filled without its group " + name);
}

void check_table(const tb_driver_api &api, Findings &findings) {
  for (const Group &group : all_groups()) check_group(api, group, findings);
  for (const Group &group : all_groups()) {
    uint64_t lacking = (api.groups & group.bit) ? groups_needed_by(group.bit) & ~api.groups : 0;
    for (const Group &other : all_groups())
      if (lacking & other.bit) findings.push_back("group " + std::string(group.name) + " needs group " + other.name);
  }
}

// The facts that everything above relies on. Asked once: device_info answers from here.
void ask_facts(Driver &driver, Findings &findings) {
  auto failed = [&](Slot slot, int32_t device, tb_status status) {
    Failure failure = Failure::take(status, nullptr, facts(slot).name, device);
    findings.push_back(failure.message().substr(sizeof "tb-device: " - 1));
  };
  const tb_driver_api &api = driver.offered;
  clear_error();
  driver.info.struct_size = sizeof driver.info;
  if (tb_status status = api.get_info(driver.self, &driver.info)) return failed(Slot::get_info, -1, status);
  if (!std::memchr(driver.info.name, 0, sizeof driver.info.name) || !driver.info.name[0])
    return findings.push_back("get_info gives no name that ends within its 32 bytes");
  int32_t count = 0;
  if (tb_status status = api.device_count(driver.self, &count)) return failed(Slot::device_count, -1, status);
  if (count < 0) return findings.push_back("device_count says " + std::to_string(count) + " (no hardware is 0)");
  for (int32_t device = 0; device < count; ++device) {
    tb_device_info info{};
    info.struct_size = sizeof info;
    if (tb_status status = api.device_get_info(driver.self, device, &info)) {
      failed(Slot::device_get_info, device, status);
      continue;
    }
    info.name[sizeof info.name - 1] = info.arch[sizeof info.arch - 1] = 0;
    if (info.alignment < 64 || (info.alignment & (info.alignment - 1)))
      findings.push_back("device " + std::to_string(device) + " has alignment " + std::to_string(info.alignment) +
                         ", which is not a power of two of at least 64");
    driver.devices.push_back(info);
  }
}

// The option `layers`, else TB_LAYERS, which a program of elevated privilege does not read: trace writes files.
std::string asked_layers(const Options &options) {
  if (auto given = options.find("layers"); given != options.end()) return given->second;
  const char *variable = secure_getenv("TB_LAYERS");
  return variable ? variable : "";
}

// After the driver's own table was checked, before anything is built on it.
void put_layers(Driver &driver, const std::string &spec, Findings &findings) {
  if (spec.empty()) return;
  std::string problem;
  if (layers::apply(spec, host(), &driver.offered, &driver.self, &problem) == TB_OK)
    driver.layers = layers::names(driver.self);
  else
    findings.push_back("the layers '" + spec + "' (option layers or TB_LAYERS): " + problem);
}

// Room after the table shows a driver that ignores struct_size.
struct GuardedTable {
  tb_driver_api api{};
  std::array<unsigned char, 256> guard;
};

Driver *open_and_check(OpenFunction open, const std::string &where, const std::string &name, const Options &options) {
  if (ended.load() != Ended::no) refuse(name, TB_FAILED_PRECONDITION, refusal_text(), "No driver can be opened here");
  std::lock_guard lock(loading);
  auto driver = std::make_unique<Driver>();
  GuardedTable room;
  room.api.struct_size = sizeof(tb_driver_api);
  room.guard.fill(0xA5);
  tb_driver *self = nullptr;
  clear_error();
  tb_status status;
  {
    OptionScope scope(name, options);
    status = open(host(), &room.api, &self);
  }
  if (status != TB_OK) throw Failure::take(status, name.c_str(), TB_DRIVER_ENTRY, -1);

  const std::string repair = "Ask the vendor for a driver built for tb-device " TB_PACKAGE_VERSION
                             ", or correct its table (tb/driver_slots.inc says what each group needs)";
  for (unsigned char byte : room.guard)
    if (byte != 0xA5)
      refuse(name, TB_ABI_MISMATCH, where + " wrote past the end of the table that it was given",
             "Fill it with tb_driver_fill, which honours struct_size");
  if (room.api.struct_size < offsetof(tb_driver_api, close) || room.api.struct_size > sizeof(tb_driver_api))
    refuse(name, TB_ABI_MISMATCH,
           where + " gives a table of " + std::to_string(room.api.struct_size) + " bytes, and its head alone is " +
               std::to_string(offsetof(tb_driver_api, close)) + ", the whole " + std::to_string(sizeof(tb_driver_api)),
           repair);
  if (room.api.abi_major != TB_ABI_MAJOR)
    refuse(name, TB_ABI_MISMATCH,
           where + " says it speaks device ABI " + std::to_string(room.api.abi_major) + "." +
               std::to_string(room.api.abi_minor) + " behind " TB_DRIVER_ENTRY,
           repair);

  driver->offered = room.api;
  driver->self = self;
  driver->path = where;
  driver->build_id = room.api.build_id ? room.api.build_id : "";
  Findings findings;
  check_table(driver->offered, findings);
  if (!self) findings.push_back("it returned no self");
  bool callable = findings.empty();
  if (callable) ask_facts(*driver, findings);
  if (callable && findings.empty()) {
    driver->name = driver->info.name;
    put_layers(*driver, asked_layers(options), findings);
    if (!findings.empty()) {
      (void)driver->offered.close(self);
      refuse(name, TB_INVALID_ARGUMENT, findings[0], "docs/layers.md lists the layers and their options");
    }
    complete_table(*driver);
    if (!register_driver(driver.get()))
      refuse(name, TB_ALREADY_EXISTS, where + " is open already, and opening it again gave the same self",
             "Use the open one, or let the driver make a self for each open");
  }
  if (!findings.empty()) {
    if (callable) (void)driver->offered.close(self);
    refuse(name, TB_ABI_MISMATCH, "cannot use " + where + ": " + joined(findings), repair);
  }
  driver->open.store(true);
  log(Level::info, ("opened driver " + driver->name + " from " + where).c_str());
  return driver.release(); // for ever: tables outlive their driver
}

} // namespace

Driver *load_library(const std::string &path, const std::string &name, const Options &options) {
  return open_and_check(find_entry(path, name), path, name, options);
}

Driver *open_embedded(OpenFunction open, const std::string &name, const Options &options) {
  return open_and_check(open, "the embedded driver " + name, name, options);
}

} // namespace tb::device
