// The open drivers of the process. A Driver is never freed: late callers must find a table that refuses.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "slots/slots.h"
#include "tb/driver.h"

namespace tb::device {

struct Emulation; // emulation/emulation.h

struct Driver {
  std::string name;          // as the driver says
  std::string path;          // "" for the embedded one
  tb_driver *self = nullptr; // of the outermost layer when there are any
  tb_driver_api offered{};   // as the driver filled it, or as the layers around it look
  tb_driver_api in_use{};    // as `table` is from the first use on
  tb_driver_api untracked{}; // complete, but nothing notes which streams live
  tb_driver_api locked{};    // complete, but its functions wait with Python's lock held
  tb_driver_api table{};     // as handed out: complete, and refusing after close, fork and exit
  std::string build_id;
  tb_driver_info info{};
  std::vector<tb_device_info> devices;
  std::vector<std::string> layers;      // around it, outermost first
  std::shared_ptr<Emulation> emulation; // made with the table
  std::mutex closing;
  std::atomic<bool> open{false};
  std::atomic<bool> used{false}; // more than questions were asked (first_use.cpp)

  // As it is now: by a child that is forked. Layers keep state of their own.
  bool survives_fork() const {
    bool all = !used.load() && layers.empty();
    for (const tb_device_info &device : devices) all &= (device.flags & TB_DEVICE_SURVIVES_FORK) != 0;
    return all;
  }
  bool offers(uint64_t group) const { return (offered.groups & group) != 0; }
  int32_t device_count() const { return static_cast<int32_t>(devices.size()); }
};

inline constexpr int driver_limit = 64; // open at once; a fixed array keeps lookups and the fork handler free of locks

bool register_driver(Driver *driver); // false: the limit, or its self is another open driver's
void unregister_driver(Driver *driver);
// NULL if no open driver has this self. Costs a few loads.
Driver *find_driver(const tb_driver *self);
// The driver behind self in a function of a handed-out table: it is registered, since the tables of closed drivers
// refuse.
inline Driver &driver_of(tb_driver *self) { return *find_driver(self); }
// The n-th place, NULL if free.
Driver *driver_at(int place);

// TB_OUT_OF_RANGE with a text unless the driver has the device.
tb_status check_device(const Driver &driver, int32_t device, Slot slot);

// Overwrites every function of the handed-out table by one that fails with TB_FAILED_PRECONDITION and says why.
void refuse_everything(Driver &driver);

enum class Ended { no, forked, exiting };
extern std::atomic<Ended> ended; // why nothing may be called any more, for the whole process
extern int32_t forked;           // tb_device_table.forked points here
const char *refusal_text();

// Registers the fork handler once.
void watch_fork();

} // namespace tb::device
