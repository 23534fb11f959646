/* tb/kernels.h -- the extension "tb.kernels": a vendor's own kernels for PyTorch's operators, in C.
 *
 * The table has one entry for each operator that the vendor computes. tb-ops takes it from the driver,
 *
 *   get_extension(self, TB_KERNELS_EXTENSION, TB_KERNELS_VERSION, &table, sizeof table)
 *
 * and from libraries beside a driver that somebody else ships: an entry point of the group "tb.kernels" gives a library's
 * path, and the library exports tb_kernels_open.
 *
 * An entry names an operator by its overload with out=. PyTorch's checks come first: shapes, dtypes, promotion and errors
 * of arguments. The outputs are allocated. The functional form and the form that writes to its first argument are served
 * by the same entry. A call that no entry takes runs as without the table: by a kernel of tb-ops, or on the CPU, counted.
 *
 * The table also says how tb-ops' own kernels are compiled for the device, or where their images are.
 */
#ifndef TB_KERNELS_H
#define TB_KERNELS_H

#include "tb/driver.h"

#define TB_KERNELS_EXTENSION "tb.kernels"
#define TB_KERNELS_VERSION 1

#ifdef __cplusplus
extern "C" {
#endif

/* Dtypes of elements, PyTorch's by name. */
enum {
  TB_DTYPE_BOOL = 0,
  TB_DTYPE_UINT8 = 1,
  TB_DTYPE_INT8 = 2,
  TB_DTYPE_INT16 = 3,
  TB_DTYPE_INT32 = 4,
  TB_DTYPE_INT64 = 5,
  TB_DTYPE_FLOAT16 = 6,
  TB_DTYPE_BFLOAT16 = 7,
  TB_DTYPE_FLOAT32 = 8,
  TB_DTYPE_FLOAT64 = 9,
  TB_DTYPE_COMPLEX64 = 10,
  TB_DTYPE_COMPLEX128 = 11
};
#define TB_DTYPE_BIT(dtype) (1u << (dtype))

/* The order of a tensor's elements in memory; a tensor has one of these. */
enum {
  TB_LAYOUT_DENSE = 1,         /* row-major, without gaps */
  TB_LAYOUT_CHANNELS_LAST = 2, /* of 4 or 5 dimensions, the second one innermost, without gaps, and not dense */
  TB_LAYOUT_BROADCAST = 4,     /* a stride of 0 in a dimension of more than one element */
  TB_LAYOUT_STRIDED = 8        /* any other strides; PyTorch has no negative ones */
};

/* Flags of an entry. */
enum {
  /* Inputs of a layout that the entry does not take are copied to dense ones, on the stream. */
  TB_KERNEL_MAKE_DENSE = 1,
  /* Inputs of a dtype that the entry does not take are converted to the dtype to which PyTorch promotes the call's. */
  TB_KERNEL_CONVERT = 2,
  /* `run` only queues on the call's stream, so that a capture of the stream contains it. Others are not captured: in a
   * capture the call runs as without the table. */
  TB_KERNEL_CAPTURABLE = 4
};

/* A tensor of a call. */
typedef struct tb_kernel_tensor {
  uint32_t struct_size;
  int32_t dtype; /* TB_DTYPE_* */
  int32_t dims;
  uint32_t layout;        /* TB_LAYOUT_* */
  void *data;             /* of the first element, on the device */
  uint64_t bytes;         /* from data to the end of its memory */
  const int64_t *sizes;   /* elements; `dims` of them */
  const int64_t *strides; /* elements */
} tb_kernel_tensor;

/* Kinds of arguments. */
enum {
  TB_ARGUMENT_NONE = 0, /* None */
  TB_ARGUMENT_TENSOR = 1,
  TB_ARGUMENT_TENSORS = 2,
  TB_ARGUMENT_NUMBER = 3, /* also a number where the schema has a tensor: x + 2 */
  TB_ARGUMENT_NUMBERS = 4,
  TB_ARGUMENT_TEXT = 5
};

/* A number in both forms, so that no digit is lost. A bool is 0 or 1; a dtype its TB_DTYPE_*. */
typedef struct tb_kernel_number {
  double real;
  int64_t integer;    /* a real number's without its fraction; 0 if that is out of range */
  int32_t is_integer; /* 1: of an integer or a bool */
  int32_t reserved;
} tb_kernel_number;

typedef struct tb_kernel_argument {
  int32_t kind;                    /* TB_ARGUMENT_* */
  int32_t count;                   /* of tensors or numbers; 1 of a single one */
  const tb_kernel_tensor *tensors; /* NULL for other kinds, as the next two are */
  const tb_kernel_number *numbers;
  const char *text; /* UTF-8, ends with a zero */
} tb_kernel_argument;

/* One call of an operator. It and all that it points to are valid until the function that got it returns. */
typedef struct tb_kernel_call {
  uint32_t struct_size;
  int32_t device;
  uint32_t argument_count;
  uint32_t output_count;
  const tb_kernel_argument *arguments; /* in the schema's order, without the outputs */
  const tb_kernel_tensor *outputs;     /* in the schema's order. The first may be the first argument itself, whole */
  tb_stream *stream;                   /* on which the work is queued */
  void *workspace;                     /* of the size that `plan` asked for, until the work queued by `run` is done */
  uint64_t workspace_size;
  void *plan; /* what `plan` gave */
} tb_kernel_call;

typedef struct tb_kernel {
  uint32_t struct_size;
  uint32_t flags;        /* TB_KERNEL_* */
  const char *name;      /* for errors, statistics and profiles: "mychip.gelu" */
  const char *operation; /* "aten::gelu.out" */
  uint32_t dtypes;       /* bits of the dtypes that the tensors of a call may have */
  uint32_t layouts;      /* the layouts that they may have */
  int32_t max_dims;      /* 0: any number of dimensions */
  int32_t reserved;
  uint64_t min_elements; /* of the first output: smaller calls are left to others */
  /* Optional. On the host, without the device: looks at a call without addresses (data, workspace and stream are NULL,
   * bytes 0). TB_UNSUPPORTED, with a text, leaves the call to the next entry or to others. *workspace_size and *plan are 0 at first.
   * What it gives is kept, and given to later calls that are equal in everything but addresses, several at once on
   * several threads. */
  tb_status (*plan)(void *self, const tb_kernel_call *call, uint64_t *workspace_size, void **plan);
  /* Optional. Destroys a plan that is not NULL. */
  void (*forget)(void *self, void *plan);
  /* Queues the work and returns. A failure is raised by the operator. */
  tb_status (*run)(void *self, const tb_kernel_call *call);
} tb_kernel;

/* The source of a kernel of tb-ops, as a compiler gets it. */
typedef struct tb_kernel_source {
  uint32_t struct_size;
  uint32_t threads;  /* the most that a block of it may have */
  const char *name;  /* for texts: "pointwise<Add, float>" */
  const char *entry; /* the function of the image that module_function is asked for */
  const char *text; /* C++20 in CUDA's dialect, whole: the shim and all headers of tb-ops are in it. Ends with a zero */
} tb_kernel_source;

/* Receives an image from a compiler, and copies it. */
typedef void (*tb_take_image_fn)(void *context, const void *image, uint64_t size);

typedef struct tb_kernels {
  uint32_t struct_size;
  uint32_t kernel_count;
  uint32_t kernel_size; /* sizeof(tb_kernel), which is the distance of the entries */
  uint32_t reserved;
  const tb_kernel *kernels; /* for the life of the process. Earlier entries of an operator are asked first */
  void *self;               /* what the entries' functions get first; the driver's own, or the library's */

  /* How tb-ops' own kernels, which are sources, become images for the driver's module_load. All fields are optional, and
   * a table may have these alone. Files and folders that are not absolute are sought beside the library in which the
   * table's texts are. */
  const char *images; /* a folder of images: python -m tb_ops.device_kernels.pack. Read before a compiler runs */
  const char *shim;   /* a header's file, which makes the compiler's language CUDA's (docs/writing-device-kernels.md) */
  const char *compiler_identity; /* the compiler's name, version and options: an image of another one is not used */
  /* Compiles in this process, on any thread, and gives the image to take(context, ...) before it returns. */
  tb_status (*compile)(void *self, int32_t device, const tb_kernel_source *source, tb_take_image_fn take,
                       void *context);
  /* A command with arguments instead of `compile`; `-o IMAGE SOURCE` follows them. Its first word is a file or a name in
   * PATH. */
  const char *compiler_command;
} tb_kernels;

/* What a library of kernels gets from tb-ops. Valid for the life of the process. */
typedef struct tb_kernels_host {
  uint32_t struct_size;
  uint32_t reserved;
  const tb_driver_api *driver; /* of the process */
  tb_driver *self;
  /* Sets the text of a failure of the thread, as tb_host.set_error does. native_code: the vendor's number or 0. */
  void (*set_error)(tb_status status, int64_t native_code, const char *text);
} tb_kernels_host;

/* The function that a library of kernels exports, "tb_kernels_open". The caller zeroes the table and sets its struct_size.
 * TB_UNSUPPORTED: the library has no kernels for this driver, which is no failure. */
typedef tb_status (*tb_kernels_open_fn)(const tb_kernels_host *host, tb_kernels *table);

#ifdef __cplusplus
}
#endif
#endif
