/* queue.c -- runs the commands of streams, each stream's on a thread of its own, and keeps their failures. */
#include "queue.h"

#include <stdio.h>
#include <stdlib.h>
#include <time.h>

void release_stamp(Stamp *stamp) {
  if (stamp && atomic_fetch_sub(&stamp->uses, 1) == 1) free(stamp);
}

static void release_failure(Failure *failure) {
  if (failure && atomic_fetch_sub(&failure->uses, 1) == 1) free(failure);
}

/* ---- Failures. The stream's lock is held. -------------------------------------------------------------------------- */

static int is_unreported(const tb_stream *stream) {
  return stream->failure && !atomic_load(&stream->failure->reported);
}

/* Later failures than the first unreported one are dropped. Takes over one use of the failure. */
static void keep_failure(tb_stream *stream, Failure *failure, uint64_t number) {
  if (is_unreported(stream)) {
    release_failure(failure);
    return;
  }
  release_failure(stream->failure);
  stream->failure = failure;
  stream->failed = number;
}

static tb_status report_failure(tb_stream *stream, uint64_t number) {
  Failure *failure = stream->failure;
  if (!failure || stream->failed > number || atomic_exchange(&failure->reported, 1)) return TB_OK;
  return tb_fail(stream->queues->host, failure->status, failure->text);
}

/* ---- The thread of a stream. --------------------------------------------------------------------------------------- */

/* With the stream's lock, which it gives up meanwhile. */
static void wait_until(tb_stream *stream, uint64_t number) {
  while (stream->passed < number) pthread_cond_wait(&stream->passed_more, &stream->lock);
}

/* Waits for a command of another stream, and returns the failure that this covers, or NULL. */
static Failure *wait_for(tb_stream *other, uint64_t number) {
  pthread_mutex_lock(&other->lock);
  wait_until(other, number);
  Failure *failure = is_unreported(other) && other->failed <= number ? other->failure : NULL;
  if (failure) atomic_fetch_add(&failure->uses, 1);
  pthread_mutex_unlock(&other->lock);
  return failure;
}

static Failure *make_failure(tb_status status, const char *what, const char *text) {
  Failure *failure = calloc(1, sizeof *failure);
  if (!failure) abort(); /* a failure must not be lost */
  failure->uses = 1;
  failure->status = status;
  snprintf(failure->text, sizeof failure->text, "%.100s%s%.380s", what, *what ? ": " : "", text);
  return failure;
}

/* Runs a command. Returns its failure, or NULL. */
static Failure *run(tb_stream *stream, const Command *command) {
  Device *device = stream->queues->device;
  Channel *channel = stream->channel;
  tb_status status = TB_OK;
  char text[DEVICE_TEXT_BYTES];
  switch (command->kind) {
  case COMMAND_COPY:
    status = device_copy(device, channel, command->copy.to, command->copy.from, command->copy.size, command->copy.kind,
                         text);
    break;
  case COMMAND_FILL:
    status = device_fill(device, channel, command->fill.to, command->fill.pattern, command->fill.pattern_size,
                         command->fill.count, text);
    break;
  case COMMAND_LAUNCH:
    status = device_launch(device, channel, command->launch.values, text);
    break;
  case COMMAND_WAIT:
    return wait_for(command->wait.stream, command->wait.number);
  case COMMAND_CALL:
    pthread_mutex_lock(&stream->lock);
    if (is_unreported(stream)) status = stream->failure->status;
    pthread_mutex_unlock(&stream->lock);
    command->call.function(command->call.user, status);
    return NULL; /* the failure is already kept */
  case COMMAND_STAMP: {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    command->stamp->nanoseconds = (int64_t)now.tv_sec * 1000000000 + now.tv_nsec;
    break;
  }
  }
  return status ? make_failure(status, command->kind == COMMAND_LAUNCH ? command->launch.name : "", text) : NULL;
}

static void *run_commands(void *argument) {
  tb_stream *stream = argument;
  pthread_mutex_lock(&stream->lock);
  for (;;) {
    while (!stream->oldest && !stream->is_ending) pthread_cond_wait(&stream->given, &stream->lock);
    Command *command = stream->oldest;
    if (!command) break;
    pthread_mutex_unlock(&stream->lock);
    Failure *failure = run(stream, command);
    if (command->kind == COMMAND_LAUNCH) release_module(command->launch.module);
    if (command->kind == COMMAND_STAMP) release_stamp(command->stamp);
    pthread_mutex_lock(&stream->lock);
    stream->oldest = command->next;
    stream->passed++;
    if (failure) keep_failure(stream, failure, stream->passed);
    pthread_cond_broadcast(&stream->passed_more);
    free(command);
  }
  pthread_mutex_unlock(&stream->lock);
  return NULL;
}

/* ---- Streams. ------------------------------------------------------------------------------------------------------ */

static tb_status make(Queues *queues, tb_stream **out) {
  tb_stream *stream = calloc(1, sizeof *stream);
  if (!stream) return tb_fail(queues->host, TB_OUT_OF_MEMORY, "no memory for a stream");
  stream->queues = queues;
  stream->is_open = 1;
  pthread_mutex_init(&stream->lock, NULL);
  pthread_cond_init(&stream->given, NULL);
  pthread_cond_init(&stream->passed_more, NULL);
  tb_status status = device_open_channel(queues->device, &stream->channel);
  if (!status && pthread_create(&stream->thread, NULL, run_commands, stream) != 0)
    status = tb_fail(queues->host, TB_UNAVAILABLE, "the system gives no thread for another stream");
  if (status) {
    free(stream);
    return status;
  }
  stream->next = queues->first;
  queues->first = stream;
  *out = stream;
  return TB_OK;
}

tb_status queue_open(Queues *queues, tb_stream **out) {
  tb_stream *idle = NULL;
  tb_status status = TB_OK;
  pthread_mutex_lock(&queues->lock);
  for (tb_stream *stream = queues->first; stream && !idle; stream = stream->next) {
    pthread_mutex_lock(&stream->lock);
    if (!stream->is_open && !stream->oldest && !is_unreported(stream)) {
      stream->is_open = 1;
      idle = stream;
    }
    pthread_mutex_unlock(&stream->lock);
  }
  if (idle)
    *out = idle;
  else
    status = make(queues, out);
  pthread_mutex_unlock(&queues->lock);
  return status;
}

void queue_close(tb_stream *stream) {
  pthread_mutex_lock(&stream->lock);
  stream->is_open = 0;
  pthread_mutex_unlock(&stream->lock);
}

void queues_end(Queues *queues) {
  while (queues->first) {
    tb_stream *stream = queues->first;
    queues->first = stream->next;
    pthread_mutex_lock(&stream->lock);
    stream->is_ending = 1;
    pthread_cond_signal(&stream->given);
    pthread_mutex_unlock(&stream->lock);
    pthread_join(stream->thread, NULL);
    release_failure(stream->failure);
    pthread_cond_destroy(&stream->passed_more);
    pthread_cond_destroy(&stream->given);
    pthread_mutex_destroy(&stream->lock);
    free(stream);
  }
}

Command *queue_command(tb_stream *stream, int kind, uint64_t more) {
  Command *command = malloc(sizeof *command + more);
  if (!command) {
    tb_fail(stream->queues->host, TB_OUT_OF_MEMORY, "no memory for a command of a stream");
    return NULL;
  }
  command->next = NULL;
  command->kind = kind;
  return command;
}

uint64_t queue_give(tb_stream *stream, Command *command) {
  pthread_mutex_lock(&stream->lock);
  if (stream->oldest)
    stream->newest->next = command;
  else
    stream->oldest = command;
  stream->newest = command;
  const uint64_t number = ++stream->given_last;
  pthread_cond_signal(&stream->given);
  pthread_mutex_unlock(&stream->lock);
  return number;
}

uint64_t queue_last(tb_stream *stream) {
  pthread_mutex_lock(&stream->lock);
  const uint64_t last = stream->given_last;
  pthread_mutex_unlock(&stream->lock);
  return last;
}

tb_status queue_query(tb_stream *stream, uint64_t number) {
  pthread_mutex_lock(&stream->lock);
  const tb_status status = stream->passed < number ? TB_NOT_READY : report_failure(stream, number);
  pthread_mutex_unlock(&stream->lock);
  return status;
}

tb_status queue_wait(tb_stream *stream, uint64_t number) {
  pthread_mutex_lock(&stream->lock);
  wait_until(stream, number);
  const tb_status status = report_failure(stream, number);
  pthread_mutex_unlock(&stream->lock);
  return status;
}

/* Streams are added in front of the list, and none is taken out of it before the end. */
tb_status queues_wait(Queues *queues) {
  pthread_mutex_lock(&queues->lock);
  tb_stream *first = queues->first;
  pthread_mutex_unlock(&queues->lock);
  tb_status status = TB_OK;
  for (tb_stream *stream = first; stream; stream = stream->next) {
    pthread_mutex_lock(&stream->lock);
    wait_until(stream, stream->given_last);                       /* of now */
    if (!status) status = report_failure(stream, stream->passed); /* another one waits for the next question */
    pthread_mutex_unlock(&stream->lock);
  }
  return status;
}
