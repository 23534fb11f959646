/* protocol.h -- what device.c and the chip agree on.
 *
 * The chip is a process that has descriptors 0, a socket, and 1, a memory file, and as its argument an address. From
 * there on it has the file's memory, which the driver's process has at the same place, and then its own, whose addresses
 * the driver's process keeps free and cannot touch.
 *
 * Requests go through the socket, one after another. Work goes through channels, which are in the memory of both: a
 * thread of the chip does what a channel asks for, one command at a time. */
#ifndef PROTOCOL_H
#define PROTOCOL_H

#include <stdatomic.h>
#include <stdint.h>

#define SHARED_BYTES ((uint64_t)1 << 30) /* pinned memory and channels */
#define DEVICE_BYTES ((uint64_t)1 << 30) /* the chip's own memory */
#define ALIGNMENT 256
#define PIECE_BYTES ((uint64_t)1 << 16) /* of a copy between the chip and pageable memory */
#define MOST_ARGUMENT_BYTES 4096        /* of a launch, each beginning at a multiple of 16 */
#define MOST_ARGUMENTS 64
#define MOST_SHARED_BYTES 16384 /* of a launch, besides what its kernel has */

enum { ALLOCATE, ALLOCATE_SHARED, RELEASE, GET_FREE_BYTES, LOAD, UNLOAD, FIND_KERNEL, FIND_VARIABLE, OPEN_CHANNEL };

typedef struct Request {
  int32_t kind;
  uint64_t handle, size; /* an address, or what LOAD gave */
  char name[256];
} Request;

typedef struct Answer {
  int32_t status; /* TB_* of tb/driver.h */
  uint32_t threads;
  uint64_t handle, size;
  char text[480]; /* of a failure */
} Answer;

enum { READ, WRITE, COPY, FILL, LAUNCH };

/* `asked` and `answered` are numbers of commands, and futexes. */
typedef struct Channel {
  _Atomic uint32_t asked, answered;
  int32_t kind, status;
  uint64_t to, from, size; /* bytes; FILL: elements */
  uint32_t pattern, pattern_size;
  uint64_t kernel;
  uint32_t grid[3], block[3], argument_count;
  uint32_t argument_places[MOST_ARGUMENTS]; /* in `piece` */
  char text[480];
  _Alignas(16) char piece[PIECE_BYTES];
} Channel;

#endif
