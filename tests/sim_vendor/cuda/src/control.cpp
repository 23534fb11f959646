// control.cpp -- counters and faults of all functions, and what the environment asks for.
#include <cstdlib>
#include <cstring>
#include <map>

#include "entry.h"
#include "sim_cuda.h"
#include "world.h"

namespace simcuda {
namespace {

struct Fault {
  std::string function;
  int64_t left = -1;
  CUresult code = CUDA_SUCCESS;
  bool persistent = false;
};

struct Control {
  std::mutex mutex;
  std::map<std::string, Function *> functions;
  Fault fault;
  uint64_t fired = 0;
  std::string fired_at;
  std::atomic<bool> initialised{false}, armed{false};
};

Control &control() {
  static Control &one = *new Control;
  return one;
}

bool takes_back(const std::string &name) {
  for (const char *part : {"Free", "Destroy", "Release", "Unmap", "Unload", "Close", "Unregister"})
    if (name.find(part) != std::string::npos) return true;
  return false;
}

bool by_name_only(const char *name) {
  return !std::strncmp(name, "cuGetError", 10) || !std::strncmp(name, "cuGetProcAddress", 16);
}

void arm(const char *function, int64_t nth, int code, bool persistent) {
  Control &all = control();
  std::lock_guard lock(all.mutex);
  all.fault = {function ? function : "", nth, code, persistent};
  all.fired = 0;
  all.fired_at.clear();
  all.armed = nth >= 0;
}

} // namespace

thread_local bool in_callback = false;

Function::Function(const char *name) : name(name), takes_back(simcuda::takes_back(name)) {
  std::lock_guard lock(control().mutex);
  control().functions.emplace(name, this);
}

bool initialised() { return control().initialised; }
void initialise() { control().initialised = true; }

CUresult enter(Function &function) {
  ++function.calls;
  Control &all = control();
  if (in_callback) return CUDA_ERROR_NOT_PERMITTED;
  if (!all.armed) return CUDA_SUCCESS;
  std::lock_guard lock(all.mutex);
  Fault &fault = all.fault;
  if (fault.left < 0 || (fault.function.empty() ? by_name_only(function.name) : fault.function != function.name))
    return CUDA_SUCCESS;
  if (fault.left > 0) {
    --fault.left;
    return CUDA_SUCCESS;
  }
  if (!fault.persistent) fault.left = -1;
  ++all.fired;
  all.fired_at = function.name;
  return fault.code;
}

const char *setting(const char *name) {
  const char *value = std::getenv(name);
  return value && *value ? value : nullptr;
}

uint64_t setting(const char *name, uint64_t otherwise) {
  const char *value = setting(name);
  return value ? std::strtoull(value, nullptr, 10) : otherwise;
}

void arm_by_environment() {
  const char *text = setting("TB_SIMCUDA_FAULT");
  if (!text) return;
  const std::string words = text;
  const size_t first = words.find(':'), second = words.find(':', first + 1);
  if (second == std::string::npos) return;
  arm(words.substr(0, first).c_str(), std::atoll(words.c_str() + first + 1), std::atoi(words.c_str() + second + 1),
      false);
}

} // namespace simcuda

using namespace simcuda;

extern "C" uint64_t tb_simcuda_calls(const char *function) {
  std::lock_guard lock(control().mutex);
  uint64_t sum = 0;
  for (const auto &[name, one] : control().functions)
    if (!function || name == function) sum += one->calls;
  return sum;
}

extern "C" void tb_simcuda_fault(const char *function, int64_t nth, int code, int persistent) {
  arm(function, nth, code, persistent != 0);
}

extern "C" uint64_t tb_simcuda_fired(const char **function) {
  std::lock_guard lock(control().mutex);
  if (function) *function = control().fired_at.c_str();
  return control().fired;
}
