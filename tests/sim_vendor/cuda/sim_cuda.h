// sim_cuda.h -- the simulated libcuda's own functions, for tests: counters, faults, hidden functions, what is alive.
//
// Exported beside the API's. The same by environment, read when the library is loaded:
//   TB_SIMCUDA_DEVICES=2           devices, 0 to 8
//   TB_SIMCUDA_MEMORY=134217728    bytes of each device
//   TB_SIMCUDA_VERSION=12080       what cuDriverGetVersion says, and cuGetProcAddress goes by
//   TB_SIMCUDA_HIDE=cuMemAllocAsync,cuMemMap   functions that cuGetProcAddress does not have
//   TB_SIMCUDA_INIT=999            what cuInit returns
//   TB_SIMCUDA_FAULT=cuMemAlloc_v2:3:2   the fourth call of it fails with 2 (tb_simcuda_fault)
#ifndef TB_SIM_CUDA_H
#define TB_SIM_CUDA_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* Calls so far: of one function ("cuMemAlloc_v2"), or of all for NULL. */
uint64_t tb_simcuda_calls(const char *function);
/* From now on, the nth call (from 0) of `function`, or of any for NULL, returns `code`, once or, with `persistent`, from
 * then on. It does nothing else, but functions that take something back do their work first, as a vendor's failing
 * releases do. nth < 0 takes the fault away. The texts of errors and the look-up of functions fail by name only. */
void tb_simcuda_fault(const char *function, int64_t nth, int code, int persistent);
/* How often the fault came, and where last; "" if never. */
uint64_t tb_simcuda_fired(const char **function);
/* Objects alive: streams, events, memory, mappings, modules, graphs, contexts; and those that were alive when their
 * context was destroyed. `text` gets them by kind. */
uint64_t tb_simcuda_live(char *text, uint64_t size);
/* The context of a device fails as after a broken kernel: every call gives `code` until it is reset. */
void tb_simcuda_break(int device, int code);

#ifdef __cplusplus
}
#endif
#endif
