// sim_cuda.h -- functions of the simulated libcuda for tests: counters, faults, hidden functions, live objects.
//
// The library exports them beside the API. It reads these variables when it is loaded:
//   TB_SIMCUDA_DEVICES=2           devices, 0 to 8
//   TB_SIMCUDA_MEMORY=134217728    bytes of memory of each device
//   TB_SIMCUDA_VERSION=12080       the version for cuDriverGetVersion and cuGetProcAddress
//   TB_SIMCUDA_HIDE=cuMemAllocAsync,cuMemMap   functions that cuGetProcAddress does not find
//   TB_SIMCUDA_INIT=999            the result of cuInit
//   TB_SIMCUDA_FAULT=cuMemAlloc_v2:3:2   the fourth call of the function fails with 2 (tb_simcuda_fault)
#ifndef TB_SIM_CUDA_H
#define TB_SIM_CUDA_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* The number of calls so far of one function ("cuMemAlloc_v2"), or of all for NULL. */
uint64_t tb_simcuda_calls(const char *function);
/* Makes the nth call from now on (from 0) of `function`, or of any for NULL, return `code`: once or, with `persistent`,
 * always from then on. A failing call does nothing else, except that functions that release something do their work
 * first, as a vendor's failing releases do. nth < 0 removes the fault. Functions that return error texts or look up
 * functions fail only if they are named. */
void tb_simcuda_fault(const char *function, int64_t nth, int code, int persistent);
/* How often the fault occurred, and in which function last; "" if never. */
uint64_t tb_simcuda_fired(const char **function);
/* The number of live objects (streams, events, memory, mappings, modules, graphs, contexts) and of those that were
 * alive when their context was destroyed. `text` gets them by kind. */
uint64_t tb_simcuda_live(char *text, uint64_t size);
/* Makes the context of a device fail, as a broken kernel does: every call returns `code` until the device is reset. */
void tb_simcuda_break(int device, int code);

#ifdef __cplusplus
}
#endif
#endif
