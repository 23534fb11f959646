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
             "%s found the function table of %s where %s keeps its own. Another package has replaced it: "
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

/* A number of the slot list that the caller was compiled with (FNV-1a, 64 bits): groups, needs, names, parameters,
 * order. Components built from different headers differ here; tb-device doctor shows it. */
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
  /* The process's driver. The first call opens it (argument, TB_DRIVER, entry points, bundled); later calls return the
   * same one. Its table is complete: tb-device emulates absent functions, while `groups` says what the driver offers.
   * The first call may take the GIL. In a forked child every function of the table is replaced by one that fails with
   * TB_FAILED_PRECONDITION, unless the driver was only asked for facts and survives a fork. */
  tb_status (*driver)(const tb_driver_api **out_api, tb_driver **out_self);
  int32_t (*is_open)(void);                /* 1 once a driver is open. */
  tb_status (*device_count)(int32_t *out); /* The number of devices of the driver, which is opened if none is open. */
  int32_t (*current_device)(void);         /* This thread's current device: 0 until set. It opens no driver. */
  tb_status (*set_current_device)(int32_t device); /* TB_OUT_OF_RANGE if there is no such device. */
  /* Copies what the driver said of a device when it was opened; out->struct_size is the room in `out`. */
  tb_status (*device_info)(int32_t device, tb_device_info *out);
  /* Sets the error of this thread, as drivers and components do before they return a status. device -1: none. */
  void (*set_error)(tb_status status, int64_t native_code, int32_t device, const char *function, const char *text);
  /* Moves the error of this thread to `out` and returns 1, or returns 0 if there is none. */
  int32_t (*take_error)(tb_error *out);
  /* The whole text for the user about `status` that `function` returned; takes the error. */
  void (*describe_error)(tb_status status, const char *function, int32_t device, char *out, uint64_t out_size);
  /* `function(user)` runs once, before the driver is closed at exit, last registered first. */
  tb_status (*on_shutdown)(void (*function)(void *user), void *user);
  /* Points at 0, and at 1 in a forked child of a process that had used a driver or had opened one that does not survive
   * a fork. It is set before fork handlers run that were registered after the import of tb-device. */
  const int32_t *forked;
  /* Since 1.1. explain(text, size) receives every text when it is taken and may complete it in place, for example with
   * what a queued closure could only note. It runs on the thread that takes the text and may take the GIL; it must not
   * throw. There is one for the process; NULL removes it. */
  void (*set_explainer)(void (*explain)(char *text, uint64_t size));
  /* ---- since 1.2 ---- */
  /* To be called before this thread waits for others: releases the GIL if the thread holds it, and returns what
   * after_wait needs to take it back, or NULL if it released nothing. The functions of the driver's table do so
   * themselves; this is for a component's own lock whose holder may wait for the device. */
  void *(*before_wait)(void);
  void (*after_wait)(void *given_up); /* Takes back what before_wait released. NULL is a no-op. */
  /* 1 if the driver's table created this stream and it was not destroyed. For addresses that come from Python. */
  int32_t (*is_stream)(const tb_stream *stream);
  /* Any thread that has successfully waited for a device calls this before it returns to Python. It reports what queued
   * work noted besides failures, such as warnings. 0: there is nothing else to do. 1: a Python exception is set on this
   * thread and must be raised. It takes the GIL if there is something to report. A thread that runs no Python code
   * reports nothing; the next thread that waits does. */
  int32_t (*tell)(void);
  /* Sets the function that tell calls; it must not throw. There is one for the process; NULL removes it. */
  void (*set_teller)(int32_t (*tell)(void));
} tb_device_table;

/* ---- tb-stream, C API 1.3 ------------------------------------------------------------------------------------- */

#define TB_STREAM_API_MAJOR 1
#define TB_STREAM_API_MINOR 3

/* Work of a stream, captured once and launched many times (the extension tb.graph), and what components add to it. */
typedef struct tb_capture tb_capture;

/* A component's part in every capture, such as memory that the capture keeps, or numbers that change with each launch.
 * Each function runs on the thread whose call it belongs to, and no lock is held. */
typedef struct tb_capture_part {
  uint32_t struct_size;
  uint32_t reserved;
  const char *component; /* "tb-allocator" */
  /* Called before the work of `stream` is captured. Captures of one `pool` share their memory. The other three
   * functions receive *out_part. */
  tb_status (*begin)(int32_t device, tb_stream *stream, uint64_t pool, void **out_part);
  void (*end)(void *part); /* Called after the last captured call. */
  /* Called before a launch on `stream`: what this queues there runs before the launch. */
  tb_status (*launch)(void *part, tb_stream *stream);
  /* There are no further launches, but earlier ones may still be queued or running. Also called if another part's begin
   * failed. */
  void (*destroy)(void *part);
} tb_capture_part;

typedef struct tb_recording tb_recording; /* what is recorded for one reader, from its start to its stop */

/* What a record is of. All up to TB_RECORD_GRAPH are operations of a stream. */
enum {
  TB_RECORD_KERNEL = 1,     /* a closure, or a function of a module */
  TB_RECORD_COPY = 2,       /* copy_kind and bytes say more */
  TB_RECORD_SET = 3,        /* bytes */
  TB_RECORD_WAIT_EVENT = 4, /* the stream waits for an event */
  TB_RECORD_HOST_CALL = 5,
  TB_RECORD_GRAPH = 6,     /* a launch of captured work. What the launch runs has records of its own. */
  TB_RECORD_WAIT = 7,      /* the host waits for a stream, an event or a device */
  TB_RECORD_COLLECTIVE = 8 /* a call of a process group, while its engine has it. `stream` is NULL. */
};

/* The two numbers that a thread's records carry. */
enum { TB_PUSHED_OPERATOR = 0, TB_PUSHED_RANGE = 1 };

/* An operation, from the call that queued it to its end, or a wait. Times are nanoseconds of the steady clock
 * (CLOCK_MONOTONIC). Texts are static. */
typedef struct tb_record {
  uint32_t struct_size;
  int32_t kind;                 /* TB_RECORD_* */
  const char *name;             /* of the closure, or of the function of the driver's table */
  tb_stream *stream;            /* NULL: a wait of the host for something else than a stream */
  int32_t device;               /* -1: not known, as for streams that tb-stream did not make */
  int32_t copy_kind;            /* TB_COPY_*; 0: no copy */
  uint64_t bytes;               /* that are copied or set */
  uint64_t number;              /* of the record; later calls have higher numbers */
  uint64_t graph;               /* the number of the launch that ran the operation; 0: it was queued by itself */
  uint64_t pushed[2];           /* what the calling thread had pushed last, by TB_PUSHED_*; 0: nothing */
  int64_t thread;               /* the caller's, as the system numbers it */
  int64_t call_begin, call_end; /* of the call; for an operation of a graph, of the call that launched the graph */
  int64_t begin, end;           /* when it ran; 0: it has not begun, or not ended */
} tb_record;

typedef struct tb_stream_table {
  uint32_t struct_size;
  /* This thread's current stream of a device, which is the device's default stream until set. It never fails for a
   * device in range once the driver is open; otherwise it returns NULL with the error set. */
  tb_stream *(*current)(int32_t device);
  /* NULL: the default stream. TB_INVALID_ARGUMENT for a stream of another device. */
  tb_status (*set_current)(int32_t device, tb_stream *stream);
  /* The stream that exists from the start; NULL with the error set if there is no such device. */
  tb_stream *(*default_stream)(int32_t device);
  /* Returns the streams of a pool one after another: 32 for each device and priority, which are made when they are
   * first needed and never destroyed. */
  tb_status (*from_pool)(int32_t device, int32_t priority, tb_stream **out);
  /* The device of a default stream, of a stream of a pool, or of one that is current. */
  tb_status (*device_of)(tb_stream *stream, int32_t *out_device);
  /* The priority that such a stream was made with: 0 is the default, lower numbers come first. */
  tb_status (*priority_of)(tb_stream *stream, int32_t *out_priority);
  /* An event of a pool, which keeps events that were released. flags: TB_EVENT_*. */
  tb_status (*event_acquire)(int32_t device, uint64_t flags, tb_event **out);
  /* Gives an event back to its pool, once; also while it is pending. NULL is a no-op. */
  tb_status (*event_release)(tb_event *event);
  /* ---- since 1.1 ---- */
  /* Points at the number of captures in progress in the process. While it is 0, no stream captures. */
  const int32_t *capturing;
  /* Adds `part`, a static object, to every capture that begins from now on. */
  tb_status (*add_capture_part)(const tb_capture_part *part);
  /* Returns what begin of `part` returned for the capture in which the stream takes part, also by joining; NULL if the
   * stream does not capture. For a NULL `part` it returns the tb_capture, which the caller does not own. */
  tb_status (*capture_part)(tb_stream *stream, const tb_capture_part *part, void **out_part);
  uint64_t (*new_capture_pool)(void); /* The number of a new memory pool that several captures can share. */
  /* Captures what is queued on `stream` from now on, and on streams that wait for its events. `pool`: a number of
   * new_capture_pool; 0: a pool of its own. capture_destroy frees the capture. */
  tb_status (*capture_begin)(int32_t device, tb_stream *stream, uint64_t pool, tb_capture **out);
  /* Ends what capture_begin began. After a failure the capture is still in progress, unless the driver dropped it. capture_destroy ends both. */
  tb_status (*capture_end)(tb_capture *capture);
  /* Makes the captured work ready to be launched; otherwise the first launch does it. */
  tb_status (*capture_instantiate)(tb_capture *capture);
  /* Queues the captured work on `stream`. Launches of one capture run one after another, also on several streams. */
  tb_status (*capture_launch)(tb_capture *capture, tb_stream *stream);
  /* From now on `capture` launches the work of `other`, which must have the same shape. */
  tb_status (*capture_update)(tb_capture *capture, tb_capture *other);
  uint64_t (*capture_pool)(const tb_capture *capture); /* The number of the memory pool that the capture uses. */
  /* The number of operations that were captured. */
  tb_status (*capture_node_count)(const tb_capture *capture, uint64_t *out);
  /* Frees a capture. Queued launches still complete. A capture in progress is dropped. NULL is a no-op. */
  void (*capture_destroy)(tb_capture *capture);
  /* ---- since 1.2 ---- */
  /* A stream that nobody else is given, neither by this function nor by from_pool, until it is released. For work that
   * must not hold up a stream of the program. A priority out of range is clamped. */
  tb_status (*stream_acquire)(int32_t device, int32_t priority, tb_stream **out);
  /* Gives such a stream back, which a later stream_acquire returns again. What is queued still completes, before what
   * the next owner queues. TB_INVALID_ARGUMENT: the stream was not acquired. NULL is a no-op. */
  tb_status (*stream_release)(tb_stream *stream);
  /* Begins to record what is queued on all streams, when it runs, and what the host waits for. Recordings may overlap in
   * any way; each has what was queued in its time. While there is one, functions of tb-stream replace entries of the
   * driver's table, and while there is a capture, those of closures. Otherwise the table holds the driver's own. */
  tb_status (*record_start)(tb_recording **out);
  /* Ends a recording and hands its records to `receive`, in the order of their numbers. It waits for nothing: for complete
   * records, synchronise the devices before. NULL for `receive` drops them. No lock is held while `receive` runs, which
   * must not throw. After a failure, too, the recording has ended. */
  tb_status (*record_stop)(tb_recording *recording, void (*receive)(void *user, const tb_record *record), void *user);
  /* Records of calls of this thread have `number` in pushed[which], until record_pop takes it away or a further number is
   * pushed on it. Without a recording, these do nothing; the first of overlapping recordings begins without numbers. */
  void (*record_push)(int32_t which, uint64_t number);
  void (*record_pop)(int32_t which);
  /* For work that no stream runs: `record`, with kind, name and device, becomes a call of this thread. Sets its number,
   * which is 0 if nothing is recorded. */
  void (*record_call)(tb_record *record);
  /* Tells when such work ran: number, begin and end. It may run on another thread. A number of 0 is a no-op. */
  void (*record_run)(const tb_record *record);
  /* ---- since 1.3 ---- */
  /* Makes a capture interruptible: it refuses nothing. Before the host waits for captured work or asks about it, and where
   * a component calls capture_interrupt, the capture ends, what was captured is launched once on the stream that began, and
   * the caller goes on as if nothing had been captured. interrupted(user) is called before that, on the interrupting
   * thread and without a lock. It must not throw or use the stream; NULL is allowed. */
  tb_status (*capture_allow_interruption)(tb_capture *capture, void (*interrupted)(void *user), void *user);
  /* Interrupts the capture that the stream takes part in, if it is interruptible. reason: a sentence without its end.
   * *out_captures: 1 if the stream captures afterwards, since its capture cannot be interrupted; otherwise 0. */
  tb_status (*capture_interrupt)(tb_stream *stream, const char *reason, int32_t *out_captures);
  /* In place of capture_end, for an interruptible capture: ends it and launches it once, unless that has happened. Events
   * that were recorded in the capture stand for the launch from then on. *out_events: how many of them are in use, not
   * released. */
  tb_status (*capture_complete)(tb_capture *capture, uint64_t *out_events);
  /* Why the capture was interrupted; "" if it was not. Valid until capture_destroy. */
  const char *(*capture_interruption)(const tb_capture *capture);
} tb_stream_table;

/* ---- tb-allocator, C API 1.3 ---------------------------------------------------------------------------------- */

#define TB_ALLOCATOR_API_MAJOR 1
#define TB_ALLOCATOR_API_MINOR 3

typedef struct tb_block tb_block;
typedef struct tb_arena tb_arena; /* memory of one device that is separate from all other memory */

enum {
  /* For graphs: an allocation keeps its address and its memory until the arena is destroyed. The arena records no
   * events, so a capture can use it; a block on which other streams were recorded is not reused. */
  TB_ARENA_FIXED = 1,
  TB_ARENA_CONTIGUOUS = 2 /* plain memory of the driver, for IPC and for libraries that register memory */
};

/* One count of PyTorch's memory statistics. */
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
  /* Allocates memory for work on `stream`. The pointer is aligned to the device's alignment, at least 64 bytes. Size 0
   * gives a NULL pointer and a NULL block. TB_OUT_OF_MEMORY has the figures in the error text. */
  tb_status (*allocate)(int32_t device, uint64_t size, tb_stream *stream, void **out_pointer, tb_block **out_block);
  /* The block's own stream may reuse the memory at once, in stream order. If other streams were recorded, it is reused
   * when they have passed this point. Never fails or throws. */
  void (*deallocate)(tb_block *block);
  /* `stream` uses the block too: the block is not reused before the work queued there at deallocate is done. */
  tb_status (*record_stream)(tb_block *block, tb_stream *stream);
  tb_block *(*find)(const void *pointer);   /* The allocated block that contains an address; NULL if there is none. */
  tb_status (*empty_cache)(int32_t device); /* Returns cached memory to the driver. device -1: of all devices. */
  /* The figures of the device's memory, captures included; out->struct_size is the room in `out`. */
  tb_status (*statistics)(int32_t device, tb_allocator_statistics *out);
  tb_status (*reset_peak)(int32_t device);        /* Sets every peak to the current figure. */
  tb_status (*reset_accumulated)(int32_t device); /* Sets the counts of what was allocated and freed so far to 0. */
  /* Asks the driver for the free and the total memory of the device, in bytes. */
  tb_status (*memory_info)(int32_t device, uint64_t *out_free, uint64_t *out_total);
  /* The most bytes of reserved memory from now on; UINT64_MAX: no limit. What is reserved already stays. */
  tb_status (*set_limit)(int32_t device, uint64_t bytes);
  /* Allocates pinned host memory, for copies that do not block. It is cached as device memory is. */
  tb_status (*host_allocate)(uint64_t size, void **out_pointer, tb_block **out_block);
  /* As deallocate. The memory is reused when the recorded streams have passed this point. */
  void (*host_deallocate)(tb_block *block);
  /* `stream` reads or writes the pinned block, as record_stream. */
  tb_status (*host_record_stream)(tb_block *block, tb_stream *stream);
  tb_block *(*host_find)(const void *pointer); /* The pinned block that contains an address; NULL if there is none. */
  tb_status (*host_empty_cache)(void);         /* Returns cached pinned memory to the driver. */
  /* The figures of pinned memory; out->struct_size is the room in `out`. */
  tb_status (*host_statistics)(tb_allocator_statistics *out);
  /* Since 1.1. Makes an arena of a device. limit: bytes, UINT64_MAX: none; flags: TB_ARENA_*. */
  tb_status (*arena_create)(int32_t device, uint64_t limit, uint64_t flags, tb_arena **out);
  /* Returns the arena's memory to the driver. Blocks that are still allocated stay readable, and their memory is
   * returned when they are deallocated. No graph may use the arena any more, and no thread may have entered it. */
  void (*arena_destroy)(tb_arena *arena);
  /* From now on, `allocate` for the arena's device takes memory from it on this thread. NULL: from the device's own
   * memory. Returns the arena that was entered before, which the caller enters again at the end. */
  tb_arena *(*arena_enter)(tb_arena *arena);
  /* Allocates from an arena, which this thread need not have entered. Otherwise as allocate. */
  tb_status (*arena_allocate)(tb_arena *arena, uint64_t size, tb_stream *stream, void **out_pointer,
                              tb_block **out_block);
  /* The figures of one arena; out->struct_size is the room in `out`. */
  tb_status (*arena_statistics)(tb_arena *arena, tb_allocator_statistics *out);
  /* Since 1.2. The device of an allocated block (-1: pinned memory), its address, and its size in bytes, which may be
   * larger than what was asked. It asks the driver nothing and never fails. */
  void (*block_info)(const tb_block *block, int32_t *out_device, void **out_pointer, uint64_t *out_size);
  /* Since 1.3. The number of the capture pool (tb_stream_table.capture_pool) whose captures made the allocated block that
   * contains an address; 0: no capture that still exists made it. */
  uint64_t (*capture_pool)(const void *pointer);
  /* From now on each event of the history keeps the number that `find` gives for where the thread is; 0: not
   * known. `frees`: 1 if memory is freed or given back. `find` is called with locks held, and must not allocate or free
   * memory of a device. NULL: no places, as at first. */
  void (*set_place_finder)(uint64_t (*find)(int32_t frees));
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
  /* The device's default generator, which is made at the first call. */
  tb_status (*default_generator)(int32_t device, tb_generator **out);
  /* Makes a generator that begins at offset 0. destroy frees it. */
  tb_status (*create)(uint64_t seed, tb_generator **out);
  void (*destroy)(tb_generator *generator); /* Frees a generator of create. NULL is a no-op. */
  /* The seed, and the position in its sequence, in counters of 4 words. */
  void (*get_state)(tb_generator *generator, uint64_t *out_seed, uint64_t *out_offset);
  void (*set_state)(tb_generator *generator, uint64_t seed, uint64_t offset); /* Sets what get_state returns. */
  /* Takes `words` 32-bit words of the sequence, the number that words_needed returns for the following fill. Returns
   * the seed and the offset where they start, and advances the offset by ceil(words / 4) counters of 4 words. Atomic:
   * fills that reserve first never overlap. */
  void (*reserve)(tb_generator *generator, uint64_t words, uint64_t *out_seed, uint64_t *out_offset);
  /* Fills host memory with `count` contiguous elements of type TB_*; `first` is the index of the first one. Element i
   * depends on seed, offset and i alone, never on threads or on how a range is divided. Runs on the calling thread.
   * This holds for all fills. uniform: from <= x < to. */
  tb_status (*uniform)(void *dst, int32_t type, uint64_t first, uint64_t count, uint64_t seed, uint64_t offset,
                       double from, double to);
  /* Normally distributed with this mean and standard deviation, std >= 0. */
  tb_status (*normal)(void *dst, int32_t type, uint64_t first, uint64_t count, uint64_t seed, uint64_t offset,
                      double mean, double std);
  /* from <= x < from + range, each equally probable; range 0: all 64 bits. */
  tb_status (*integers)(void *dst, int32_t type, uint64_t first, uint64_t count, uint64_t seed, uint64_t offset,
                        int64_t from, uint64_t range);
  /* 1 with probability p, otherwise 0. */
  tb_status (*bernoulli)(void *dst, int32_t type, uint64_t first, uint64_t count, uint64_t seed, uint64_t offset,
                         double p);
  /* Exponentially distributed, rate > 0. */
  tb_status (*exponential)(void *dst, int32_t type, uint64_t first, uint64_t count, uint64_t seed, uint64_t offset,
                           double rate);
  /* The number of 32-bit words that a fill of `count` elements from element 0 on takes from the sequence, for reserve.
   * One word an element; two for float64 (except bernoulli), for int64 integers, for integers in floating types and for
   * geometric; four for truncated normal. Normal and log-normal take whole groups of 32 elements. kind: TB_FILL_*. 0 if
   * there is no such kind or type. */
  uint64_t (*words_needed)(int32_t kind, int32_t type, uint64_t count);

  /* Since 1.1. Cauchy distributed around `median`, sigma > 0. */
  tb_status (*cauchy)(void *dst, int32_t type, uint64_t first, uint64_t count, uint64_t seed, uint64_t offset,
                      double median, double sigma);
  /* exp of normal(mean, std). */
  tb_status (*log_normal)(void *dst, int32_t type, uint64_t first, uint64_t count, uint64_t seed, uint64_t offset,
                          double mean, double std);
  /* The trials until the first success, from 1 on, at most the type's highest value; every type but bool. */
  tb_status (*geometric)(void *dst, int32_t type, uint64_t first, uint64_t count, uint64_t seed, uint64_t offset,
                         double p);
  /* normal(mean, std) given that low <= x <= high, which holds after rounding too. */
  tb_status (*truncated_normal)(void *dst, int32_t type, uint64_t first, uint64_t count, uint64_t seed, uint64_t offset,
                                double mean, double std, double low, double high);
  /* dst = src * mask * scale, rounded to the floating type after each product; mask: bernoulli(keep) elements of
   * TB_BOOL with the same seed and offset. dst may be src; mask may be NULL. All three point at element `first`. */
  tb_status (*dropout)(const void *src, void *dst, void *mask, int32_t type, uint64_t first, uint64_t count,
                       uint64_t seed, uint64_t offset, double keep, double scale);
  /* 0 to count - 1 in random order, all orders equally probable; takes 2 * count words. */
  tb_status (*permutation)(int64_t *dst, uint64_t count, uint64_t seed, uint64_t offset);
  /* Draws classes with probabilities in proportion to `weights`. With replacement it takes 2 words a sample. Without,
   * it takes 2 words a class, and there may not be more samples than weights above 0. */
  tb_status (*multinomial)(int64_t *dst, uint64_t samples, const double *weights, uint64_t classes, int32_t replacement,
                           uint64_t seed, uint64_t offset);
  /* For graphs, since a captured fill cannot know the position in the sequence at which a replay will be. From
   * capture_begin on, get_state and reserve return offsets from 0 on, and the sequence itself does not advance. A
   * captured fill adds its offset to one that it reads, with the seed, from the graph's memory when it runs. A
   * set_state within a capture is undone at its end. TB_FAILED_PRECONDITION: a capture is in progress. */
  tb_status (*capture_begin)(tb_generator *generator);
  /* Restores the sequence and returns the number of words that one run takes. Before each replay, the caller reserves
   * that many words and writes the seed and offset to the graph's memory, in stream order. TB_FAILED_PRECONDITION: no
   * capture is in progress. */
  tb_status (*capture_end)(tb_generator *generator, uint64_t *out_words);
  int32_t (*is_capturing)(tb_generator *generator); /* 1 between capture_begin and capture_end. */
} tb_generator_table;

#ifdef __cplusplus
}
#endif
#endif
