/* Waiting for an event that takes half a second: the thread sleeps, or it uses up a processor. */
#include <pthread.h>
#include <time.h>

#include "opencl.h"

static void *complete_later(void *event) {
  const struct timespec time = {0, 500 * 1000 * 1000};
  nanosleep(&time, NULL);
  clSetUserEventStatus(event, 0);
  return NULL;
}

static double processor_seconds(void) {
  struct timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

int main(void) {
  const start cl = open_device();
  cl_int code;
  const cl_object gate = clCreateUserEvent(cl.context, &code);
  demand(code, "clCreateUserEvent");
  cl_object marker;
  demand(clEnqueueMarkerWithWaitList(cl.queue, 1, &gate, &marker), "clEnqueueMarkerWithWaitList");
  demand(clFlush(cl.queue), "clFlush");
  pthread_t other;
  demand(pthread_create(&other, NULL, complete_later, gate), "pthread_create");
  const double before = processor_seconds();
  demand(clWaitForEvents(1, &marker), "clWaitForEvents");
  const double used = processor_seconds() - before;
  pthread_join(other, NULL);
  printf("waiting half a second took %.3f s of a processor\n", used);
  return used > 0.01 ? FAULTY : SOUND;
}
