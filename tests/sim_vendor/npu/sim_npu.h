// sim_npu.h -- the simulated libascendcl's own functions, for tests: counters, faults, what is alive, misuse.
//
// Exported beside the API's; they answer for the functions and objects of the simulated libopapi too. By environment, read at aclInit:
//   TB_SIMNPU_DEVICES=2          devices
//   TB_SIMNPU_MEMORY=268435456   bytes of each device
//   TB_SIMNPU_STREAMS=1984       most streams of a device
//   TB_SIMNPU_EVENTS=65536       most events of the old kind (aclrtCreateEventWithFlag) of a device
//   TB_SIMNPU_NO_PEERS=1         no device reaches another
//   TB_SIMNPU_DELAY=50           microseconds that each task waits before it runs
//   TB_SIMNPU_LAG=300            microseconds that a stream is busy after each task, whose event has passed already
//   TB_SIMNPU_FAULT=aclrtMalloc:3:207001   the fourth call of it fails (tb_simnpu_fault)
// and at any time:
//   TB_SIMNPU_HIDE=aclrtMallocAlign32,aclrtMapMem   functions that dlsym does not find
//   TB_SIMNPU_STUB=1             CANN's library for building without a runtime: every call gives 100039
#ifndef TB_SIM_NPU_H
#define TB_SIM_NPU_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

/* Calls so far: of one function ("aclrtMalloc"), or of all for NULL. */
uint64_t tb_simnpu_calls(const char *function);
/* From now on, the nth call (from 0) of `function`, or of any for NULL, returns `code`, once or, with `persistent`, from
 * then on. It does nothing else, but functions that take something back do their work first, as a vendor's failing
 * releases do. nth < 0 takes the fault away. */
void tb_simnpu_fault(const char *function, int64_t nth, int32_t code, int32_t persistent);
/* The same for the nth copy, fill or operator that a stream runs: reported when the stream is synchronised. */
void tb_simnpu_fail_task(int64_t nth, int32_t code);
/* Once, on the calling thread: `call` runs when the next call of `function` has done its work, and before it returns. What
 * it does is what another thread might have done in that moment; it may call the library. */
void tb_simnpu_after(const char *function, void (*call)(void *user), void *user);
/* How often a fault came since it was asked for, and where last; "" if never. */
uint64_t tb_simnpu_fired(const char **function);
/* Objects alive: memory, pinned, registered, streams, events, physicals, addresses, device references, and whether the
 * library is initialised; of operators: tensors, scalars, arrays, lists, executors. `text` gets them by kind. */
uint64_t tb_simnpu_live(char *text, uint64_t size);
/* The first call that the real library forbids, such as one out of a host function; "" if there was none. */
const char *tb_simnpu_misuse(void);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif
#endif
