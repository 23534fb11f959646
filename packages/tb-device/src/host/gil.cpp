// Whether this thread holds Python's lock, and giving it up before a wait.
#include "host/gil.h"

#include <dlfcn.h>

#include <cstring>
#include <initializer_list>

namespace tb::device {
namespace {

using CurrentState = PyThreadState *(*)();

// The thread state that runs now. Python's stable interface does not have the question, though every Python answers it:
// under a name of its own up to 3.12.
CurrentState find_current_state() {
  for (const char *name : {"PyThreadState_GetUnchecked", "_PyThreadState_UncheckedGet"})
    if (void *found = dlsym(RTLD_DEFAULT, name)) {
      CurrentState function;
      std::memcpy(&function, &found, sizeof function);
      return function;
    }
  return nullptr;
}

} // namespace

// Up to 3.11 the state that runs now may be another thread's, so it is compared with this thread's own.
bool is_lock_held() noexcept {
  static const CurrentState current_state = find_current_state();
  if (!current_state || !Py_IsInitialized()) return false;
  PyThreadState *mine = PyGILState_GetThisThreadState();
  return mine && mine == current_state();
}

void *before_wait() noexcept { return is_lock_held() ? Unlocked::give_up() : nullptr; }

void after_wait(void *given_up) noexcept {
  if (given_up) Unlocked::take_back(static_cast<PyThreadState *>(given_up));
}

} // namespace tb::device
