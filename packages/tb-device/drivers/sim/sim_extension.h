/* sim_extension.h -- the extension "tb.sim": what the sim driver's scheduler did, and what it found.
 *
 * get_extension("tb.sim", TB_SIM_VERSION, &table, sizeof table). Every function takes the driver's `self` first.
 */
#pragma once

#include "tb/driver.h"

#define TB_SIM_VERSION 1

#ifdef __cplusplus
extern "C" {
#endif

typedef struct tb_sim_api {
  uint32_t struct_size;
  uint32_t version;
  /* The seed that chooses. */
  tb_status (*seed)(tb_driver *self, uint64_t *out);
  /* The order so far, to be given as option "schedule". Writes at most `capacity` bytes with the ending zero; the whole
   * takes *out_size bytes with the zero. A text cut short is not written: TB_OUT_OF_RANGE. `out` may be NULL. */
  tb_status (*schedule)(tb_driver *self, char *out, uint64_t capacity, uint64_t *out_size);
  /* Bugs of the program that were seen: use after free, damaged red zones, a schedule that does not fit. The first
   * 100 are kept. */
  tb_status (*problem_count)(tb_driver *self, uint64_t *out);
  /* As `schedule`. No such problem: TB_OUT_OF_RANGE. */
  tb_status (*problem)(tb_driver *self, uint64_t number, char *out, uint64_t capacity, uint64_t *out_size);
} tb_sim_api;

#ifdef __cplusplus
}
#endif
