// Entry of the sim driver, which simulates a device that finds bugs: late, isolated, and as hostile as the ABI allows.
//
// The contract is tb_driver_open_v1's (tb/driver.h). It may be opened several times; each self is independent and has a
// scheduler thread and a clock thread. Never chosen automatically. docs/sim.md says how to use it.
//
// It differs from a real device in one rule: to say which host access to device memory was wrong, it installs a handler
// of SIGSEGV that writes to stderr and then calls the handler before it (rule E5 forbids both to drivers that are not
// made for testing). Option fault_text=0 leaves the handler out.
//
// Options (tb_host.option). Sizes take K, M, G or KiB, MiB, GiB, powers of 1024.
//   devices     1 to 8; default: the processes that torchrun started on this machine, else 2
//   capacity    bytes of each device's memory, 64 KiB to 256 GiB; default 256 MiB. Every byte is poisoned, so is paid for
//   latency     microseconds that each operation takes; default 0
//   bandwidth   bytes per second of copies and sets; default 0, which is no limit
//   seed        chooses the order in which streams run; default 1. Seeds divisible by 4 run nothing before it is needed
//   schedule    the order of an earlier run, as its failure or log says, to be replayed exactly
//   architecture  what the devices call theirs; default: the processor's
//   isolated    1: the host cannot touch device memory (the default); 0: it can, and TB_DEVICE_HOST_ACCESSIBLE is set
//   fault_text  1: say on stderr which device memory the host touched (the default); 0: no signal handler
//   lose_after  the device is lost at the Nth operation that runs; default 0, which is never
//   idle        milliseconds without a call after which everything queued runs; default 50. Only this depends on time: a
//               program that pauses for longer gets the same order at each run with a larger number
//   max_argument_size  bytes of one launch's arguments; default 0, which is no limit
//   lacks       facts of tb_device_info, with a comma between them: float64, atomic64, float_atomics, fma; default none
//   vector_size  tb_device_info.vector_size; default 0
//   named_pointers  1: a launch must say where its arguments hold device addresses (tb_launch_arguments), as devices
//               demand that must know what a kernel reaches; 0: it need not (the default)
#pragma once

#include "tb/driver.h"

#ifdef __cplusplus
extern "C" {
#endif

tb_status tb_sim_driver_open_v1(const tb_host *host, tb_driver_api *api, tb_driver **self);

#ifdef __cplusplus
}
#endif
