/* tb/driver.h -- what a driver implements: one table of C functions.
 *
 * A driver is a shared library with one exported function, tb_driver_open_v1. It fills a table (driver_slots.inc
 * lists the functions and is their specification) and returns its `self`. Eight functions make a device; each further
 * group adds a capability. C99, C11, C++17 and later; it needs nothing but the C library.
 *
 * Rules for every function; like those of driver_slots.inc, each is cited by a case of the contract kit
 *   E1  Out-parameters are untouched unless the status is TB_OK.
 *   E2  A failing call sets its text through tb_host.set_error, in the same thread, before it returns.
 *   E3  A call that succeeds leaves no text behind that a later failure could show.
 *   E4  A failure of queued work appears at the next query or synchronise ordered after it, also through waits on
 *       events of other streams; the first that covers it reports it, once, and the device stays usable.
 *   E5  No exception, longjmp, abort, exit, signal handler or print leaves a driver.
 *   E6  Only statuses of the list below are returned; the vendor's own number goes to set_error.
 *   E7  An unknown flag bit is TB_INVALID_ARGUMENT, a device that there is not TB_OUT_OF_RANGE, a NULL out-parameter
 *       TB_INVALID_ARGUMENT.
 *   E8  A function that takes something back (mem_free, stream_destroy, vmm_unmap ...) and refuses, with a status that
 *       tb_is_refusal knows, has changed nothing; after any other failure of it the object is gone all the same.
 *   T1  Any function may be called from any thread, also as the first call of that thread.
 *   T2  Calls on different handles never wait for each other except for memory itself.
 *   T3  Calls on the same handle are safe too, except destroying or freeing it against any other use.
 *   T4  There is no hidden current device: a function names its device or takes a handle that knows it.
 *   T5  Functions that enqueue return without waiting for the device.
 *   T6  Nothing is called after close, after the interpreter has begun to end, or in a forked child (but see
 *       TB_DEVICE_SURVIVES_FORK).
 *   T8  The library is never unloaded; threads started in open end in close.
 *   T9  No function needs Python or the GIL; one that may wait for queued work is called without the GIL, or releases
 *       it (tb_host.before_wait).
 * Growth
 *   V1  Functions and fields are only ever appended.
 *   V2  struct_size says how much the other side knows: nothing is written past it, by a newer or an older side.
 *   V3  A group is offered whole or not at all, and its bit in `groups` says so.
 *   V4  The library exports tb_driver_open_v1 and nothing else.
 *   V5  build_id is not empty.
 */
#ifndef TB_DRIVER_H
#define TB_DRIVER_H

#include <stddef.h>
#include <stdint.h>
#include <string.h>

#define TB_ABI_MAJOR 1
#define TB_ABI_MINOR 0
#define TB_DRIVER_ENTRY "tb_driver_open_v1"

#if defined(_WIN32)
#define TB_EXPORT __declspec(dllexport)
#else
#define TB_EXPORT __attribute__((visibility("default")))
#endif

#ifdef __cplusplus
extern "C" {
#endif

/* 0 to 15 are the widely used status numbers of abseil and gRPC (8 is their "resource exhausted"). */
typedef int32_t tb_status;
enum {
  TB_OK = 0,
  TB_CANCELLED = 1,
  TB_UNKNOWN = 2,
  TB_INVALID_ARGUMENT = 3,
  TB_DEADLINE_EXCEEDED = 4,
  TB_NOT_FOUND = 5,
  TB_ALREADY_EXISTS = 6,
  TB_PERMISSION_DENIED = 7,
  TB_OUT_OF_MEMORY = 8,
  TB_FAILED_PRECONDITION = 9,
  TB_ABORTED = 10,
  TB_OUT_OF_RANGE = 11,
  TB_UNSUPPORTED = 12,
  TB_INTERNAL = 13,
  TB_UNAVAILABLE = 14,
  TB_DATA_LOSS = 15,
  TB_NOT_READY = 32,   /* queries and event_elapsed_ns only; never an error */
  TB_DEVICE_LOST = 33, /* until device_reset */
  TB_ABI_MISMATCH = 34
};

/* Bits of tb_driver_api.groups. */
enum {
  TB_GROUP_CORE = 1 << 0,
  TB_GROUP_ASYNC = 1 << 1,
  TB_GROUP_PIN = 1 << 2,
  TB_GROUP_PTR = 1 << 3,
  TB_GROUP_SOA = 1 << 4,
  TB_GROUP_COPY2D = 1 << 5,
  TB_GROUP_VMM = 1 << 6,
  TB_GROUP_PEER = 1 << 7,
  TB_GROUP_HOSTCALL = 1 << 8,
  TB_GROUP_NATIVE = 1 << 9,
  TB_GROUP_TIMING = 1 << 10,
  TB_GROUP_MODULE = 1 << 11,
  TB_GROUP_IPC = 1 << 12,
  TB_GROUP_CLOSURE = 1 << 13
};

/* Flags of tb_closure. */
enum { TB_CLOSURE_ON_WAITER = 1, TB_CLOSURE_AFTER_FAILURE = 2 };
enum { TB_EVENT_TIMING = 1, TB_EVENT_BLOCKING = 2, TB_EVENT_IPC = 4 };
enum { TB_COPY_HOST_TO_DEVICE = 1, TB_COPY_DEVICE_TO_HOST = 2, TB_COPY_DEVICE_TO_DEVICE = 3 };
enum { TB_POINTER_HOST_PINNED = 1, TB_POINTER_DEVICE = 2 };
/* tb_device_info.flags */
enum {
  /* The host may read and write device memory through the same pointer once the work queued on it is done. */
  TB_DEVICE_HOST_ACCESSIBLE = 1,
  /* Open, stream_default and the functions that only ask (facts, counts, queries, waits) start no thread and initialise
   * no library of a vendor. As long as nothing else was called, a forked child can use the same self. All devices have
   * this flag, or none. */
  TB_DEVICE_SURVIVES_FORK = 2
};
/* tb_device_info.lacks: what the device's kernels do without. */
enum {
  TB_LACKS_FLOAT64 = 1,       /* 64-bit floats */
  TB_LACKS_ATOMIC64 = 2,      /* atomic operations on 64-bit integers */
  TB_LACKS_FLOAT_ATOMICS = 4, /* atomic additions of floats */
  TB_LACKS_FMA = 8            /* multiply-adds of 32-bit floats that are rounded once */
};
/* tb_extension.type, by the struct that has it */
enum { TB_EXTENSION_LAUNCH_ARGUMENTS = 1 };
/* tb_launch_argument.kind */
enum { TB_LAUNCH_ARGUMENT_VALUE = 0, TB_LAUNCH_ARGUMENT_POINTER = 1, TB_LAUNCH_ARGUMENT_STRUCT = 2 };
#define TB_CLOSURE_ALIGNMENT 64

typedef struct tb_driver tb_driver;
typedef struct tb_stream tb_stream;
typedef struct tb_event tb_event;
typedef struct tb_physical tb_physical;
typedef struct tb_module tb_module;
typedef struct tb_function tb_function;

/* Every struct starts with struct_size, which its owner sets: the other side writes no further. Text is UTF-8 and ends
 * with a zero. Sizes are bytes, times are nanoseconds. */
typedef struct tb_driver_info {
  uint32_t struct_size;
  int32_t dlpack_type; /* DLDeviceType of the memory: 1 CPU, 2 CUDA, 12 extension */
  char name[32];
  char vendor[64];
  char version[64];
  char native[32]; /* the API underneath: "host", "cuda", "acl" */
} tb_driver_info;

typedef struct tb_device_info {
  uint32_t struct_size;
  uint32_t flags; /* TB_DEVICE_* */
  char name[128];
  char arch[32];
  uint8_t uuid[16];
  uint64_t total_memory;
  uint64_t max_allocation;
  uint32_t alignment; /* of mem_alloc; a power of two, at least 64 */
  uint32_t compute_units;
  int32_t priority_least;
  int32_t priority_greatest; /* numerically the smallest */
  int32_t pci_domain, pci_bus, pci_device;
  int32_t numa_node; /* -1 unknown */
  /* Bytes of all arguments of one launch together; launch refuses more with TB_INVALID_ARGUMENT. 0: no limit is known. */
  uint32_t max_argument_size;
  uint32_t lacks; /* TB_LACKS_*; 0: nothing is known to be lacking */
  /* Bytes of the vectors with which one thread of a kernel computes best, as on a processor. 0: the threads of a block
   * run side by side, as on a GPU, or it is not known. */
  uint32_t vector_size;
  uint32_t reserved;
} tb_device_info;

/* How each struct of an extension chain (tb_launch.next) begins. A receiver skips the structs whose type it does not
 * know, so an extension says more about a call and never changes what the call does. The chain is valid during the
 * call. */
typedef struct tb_extension {
  uint32_t struct_size; /* of the whole struct, not of this head */
  uint32_t type;        /* TB_EXTENSION_* */
  const void *next;     /* the next struct of the chain, or NULL */
} tb_extension;

typedef struct tb_pointer_info {
  uint32_t struct_size;
  int32_t kind; /* TB_POINTER_* */
  int32_t device;
  uint32_t reserved;
  void *base;
  uint64_t size;
} tb_pointer_info;

typedef struct tb_copy_2d {
  uint32_t struct_size;
  int32_t kind;
  void *dst;
  const void *src;
  uint64_t dst_pitch, src_pitch, width, height; /* width in bytes, height in rows */
} tb_copy_2d;

typedef struct tb_function_info {
  uint32_t struct_size;
  uint32_t max_threads;
  uint32_t registers;
  uint32_t shared_size;
  uint64_t local_size;
} tb_function_info;

typedef struct tb_launch {
  uint32_t struct_size;
  uint32_t arg_count;
  uint32_t grid[3];
  uint32_t block[3];
  uint64_t shared_size;
  const void *const *args; /* a pointer to each argument's value */
  const uint64_t *arg_sizes;
  const void *next; /* extension chain, see tb_extension */
} tb_launch;

/* What one argument of a launch is. It never grows, for arrays have it. */
typedef struct tb_launch_argument {
  uint32_t kind;                   /* TB_ARGUMENT_* */
  uint32_t pointer_count;          /* of a struct, else 0 */
  const uint32_t *pointer_offsets; /* in a struct: the byte offset of each pointer to memory of the device, ascending */
} tb_launch_argument;

/* Extension of tb_launch, for devices that must know which memory a kernel reaches. Every pointer to device memory that
 * the arguments hold is named; a named pointer may be NULL, and may point into the middle of a block. */
typedef struct tb_launch_arguments {
  uint32_t struct_size;
  uint32_t type; /* TB_EXTENSION_LAUNCH_ARGUMENTS */
  const void *next;
  const tb_launch_argument *arguments; /* tb_launch.arg_count of them */
} tb_launch_arguments;

typedef struct tb_ipc_handle {
  uint32_t struct_size;
  uint32_t reserved;
  uint8_t bytes[120];
} tb_ipc_handle;

/* What a closure receives when it runs. */
typedef struct tb_closure_context {
  uint32_t struct_size;
  int32_t device;
  tb_stream *stream;
  uint32_t waiters; /* threads that wait for this stream now; UINT32_MAX in a graph: no host produces its work */
  uint32_t error_capacity;
  char *error_text; /* a failing run writes its text here */
  /* Returns the closures after the running one, see closure_commit.4. *storage is NULL for the first of them, else what
   * the last call returned. The function is NULL if the driver cannot look ahead. */
  const struct tb_closure *(*next)(const struct tb_closure_context *context, void **storage);
  uint32_t on_waiter; /* 1: on a thread that waits for the stream, see closure_commit.5; else 0, or no such field */
  uint32_t reserved;
} tb_closure_context;

/* The kind of a closure, a static object. `run` is called once in stream order, then `destroy` once. */
typedef struct tb_closure {
  uint32_t struct_size;
  uint32_t flags;   /* TB_CLOSURE_* */
  const char *name; /* of the operation, for error texts */
  tb_status (*run)(void *storage, const tb_closure_context *context);
  void (*destroy)(void *storage);
} tb_closure;

/* The host's functions. The struct stays valid until close returns. */
typedef struct tb_host {
  uint32_t struct_size;
  uint16_t abi_major, abi_minor;
  /* Sets the text of a failure in a fixed buffer of this thread; never allocates. native_code: the vendor's number or
   * 0. */
  void (*set_error)(tb_status status, int64_t native_code, const char *text);
  void (*log)(int32_t level, const char *text); /* 0 debug, 1 info, 2 warning, 3 error */
  const char *(*option)(const char *key);       /* a driver option ("devices"), or NULL; valid during open only */
  /* To be called around a wait for queued work. before_wait releases what that work may need of this thread, such as
   * the GIL, and returns what after_wait needs to take it back, or NULL if it released nothing. The host does so itself
   * around stream_synchronize, event_synchronize and device_synchronize and, for a driver without CLOSURE, around all
   * other functions that may wait. So these are for a driver with closures whose queue is full. Between the two calls
   * the driver holds no lock for which another thread may wait. */
  void *(*before_wait)(void);
  void (*after_wait)(void *given_up);
} tb_host;

typedef struct tb_driver_api {
  uint32_t struct_size;
  uint16_t abi_major, abi_minor;
  uint64_t groups;      /* TB_GROUP_* */
  const char *build_id; /* version, commit, compiler, sanitizer: free text */
#define TB_SLOT(group, need, name, parameters, arguments) tb_status(*name) TB_SLOT_PARAMETERS parameters;
#define TB_SLOT_PARAMETERS(...) (tb_driver * self, __VA_ARGS__)
#define TB_SLOT0(group, need, name) tb_status (*name)(tb_driver * self);
#include "tb/driver_slots.inc"
#undef TB_SLOT
#undef TB_SLOT_PARAMETERS
#undef TB_SLOT0
} tb_driver_api;

/* The one exported function. The host zeroes `api` and sets its struct_size. The driver fills what both know with
 * tb_driver_fill, sets *self and returns TB_OK, or it fails with a text and changes neither. Opening a second time
 * returns a working second self or TB_ALREADY_EXISTS. */
typedef tb_status (*tb_driver_open_fn)(const tb_host *host, tb_driver_api *api, tb_driver **self);

/* Whether a status means that the call was invalid and nothing was done (rule E8). */
static inline int tb_is_refusal(tb_status status) {
  return status == TB_INVALID_ARGUMENT || status == TB_NOT_FOUND || status == TB_FAILED_PRECONDITION ||
         status == TB_OUT_OF_RANGE || status == TB_UNSUPPORTED;
}

/* Copies the driver's table into the host's, as far as both know it. */
static inline tb_status tb_driver_fill(tb_driver_api *out, const tb_driver_api *mine) {
  uint32_t room = out->struct_size;
  uint32_t size = room < mine->struct_size ? room : mine->struct_size;
  if (room < offsetof(tb_driver_api, close)) return TB_ABI_MISMATCH;
  memcpy(out, mine, size);
  out->struct_size = room;
  return TB_OK;
}

/* Copies a driver's struct (tb_device_info) into the caller's, as far as both know it; mine->struct_size is set. */
static inline tb_status tb_struct_fill(void *out, const void *mine) {
  uint32_t room, size;
  memcpy(&room, out, sizeof room);
  memcpy(&size, mine, sizeof size);
  memcpy(out, mine, room < size ? room : size);
  memcpy(out, &room, sizeof room);
  return TB_OK;
}

/* The first struct of a type in an extension chain, or NULL. */
static inline const void *tb_find_extension(const void *chain, uint32_t type) {
  while (chain && ((const tb_extension *)chain)->type != type) chain = ((const tb_extension *)chain)->next;
  return chain;
}

/* Sets the text of a failure, which E2 requires, and returns its status. */
static inline tb_status tb_fail(const tb_host *host, tb_status status, const char *text) {
  host->set_error(status, 0, text);
  return status;
}

#ifdef __cplusplus
}
#endif
#endif
