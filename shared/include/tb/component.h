/* tb/component.h -- how the component libraries meet: function tables in capsules, never linking.
 *
 * A component's extension module has an attribute `_tb_export`, a capsule named "tb.export.v1" around a tb_export. The
 * consumer copies the table it was compiled with out of it, after the checks of tb_export_read, and from then on calls
 * through its own copy. tb/component_python.h does the import and raises ImportError.
 * A consumer states the minor version it needs, not the one it was built with.
 */
#ifndef TB_COMPONENT_H
#define TB_COMPONENT_H

#include <stdio.h>

#include "tb/driver.h"

#define TB_EXPORT_CAPSULE "tb.export.v1"
#define TB_EXPORT_ATTRIBUTE "_tb_export"

#ifdef __cplusplus
extern "C" {
#endif

/* This record's layout never changes. */
typedef struct tb_export {
  char magic[8]; /* "tbexport" */
  uint16_t major, minor;
  uint32_t table_size;
  const char *component; /* "tb-device" */
  const char *version;   /* of the package */
  const char *platform;  /* "linux-x86_64" */
  const void *table;     /* starts with uint32_t struct_size */
} tb_export;

/* Copies an exported table into the consumer's zeroed one. Returns 1, or 0 with a text for the user in `error`. */
static inline int tb_export_read(const tb_export *record, const char *consumer, const char *component, uint16_t major,
                                 uint16_t minor, void *table, uint32_t table_size, char *error, size_t error_size) {
  if (memcmp(record->magic, "tbexport", 8) != 0) {
    snprintf(error, error_size, "%s found something else where %s keeps its function table. Reinstall both.", consumer,
             component);
    return 0;
  }
  if (strcmp(record->component, component) != 0) { /* another component's table: its functions are other functions */
    snprintf(error, error_size,
             "%s found the function table of %s where %s keeps its own. Another package stands in its place: "
             "pip install --force-reinstall %s",
             consumer, record->component, component, component);
    return 0;
  }
  if (record->major != major) {
    snprintf(error, error_size,
             "%s was built for %s C API %u.x, but the installed %s %s speaks %u.%u. Install matching versions: "
             "pip install -U %s %s",
             consumer, component, major, component, record->version, record->major, record->minor, consumer, component);
    return 0;
  }
  if (record->minor < minor) {
    snprintf(error, error_size,
             "%s needs %s C API %u.%u or newer, but the installed %s %s offers %u.%u. Upgrade it: pip install -U %s",
             consumer, component, major, minor, component, record->version, record->major, record->minor, component);
    return 0;
  }
  memset(table, 0, table_size);
  memcpy(table, record->table, record->table_size < table_size ? record->table_size : table_size);
  return 1;
}

static inline uint64_t tb_hash_text(uint64_t hash, const char *text) {
  while (*text) hash = (hash ^ (unsigned char)*text++) * 1099511628211u;
  return hash;
}

/* A number of the slot list that the caller was compiled with (FNV-1a, 64 bits): groups, needs, names, parameters, order.
 * Components built from different headers differ here; tb-device doctor shows it. */
static inline uint64_t tb_slots_hash(void) {
  uint64_t hash = 14695981039346656037u;
#define TB_SLOT(group, need, name, parameters, arguments)                                                              \
  hash = tb_hash_text(hash, #group " " #need " " #name " " #parameters "\n");
#define TB_SLOT0(group, need, name) hash = tb_hash_text(hash, #group " " #need " " #name " ()\n");
#include "tb/driver_slots.inc"
#undef TB_SLOT
#undef TB_SLOT0
  return hash;
}

/* The last failure of this thread, as tb-device keeps it. */
typedef struct tb_error {
  uint32_t struct_size;
  tb_status status;
  int64_t native_code;
  int32_t device; /* -1: none */
  char driver[32];
  char function[48]; /* the slot, or the component's own function */
  char text[1024];
} tb_error;

/* ---- tb-device, C API 1.2 ------------------------------------------------------------------------------------- */

#define TB_DEVICE_API_MAJOR 1
#define TB_DEVICE_API_MINOR 2

typedef struct tb_device_table {
  uint32_t struct_size;
  /* The process's driver: opened at the first call (argument, TB_DRIVER, entry points, bundled), then the same for
   * ever. Its table is complete: absent functions are the host's stand-ins, while `groups` says what the driver offers.
   * May take Python's lock on the first call. In a forked child every function of the table is replaced by one that
   * fails with TB_FAILED_PRECONDITION, unless the driver was asked no more than questions and survives that. */
  tb_status (*driver)(const tb_driver_api **out_api, tb_driver **out_self);
  /* 1 once a driver is open. */
  int32_t (*is_open)(void);
  tb_status (*device_count)(int32_t *out);
  /* This thread's current device: 0 until set. set checks the range. */
  int32_t (*current_device)(void);
  tb_status (*set_current_device)(int32_t device);
  tb_status (*device_info)(int32_t device, tb_device_info *out); /* remembered: costs no driver call after the first */
  /* Error text of this thread: set by drivers and components, taken once. take returns 0 when there is none. */
  void (*set_error)(tb_status status, int64_t native_code, int32_t device, const char *function, const char *text);
  int32_t (*take_error)(tb_error *out);
  /* The whole text that a user should read for `status` returned by `function`; takes the error. */
  void (*describe_error)(tb_status status, const char *function, int32_t device, char *out, uint64_t out_size);
  /* `function(user)` runs once, before the driver is closed at exit, last registered first. */
  tb_status (*on_shutdown)(void (*function)(void *user), void *user);
  /* Points at 0; at 1 in a forked child of a process that had used a driver, or opened one that does not survive it. Set
   * before fork handlers that are registered after tb-device was imported. */
  const int32_t *forked;
  /* Since 1.1. explain(text, size) sees every text as it is taken and may complete it in place, for example with what a
   * queued closure could only note. It runs on the taking thread and may take Python's lock; it must not throw. One for
   * the process; NULL: none. */
  void (*set_explainer)(void (*explain)(char *text, uint64_t size));
  /* ---- since 1.2 ---- */
  /* Before this thread may wait for others: gives Python's lock up if the thread holds it, and returns what
   * after_wait takes back; NULL: it did not. The driver's table does so by itself; this is for a component's own lock
   * under which somebody may wait for the device. */
  void *(*before_wait)(void);
  void (*after_wait)(void *given_up);
  /* 1 if the driver's table gave this stream and it was not destroyed: for addresses that come from Python. */
  int32_t (*is_stream)(const tb_stream *stream);
  /* For whoever has waited for a device, with success and before going back to Python: tells Python what queued work had
   * to say beside failures, such as warnings. 0: nothing is left to do. 1: a Python exception is set on this thread, and is
   * to be raised. Takes Python's lock where there is something to tell; a thread that runs no Python code tells nothing,
   * and what there is stays for the next that waits. */
  int32_t (*tell)(void);
  /* What tell calls; it must not throw. One for the process; NULL: none. */
  void (*set_teller)(int32_t (*tell)(void));
} tb_device_table;

/* ---- tb-stream, C API 1.1 ------------------------------------------------------------------------------------- */

#define TB_STREAM_API_MAJOR 1
#define TB_STREAM_API_MINOR 1

/* Work of a stream, captured once to be launched many times (the extension tb.graph), with what components add to it. */
typedef struct tb_capture tb_capture;

/* A component's part in every capture: memory that stays its own, numbers that change with each launch. All functions
 * run on the thread whose call they belong to, with no lock held. */
typedef struct tb_capture_part {
  uint32_t struct_size;
  uint32_t reserved;
  const char *component; /* "tb-allocator" */
  /* Work of `stream` is captured next. Captures with one `pool` share their memory. *out_part goes to the other three. */
  tb_status (*begin)(int32_t device, tb_stream *stream, uint64_t pool, void **out_part);
  /* No more work comes. */
  void (*end)(void *part);
  /* A launch on `stream` comes next: what this queues there runs before it. */
  tb_status (*launch)(void *part, tb_stream *stream);
  /* Nobody launches it again; launches may be queued or running still. Also after a begin that another part failed. */
  void (*destroy)(void *part);
} tb_capture_part;

typedef struct tb_stream_table {
  uint32_t struct_size;
  /* This thread's current stream of a device: the device's default stream until set. Never fails for a device in
   * range once the driver is open; NULL otherwise, with the error set. */
  tb_stream *(*current)(int32_t device);
  tb_status (*set_current)(int32_t device, tb_stream *stream);
  tb_stream *(*default_stream)(int32_t device);
  /* Streams of the pool, made when first needed, never destroyed, handed out in turn (32 a priority and device). */
  tb_status (*from_pool)(int32_t device, int32_t priority, tb_stream **out);
  tb_status (*device_of)(tb_stream *stream, int32_t *out_device);
  tb_status (*priority_of)(tb_stream *stream, int32_t *out_priority);
  /* Pooled events: flags TB_EVENT_*; a released event goes back to the pool, also while pending. */
  tb_status (*event_acquire)(int32_t device, uint64_t flags, tb_event **out);
  tb_status (*event_release)(tb_event *event);
  /* ---- since 1.1 ---- */
  /* Points at the number of captures in progress in the process. While it is 0 there is nothing else to ask. */
  const int32_t *capturing;
  /* `part`, a static, takes part in every capture that begins from now on. */
  tb_status (*add_capture_part)(const tb_capture_part *part);
  /* What `part` gave for the capture that the stream takes part in, also by joining; NULL: in none. With a NULL part
   * the tb_capture itself, which stays the property of who began it. */
  tb_status (*capture_part)(tb_stream *stream, const tb_capture_part *part, void **out_part);
  /* A number for a pool of memory that several captures shall share. */
  uint64_t (*new_capture_pool)(void);
  /* pool 0: one of its own. The capture is freed by capture_destroy. */
  tb_status (*capture_begin)(int32_t device, tb_stream *stream, uint64_t pool, tb_capture **out);
  /* A failure leaves the capture in progress, or drops it where the driver did; capture_destroy ends both. */
  tb_status (*capture_end)(tb_capture *capture);
  tb_status (*capture_instantiate)(tb_capture *capture); /* makes ready to launch; the first launch does it otherwise */
  /* Launches of one capture run one after another, also those on several streams. */
  tb_status (*capture_launch)(tb_capture *capture, tb_stream *stream);
  /* `capture` launches the work of `other`, of the same shape, from now on. */
  tb_status (*capture_update)(tb_capture *capture, tb_capture *other);
  uint64_t (*capture_pool)(const tb_capture *capture);
  tb_status (*capture_node_count)(const tb_capture *capture, uint64_t *out);
  /* Queued launches still complete. A capture in progress is dropped. NULL is a no-op. */
  void (*capture_destroy)(tb_capture *capture);
} tb_stream_table;

/* ---- tb-allocator, C API 1.1 ---------------------------------------------------------------------------------- */

#define TB_ALLOCATOR_API_MAJOR 1
#define TB_ALLOCATOR_API_MINOR 1

typedef struct tb_block tb_block;
typedef struct tb_arena tb_arena; /* memory of one device apart from all other */

enum {
  /* For graphs: what was handed out once keeps its address and its memory until the arena is destroyed. No events are
   * recorded, so it may serve a capture; a block that other streams were recorded on is not reused. */
  TB_ARENA_FIXED = 1,
  TB_ARENA_CONTIGUOUS = 2 /* plain memory of the driver, for IPC and for libraries that register memory */
};

/* One count as PyTorch's memory statistics have it. */
typedef struct tb_statistic {
  int64_t current, peak, allocated, freed;
} tb_statistic;

/* [0] all, [1] small pool, [2] large pool; sizes in bytes. */
typedef struct tb_allocator_statistics {
  uint32_t struct_size;
  uint32_t reserved;
  tb_statistic allocation[3], segment[3], active[3], inactive_split[3];
  tb_statistic allocated_bytes[3], reserved_bytes[3], active_bytes[3], inactive_split_bytes[3], requested_bytes[3];
  int64_t num_alloc_retries, num_ooms, num_device_alloc, num_device_free, num_sync_all_streams;
  int64_t max_split_size;
} tb_allocator_statistics;

typedef struct tb_allocator_table {
  uint32_t struct_size;
  /* Memory for work on `stream`. The pointer is aligned to the device's alignment, at least 64; size 0 gives NULL and
   * a NULL block. Out of memory: TB_OUT_OF_MEMORY with the figures in the error text. */
  tb_status (*allocate)(int32_t device, uint64_t size, tb_stream *stream, void **out_pointer, tb_block **out_block);
  /* Free for reuse in stream order at once, on other recorded streams when they have passed. Never fails or throws. */
  void (*deallocate)(tb_block *block);
  /* `stream` uses the block too: it is not reused before the work queued there at deallocate is done. */
  tb_status (*record_stream)(tb_block *block, tb_stream *stream);
  /* The live block that holds an address; NULL if there is none. */
  tb_block *(*find)(const void *pointer);
  /* Gives cached memory back to the driver; device -1: all. */
  tb_status (*empty_cache)(int32_t device);
  tb_status (*statistics)(int32_t device, tb_allocator_statistics *out);
  tb_status (*reset_peak)(int32_t device);
  tb_status (*reset_accumulated)(int32_t device);
  tb_status (*memory_info)(int32_t device, uint64_t *out_free, uint64_t *out_total);
  tb_status (*set_limit)(int32_t device, uint64_t bytes); /* of reserved memory; UINT64_MAX: none */
  /* Pinned host memory, cached, for copies that do not block. */
  tb_status (*host_allocate)(uint64_t size, void **out_pointer, tb_block **out_block);
  void (*host_deallocate)(tb_block *block);
  tb_status (*host_record_stream)(tb_block *block, tb_stream *stream);
  tb_block *(*host_find)(const void *pointer); /* also for interior pointers; NULL: not pinned by us */
  tb_status (*host_empty_cache)(void);
  tb_status (*host_statistics)(tb_allocator_statistics *out);
  /* Since 1.1. limit: bytes, UINT64_MAX: none; flags: TB_ARENA_*. */
  tb_status (*arena_create)(int32_t device, uint64_t limit, uint64_t flags, tb_arena **out);
  /* Gives its memory back; blocks that live stay readable, and their memory follows when they are gone. No graph may
   * use it any more and no thread may be in it. */
  void (*arena_destroy)(tb_arena *arena);
  /* From now on `allocate` for the arena's device takes from it, on this thread; NULL: from the device's own memory.
   * Returns what held before, to be entered again at the end. */
  tb_arena *(*arena_enter)(tb_arena *arena);
  tb_status (*arena_allocate)(tb_arena *arena, uint64_t size, tb_stream *stream, void **out_pointer,
                              tb_block **out_block);
  tb_status (*arena_statistics)(tb_arena *arena, tb_allocator_statistics *out);
} tb_allocator_table;

/* ---- tb-generator, C API 1.1 ---------------------------------------------------------------------------------- */

#define TB_GENERATOR_API_MAJOR 1
#define TB_GENERATOR_API_MINOR 1

typedef struct tb_generator tb_generator;

enum {
  TB_FLOAT32 = 1,
  TB_FLOAT64 = 2,
  TB_FLOAT16 = 3,
  TB_BFLOAT16 = 4,
  TB_INT64 = 5,
  TB_INT32 = 6,
  TB_INT16 = 7,
  TB_INT8 = 8,
  TB_UINT8 = 9,
  TB_BOOL = 10
};
enum {
  TB_FILL_UNIFORM = 1,
  TB_FILL_NORMAL = 2,
  TB_FILL_INTEGERS = 3,
  TB_FILL_BERNOULLI = 4,
  TB_FILL_EXPONENTIAL = 5,
  /* Since 1.1. */
  TB_FILL_CAUCHY = 6,
  TB_FILL_LOG_NORMAL = 7,
  TB_FILL_GEOMETRIC = 8,
  TB_FILL_TRUNCATED_NORMAL = 9
};

typedef struct tb_generator_table {
  uint32_t struct_size;
  /* The device's own generator, made when first asked for. */
  tb_status (*default_generator)(int32_t device, tb_generator **out);
  tb_status (*create)(uint64_t seed, tb_generator **out);
  void (*destroy)(tb_generator *generator);
  void (*get_state)(tb_generator *generator, uint64_t *out_seed, uint64_t *out_offset);
  void (*set_state)(tb_generator *generator, uint64_t seed, uint64_t offset);
  /* Takes `words` 32-bit words of the sequence, as many as words_needed says for the fill to come: returns the seed
   * and the offset where they start, and moves the offset on by ceil(words / 4) counters of 4 words. Atomic: fills
   * that reserve first never overlap. */
  void (*reserve)(tb_generator *generator, uint64_t words, uint64_t *out_seed, uint64_t *out_offset);
  /* Fills host memory with `count` contiguous elements of type TB_*. Element i depends on seed, offset and i alone:
   * never on threads or on how a range is cut, `first` being the index of the first element. Runs on the caller.
   * uniform: from <= x < to. normal: mean, std. integers: from <= x < to, unbiased. bernoulli: 1 with probability p.
   * exponential: rate > 0. */
  tb_status (*uniform)(void *dst, int32_t type, uint64_t first, uint64_t count, uint64_t seed, uint64_t offset,
                       double from, double to);
  tb_status (*normal)(void *dst, int32_t type, uint64_t first, uint64_t count, uint64_t seed, uint64_t offset,
                      double mean, double std);
  tb_status (*integers)(void *dst, int32_t type, uint64_t first, uint64_t count, uint64_t seed, uint64_t offset,
                        int64_t from, uint64_t range); /* range 0: all 64 bits */
  tb_status (*bernoulli)(void *dst, int32_t type, uint64_t first, uint64_t count, uint64_t seed, uint64_t offset,
                         double p);
  tb_status (*exponential)(void *dst, int32_t type, uint64_t first, uint64_t count, uint64_t seed, uint64_t offset,
                           double rate);
  /* 32-bit words that a fill of `count` elements, from its element 0 on, takes out of the sequence: what to give to
   * reserve. One an element; two for float64 but bernoulli, for int64 integers, for integers in floating types and for
   * geometric; four for truncated normal. Normal and log-normal take whole groups of 32 elements.
   * kind: TB_FILL_*. 0 for a kind or type that there is not. */
  uint64_t (*words_needed)(int32_t kind, int32_t type, uint64_t count);

  /* Since 1.1: fills as above. cauchy: median, sigma > 0. log_normal: exp of normal(mean, std). geometric: trials until
   * the first success, from 1 on, at most the type's highest value; every type but bool. truncated_normal: normal(mean,
   * std) given that low <= x <= high, which holds after rounding too. */
  tb_status (*cauchy)(void *dst, int32_t type, uint64_t first, uint64_t count, uint64_t seed, uint64_t offset,
                      double median, double sigma);
  tb_status (*log_normal)(void *dst, int32_t type, uint64_t first, uint64_t count, uint64_t seed, uint64_t offset,
                          double mean, double std);
  tb_status (*geometric)(void *dst, int32_t type, uint64_t first, uint64_t count, uint64_t seed, uint64_t offset,
                         double p);
  tb_status (*truncated_normal)(void *dst, int32_t type, uint64_t first, uint64_t count, uint64_t seed, uint64_t offset,
                                double mean, double std, double low, double high);
  /* dst = src * mask * scale, rounded to the floating type after each product; mask: bernoulli(keep) elements of
   * TB_BOOL with the same seed and offset. dst may be src; mask may be NULL. All three point at element `first`. */
  tb_status (*dropout)(const void *src, void *dst, void *mask, int32_t type, uint64_t first, uint64_t count,
                       uint64_t seed, uint64_t offset, double keep, double scale);
  /* 0 to count - 1 in random order, all orders equally probable; takes 2 * count words. */
  tb_status (*permutation)(int64_t *dst, uint64_t count, uint64_t seed, uint64_t offset);
  /* Classes drawn with probabilities in proportion to `weights`; takes 2 words a sample with replacement, else 2 a class,
   * and then no more samples than weights above 0. */
  tb_status (*multinomial)(int64_t *dst, uint64_t samples, const double *weights, uint64_t classes, int32_t replacement,
                           uint64_t seed, uint64_t offset);
  /* Graphs: a captured fill cannot know where in the sequence a replay will be. From capture_begin on, get_state and
   * reserve give offsets from 0 on, and the sequence itself stands still; a captured fill adds what reserve gave to an
   * offset that it reads, with the seed, when it runs, from memory of the graph's. capture_end goes back to the sequence
   * and tells how many words one run takes. Before each replay reserve that many, and write the seed and offset that
   * reserve gives to the graph's memory, in the stream's order. A second capture_begin and a capture_end without a
   * capture: TB_FAILED_PRECONDITION. set_state within a capture lasts until its end. */
  tb_status (*capture_begin)(tb_generator *generator);
  tb_status (*capture_end)(tb_generator *generator, uint64_t *out_words);
  int32_t (*is_capturing)(tb_generator *generator);
} tb_generator_table;

#ifdef __cplusplus
}
#endif
#endif
