// sim_npu.h -- functions of the simulated libascendcl for tests: counters, faults, live objects, misuse.
//
// The library exports them beside the API. They also cover the simulated libopapi. aclInit reads these variables:
//   TB_SIMNPU_DEVICES=2          devices
//   TB_SIMNPU_MEMORY=268435456   bytes of memory of each device
//   TB_SIMNPU_STREAMS=1984       the most streams of a device
//   TB_SIMNPU_EVENTS=65536       the most events of the old kind (aclrtCreateEventWithFlag) of a device
//   TB_SIMNPU_NO_PEERS=1         no device can access another one
//   TB_SIMNPU_DELAY=50           microseconds that each task waits before it runs
//   TB_SIMNPU_LAG=300            microseconds that a stream stays busy after each task, also after a recorded event
//   TB_SIMNPU_FAULT=aclrtMalloc:3:207001   the fourth call of the function fails (tb_simnpu_fault)
// These are read at any time:
//   TB_SIMNPU_HIDE=aclrtMallocAlign32,aclrtMapMem   functions that dlsym does not find
//   TB_SIMNPU_STUB=1             acts as CANN's stub library for building programs: every call returns 100039
#ifndef TB_SIM_NPU_H
#define TB_SIM_NPU_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* The number of calls so far of one function ("aclrtMalloc"), or of all for NULL. */
uint64_t tb_simnpu_calls(const char *function);
/* Makes the nth call from now on (from 0) of `function`, or of any for NULL, return `code`: once or, with `persistent`,
 * always from then on. A failing call does nothing else, except that functions that release something do their work
 * first, as a vendor's failing releases do. nth < 0 removes the fault. */
void tb_simnpu_fault(const char *function, int64_t nth, int32_t code, int32_t persistent);
/* The same for the nth copy, fill or operator that a stream runs. Synchronising the stream reports the error. */
void tb_simnpu_fail_task(int64_t nth, int32_t code);
/* Runs `call` once, on the calling thread, after the next call of `function` has done its work and before it returns.
 * It does what another thread could do at this moment, and may call the library. */
void tb_simnpu_after(const char *function, void (*call)(void *user), void *user);
/* How often a fault has occurred since it was set, and in which function last; "" if never. */
uint64_t tb_simnpu_fired(const char **function);
/* The number of live objects: memory, pinned and registered memory, streams, events, physical memory, addresses,
 * device references, the initialised library, and operators' tensors, scalars, arrays, lists and executors. `text`
 * gets them by kind. */
uint64_t tb_simnpu_live(char *text, uint64_t size);
/* The first call so far that the real library forbids, such as a call from a host function; "" if there was none. */
const char *tb_simnpu_misuse(void);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
