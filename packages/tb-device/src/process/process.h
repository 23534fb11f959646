// The process's default driver, each thread's current device, the table for other components, the end.
#pragma once

#include "registry/registry.h"
#include "tb/component.h"

namespace tb::device {

extern const tb_device_table device_table;

// Finds and opens the default driver, by default_driver(driver); TB_OK or a failure with its text set. Runs without
// Python's lock and may take it.
using Opener = tb_status (*)();
void set_opener(Opener opener);

// The default driver, or NULL before it is open. set_default_driver: once; false if there is one.
Driver *default_driver() noexcept;
bool set_default_driver(Driver *driver);

// Waits for all devices, runs the on_shutdown functions, last first, closes every driver and makes all tables refuse.
// A driver with live objects stays open, and all drivers do while a thread is still in a call; their tables refuse all the
// same, and TB_LOG=info shows it. Runs once.
void shut_down();

} // namespace tb::device
