// Runs one case against an open driver.
#include "contract/run.h"

#include <dlfcn.h>

#include <algorithm>
#include <cctype>
#include <cstdlib>
#include <cstring>

#include "drivers/builtin.h"
#include "slots/slots.h"

namespace tb::contract {

using device::all_groups;
using device::Group;

const char *name_of(Outcome outcome) {
  switch (outcome) {
  case Outcome::passed:
    return "passed";
  case Outcome::failed:
    return "failed";
  case Outcome::not_offered:
    return "not offered";
  case Outcome::warned:
    return "warned";
  }
  return "";
}

std::string group_names(uint64_t groups) {
  std::string out;
  for (const Group &group : all_groups())
    if (groups & group.bit) out += (out.empty() ? "" : ", ") + std::string(group.name);
  return out;
}

// "devices=2,memory=256M".
static Options read_options(std::string_view text) {
  Options options;
  while (!text.empty()) {
    const std::string_view one = text.substr(0, text.find(','));
    const size_t equals = one.find('=');
    options.emplace(one.substr(0, equals), one.substr(equals + 1));
    text.remove_prefix(std::min(one.size() + 1, text.size()));
  }
  return options;
}

Options default_options(const std::string &name) {
  const drivers::BuiltinDriver *driver = drivers::find_builtin(name);
  if (!driver) return {};
  Options options = read_options(driver->contract_options);
  std::string option_variable = "TB_" + name + "_LIBRARY";
  for (char &letter : option_variable) letter = static_cast<char>(std::toupper(static_cast<unsigned char>(letter)));
  const char *library = driver->vendor_library ? std::getenv(option_variable.c_str()) : nullptr;
  if (library) options.emplace("library", library);
  return options;
}

tb_driver_open_fn open_function(const std::string &path) {
  void *library = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL); // never unloaded (rule T8)
  if (!library) throw Failed("cannot load " + path + ": " + dlerror());
  void *entry = dlsym(library, TB_DRIVER_ENTRY);
  if (!entry) throw Failed(path + " does not export " TB_DRIVER_ENTRY + ": see tb/driver.h for its declaration");
  tb_driver_open_fn open;
  std::memcpy(&open, &entry, sizeof open);
  return open;
}

// "contract/cases/mem.cpp:12": __FILE__ begins wherever the build stood.
static std::string place(const char *file, int line) {
  const std::string path = file;
  const size_t start = path.rfind("contract/");
  return (start == std::string::npos ? path : path.substr(start)) + ":" + std::to_string(line);
}

Result run_case(const Case &one, Kit &kit) {
  Result result;
  const uint64_t missing = one.groups & ~kit.api().groups;
  if (missing) {
    result.outcome = Outcome::not_offered;
    result.text = "no group " + group_names(missing);
    return result;
  }
  take_checks();
  kit.take_statements();
  kit.take_error();
  const int64_t blocks = kit.live_blocks();
  const double start = seconds_now();
  const Outcome failure = one.traits.warn ? Outcome::warned : Outcome::failed;
  try {
    one.run(kit);
    result.checks = take_checks();
    if (const int64_t left = kit.live_blocks() - blocks; left > 0) {
      result.text = "the case left " + std::to_string(left) + (left == 1 ? " block" : " blocks") +
                    " allocated: a call that should free was refused or left out";
      result.where = place(one.file, one.line);
    } else if (result.checks > 0) {
      result.outcome = Outcome::passed;
    } else {
      result.text = "the case checked nothing";
      result.where = place(one.file, one.line);
    }
  } catch (const Failed &failed) {
    result.outcome = failure;
    result.text = failed.what();
    if (*failed.file) result.where = place(failed.file, failed.line);
  } catch (const NotOffered &absent) {
    result.outcome = Outcome::not_offered;
    result.text = absent.what();
  } catch (const std::exception &error) {
    result.text = std::string("an exception: ") + error.what();
  } catch (...) {
    result.text = "an exception of an unknown type (rule E5)";
  }
  result.seconds = seconds_now() - start;
  result.statements = kit.take_statements();
  return result;
}

} // namespace tb::contract
