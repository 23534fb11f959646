/* tb/races.h -- the extension "tb.races" of the layer `races`: components tell it which memory queued work uses.
 *
 * The layer sees by itself what orders streams and the host: events, waits, copies, graphs. It cannot see what closures and
 * kernels do with pointers, nor which operator of PyTorch a call belongs to. get_extension gives this table if the driver was
 * opened with TB_LAYERS=races, and TB_NOT_FOUND otherwise. All functions are thread-safe, need no GIL, wait for nothing, and
 * never fail: without memory for a record, the layer forgets it and reports less.
 */
#ifndef TB_RACES_H
#define TB_RACES_H

#include "tb/driver.h"

#ifdef __cplusplus
extern "C" {
#endif

#define TB_RACES_EXTENSION "tb.races"
#define TB_RACES_VERSION 1

enum { TB_RACES_WRITES = 1, TB_RACES_ON_HOST = 2 };

/* A tensor's memory: every element of `item_size` bytes at address + item_size * sum(index * strides). */
typedef struct tb_races_memory {
  const void *address;
  const int64_t *sizes, *strides; /* in elements; strides are not negative */
  uint32_t dimensions;
  uint32_t item_size;
  uint32_t flags; /* TB_RACES_WRITES; TB_RACES_ON_HOST: host memory, which counts only where it is pinned */
  uint32_t reserved;
  const char *name; /* static: what the memory is to the work, such as "self" */
} tb_races_memory;

/* The bracket around an operator on a thread. */
typedef struct tb_races_scope {
  tb_stream *stream;
  int32_t promises_wait;
  uint32_t active;
} tb_races_scope;

typedef struct tb_races_api {
  uint32_t struct_size;
  uint32_t reserved;
  void *layer; /* the first argument of all functions */
  /* From now on `place` says where the calling thread is: it writes pairs (code, instruction), innermost frame first, and
   * returns how many. It takes no lock. */
  void (*set_place)(void *layer, uint32_t (*place)(uintptr_t *frames, uint32_t pairs));
  /* An operator begins on this thread, whose work goes to `stream` (NULL: to none). While it runs, the layer takes its
   * copies from `use` alone; and a wait for `stream` orders nothing unless the operator promises one, since others wait
   * only now and then, such as at their first call. Returns the bracket around, for leave. */
  tb_races_scope (*enter)(void *layer, tb_stream *stream, int32_t promises_wait);
  void (*leave)(void *layer, tb_races_scope around);
  /* The number of work that is queued on `stream` after this call; 0: this thread's work is not reported. */
  uint64_t (*work)(void *layer, tb_stream *stream);
  /* Work with that number uses this memory. work: its name, static. stream NULL: the host does it now; number has no
   * meaning. */
  void (*use)(void *layer, tb_stream *stream, uint64_t number, const char *work, const tb_races_memory *memory,
              uint32_t count);
  /* Memory begins a new life: an allocator gives it out. */
  void (*allocated)(void *layer, const void *address, uint64_t size);
  /* For an order that the driver does not see. `mark` is any address, and names what `stream` has been given until now;
   * `stream` may be any address too, of a queue that is not the driver's. follow: what `stream` (NULL: the host) is given
   * from now on comes after it. forget: the address names nothing any more. */
  void (*mark)(void *layer, const void *mark, const void *stream);
  void (*follow)(void *layer, const void *stream, const void *mark);
  void (*forget)(void *layer, const void *mark);
  /* How many different races were found so far. */
  uint64_t (*found)(void *layer);
} tb_races_api;

#ifdef __cplusplus
}
#endif
#endif
