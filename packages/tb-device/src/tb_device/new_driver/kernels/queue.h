/* queue.h -- streams: each is a queue of commands and a thread, which has the device do them one after another.
 *
 * The commands of a stream have numbers from 1 on, and the stream has passed those that are done. An event is the number
 * of a command. A device with queues of its own has the same by fences, and needs no thread. */
#ifndef QUEUE_H
#define QUEUE_H

#include <pthread.h>
#include <stdatomic.h>

#include "device.h"

/* A failure of queued work (rule E4). The stream that had it and those that waited for it share it; one reports it. */
typedef struct Failure {
  _Atomic int uses, reported;
  tb_status status;
  char text[DEVICE_TEXT_BYTES];
} Failure;

/* When the device passed an event. Shared by the event and the command that writes it. */
typedef struct Stamp {
  _Atomic int uses;
  int64_t nanoseconds;
} Stamp;

/* A loaded image lives until module_unload, and until the launches of its kernels are done. */
struct tb_module {
  _Atomic int uses;
  tb_driver *driver;
  uint64_t handle;
  struct tb_function *functions;
};

enum { COMMAND_COPY, COMMAND_FILL, COMMAND_LAUNCH, COMMAND_WAIT, COMMAND_CALL, COMMAND_STAMP };

typedef struct Command {
  struct Command *next;
  int kind;
  union {
    struct {
      void *to;
      const void *from;
      uint64_t size;
      int32_t kind;
    } copy;
    struct {
      void *to;
      uint32_t pattern, pattern_size;
      uint64_t count;
    } fill;
    struct {
      struct tb_module *module;
      const char *name;
      DeviceLaunch *values; /* behind the command */
    } launch;
    struct {
      tb_stream *stream;
      uint64_t number;
    } wait;
    struct {
      void (*function)(void *user, tb_status status);
      void *user;
    } call;
    Stamp *stamp;
  };
} Command;

/* All streams of a driver. */
typedef struct Queues {
  const tb_host *host;
  Device *device;
  pthread_mutex_t lock; /* of the list */
  tb_stream *first;     /* also of those that were destroyed, whose queues serve the next ones */
} Queues;

struct tb_stream {
  Queues *queues;
  Channel *channel;
  tb_stream *next;
  pthread_t thread;
  pthread_mutex_t lock; /* of all below */
  pthread_cond_t given, passed_more;
  Command *oldest, *newest;
  uint64_t given_last, passed;
  Failure *failure; /* the first that nobody has reported, or one that was */
  uint64_t failed;  /* the command from which on a wait covers it */
  int is_open, is_ending;
};

tb_status queue_open(Queues *queues, tb_stream **out);
void queue_close(tb_stream *stream);   /* its work is still done */
tb_status queues_wait(Queues *queues); /* for all that is queued now; reports a failure */
void queues_end(Queues *queues);       /* when all is done: ends the threads */

/* A command with `more` bytes behind it, or NULL and a text. */
Command *queue_command(tb_stream *stream, int kind, uint64_t more);
uint64_t queue_give(tb_stream *stream, Command *command); /* its number */
uint64_t queue_last(tb_stream *stream);
/* TB_NOT_READY, or TB_OK once the stream has passed the number, or the failure that this covers. */
tb_status queue_query(tb_stream *stream, uint64_t number);
tb_status queue_wait(tb_stream *stream, uint64_t number);

void release_module(struct tb_module *module);
void release_stamp(Stamp *stamp);

#endif
