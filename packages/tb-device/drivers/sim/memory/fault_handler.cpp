// The handler of SIGSEGV for isolated device memory.
//
// It runs after a thread has touched memory that it must not touch: the process is about to end, unless an earlier
// handler deals with such faults. So it takes locks only by trying, and allocates nothing.
#include "drivers/sim/memory/fault_handler.h"

#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdio>
#include <mutex>

#include "drivers/sim/memory/device_memory.h"

namespace tb::drivers::sim {

namespace {

constexpr size_t most_entries = 64; // drivers open at once that get a text; further ones get only the fault
std::atomic<Memory *> observed[most_entries];
std::mutex install_mutex;
int observed_count = 0;
bool installed = false; // also while a later handler, which calls ours, is installed over it
struct sigaction before;

void hand_on(int signal, siginfo_t *info, void *context) {
  if (before.sa_flags & SA_SIGINFO) {
    before.sa_sigaction(signal, info, context);
  } else if (before.sa_handler == SIG_DFL || before.sa_handler == SIG_IGN) {
    // Returning repeats the access, which then ends the process as if there were no handler.
    struct sigaction plain = {};
    plain.sa_handler = SIG_DFL;
    sigaction(signal, &plain, nullptr);
  } else {
    before.sa_handler(signal);
  }
}

void on_fault(int signal, siginfo_t *info, void *context) {
  const uintptr_t address = reinterpret_cast<uintptr_t>(info->si_addr);
  char what[192], text[512];
  for (auto &place : observed) {
    Memory *memory = place.load();
    if (!memory || !memory->describe(address, what, sizeof what)) continue;
    const int length =
        std::snprintf(text, sizeof text,
                      "sim: the host touched device memory: address %p, %s.\n"
                      "sim: the host cannot read or write device memory. Copy it to host memory first (mem_copy, "
                      "tensor.cpu()), or open the driver with isolated=0.\n",
                      info->si_addr, what);
    // The process is ending, so a closed stderr cannot be reported.
    [[maybe_unused]] const ssize_t written = write(STDERR_FILENO, text, static_cast<size_t>(length));
    break;
  }
  hand_on(signal, info, context);
}

} // namespace

void watch_faults(Memory *memory) {
  std::lock_guard lock(install_mutex);
  for (auto &place : observed) {
    if (place.load()) continue;
    place.store(memory);
    ++observed_count;
    if (!installed) {
      installed = true;
      struct sigaction action = {};
      action.sa_sigaction = on_fault;
      action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_NODEFER; // the handler before us may want to see a fault in ours
      sigemptyset(&action.sa_mask);
      sigaction(SIGSEGV, &action, &before);
    }
    return;
  }
}

void unwatch_faults(Memory *memory) noexcept {
  std::lock_guard lock(install_mutex);
  for (auto &place : observed) {
    if (place.load() != memory) continue;
    place.store(nullptr);
    if (--observed_count) return;
    struct sigaction now = {};
    if (sigaction(SIGSEGV, nullptr, &now) == 0 && (now.sa_flags & SA_SIGINFO) && now.sa_sigaction == on_fault)
      installed = sigaction(SIGSEGV, &before, nullptr) != 0;
    return;
  }
}

} // namespace tb::drivers::sim
