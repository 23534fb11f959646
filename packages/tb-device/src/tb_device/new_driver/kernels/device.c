/* device.c -- talks to the invented chip (chip/), a process that this file starts. Here your chip's calls come in. */
#define _GNU_SOURCE
#include "device.h"

#include <dlfcn.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <poll.h>
#include <pthread.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "chip/protocol.h"

#define LOST "mychip's process has ended, which a kernel that touches memory out of its blocks may cause"

extern char **environ;

struct Device {
  const tb_host *host;
  char *base; /* of the memory that both see; the chip's own is behind it */
  int socket;
  pid_t process;
  pthread_mutex_t lock; /* of the socket */
};

const tb_device_info device_info = {
    .struct_size = sizeof device_info,
    .name = "mychip",
    .arch = "mychip",
    .uuid = "mychip 0",
    .total_memory = DEVICE_BYTES,
    .max_allocation = DEVICE_BYTES,
    .alignment = ALIGNMENT,
    .compute_units = 1,
    .numa_node = -1,
    .max_argument_size = MOST_ARGUMENT_BYTES,
};

/* ---- The process. -------------------------------------------------------------------------------------------------- */

/* Starts the program beside this library, with `memory` and `socket` as its descriptors. */
static int start(Device *device, int memory, int socket) {
  Dl_info library;
  char program[4096], base[32];
  posix_spawn_file_actions_t files;
  posix_spawnattr_t attributes;
  if (!dladdr((const void *)&device_info, &library)) return -1;
  const char *slash = strrchr(library.dli_fname, '/');
  const int folder = slash ? (int)(slash + 1 - library.dli_fname) : 0;
  snprintf(program, sizeof program, "%.*smychip-chip", folder, library.dli_fname);
  snprintf(base, sizeof base, "%llx", (unsigned long long)(uintptr_t)device->base);
  char *words[] = {program, base, NULL};
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_adddup2(&files, socket, 0);
  posix_spawn_file_actions_adddup2(&files, memory, 1);
  posix_spawnattr_init(&attributes); /* a process group of its own, so that Ctrl-C is not the chip's */
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  const int failed = posix_spawn(&device->process, program, &files, &attributes, words, environ);
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  return failed ? -1 : 0;
}

/* Keeps the chip's addresses free on the host, which cannot touch them. They begin where no program has anything, so that
 * they are free in the chip's process as well, for each time that the driver is open. */
static char *reserve(void) {
  char *base = MAP_FAILED;
  for (uint64_t place = 0x100000000000; base == MAP_FAILED && place < 0x200000000000; place += (uint64_t)1 << 32)
    base = mmap((void *)(uintptr_t)place, SHARED_BYTES + DEVICE_BYTES, PROT_NONE,
                MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  return base;
}

tb_status device_open(const tb_host *host, Device **out) {
  Device *device = calloc(1, sizeof *device);
  if (!device) return tb_fail(host, TB_OUT_OF_MEMORY, "no memory to open mychip");
  int sockets[2] = {-1, -1};
  Answer ready = {.status = TB_UNAVAILABLE};
  device->host = host;
  pthread_mutex_init(&device->lock, NULL);
  const int memory = memfd_create("mychip memory", MFD_CLOEXEC);
  device->base = reserve();
  if (memory >= 0 && device->base != MAP_FAILED && ftruncate(memory, (off_t)SHARED_BYTES) == 0 &&
      mmap(device->base, SHARED_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_FIXED, memory, 0) != MAP_FAILED &&
      socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, sockets) == 0 && start(device, memory, sockets[1]) == 0) {
    close(sockets[1]);
    device->socket = sockets[0];
    if (recv(device->socket, &ready, sizeof ready, MSG_WAITALL) != sizeof ready) ready.status = TB_UNAVAILABLE;
    if (ready.status) device_close(device);
  } else {
    if (device->base != MAP_FAILED) munmap(device->base, SHARED_BYTES + DEVICE_BYTES);
    free(device);
  }
  if (memory >= 0) close(memory);
  if (ready.status) return tb_fail(host, TB_UNAVAILABLE, "mychip's process, the program mychip-chip, does not start");
  *out = device;
  return TB_OK;
}

void device_close(Device *device) {
  close(device->socket); /* by which the process ends */
  waitpid(device->process, NULL, 0);
  munmap(device->base, SHARED_BYTES + DEVICE_BYTES);
  pthread_mutex_destroy(&device->lock);
  free(device);
}

static tb_status ask(Device *device, int32_t kind, uint64_t handle, uint64_t size, const char *name, Answer *answer) {
  Request request = {.kind = kind, .handle = handle, .size = size};
  if (name && strlen(name) >= sizeof request.name)
    return tb_fail(device->host, TB_NOT_FOUND, "names in modules of mychip have at most 255 bytes");
  strcpy(request.name, name ? name : "");
  pthread_mutex_lock(&device->lock);
  const int good = send(device->socket, &request, sizeof request, MSG_NOSIGNAL) == sizeof request &&
                   recv(device->socket, answer, sizeof *answer, MSG_WAITALL) == sizeof *answer;
  pthread_mutex_unlock(&device->lock);
  if (!good) return tb_fail(device->host, TB_DEVICE_LOST, LOST);
  return answer->status ? tb_fail(device->host, answer->status, answer->text) : TB_OK;
}

/* ---- Memory and modules. ------------------------------------------------------------------------------------------- */

tb_status device_free_bytes(Device *device, uint64_t *out) {
  Answer answer;
  const tb_status status = ask(device, GET_FREE_BYTES, 0, 0, NULL, &answer);
  if (!status) *out = answer.size;
  return status;
}

static tb_status allocate(Device *device, int32_t kind, uint64_t size, void **out) {
  Answer answer;
  const tb_status status = ask(device, kind, 0, size, NULL, &answer);
  if (!status) *out = (void *)(uintptr_t)answer.handle;
  return status;
}

tb_status device_allocate(Device *device, uint64_t size, void **out) { return allocate(device, ALLOCATE, size, out); }
tb_status device_allocate_pinned(Device *device, uint64_t size, void **out) {
  return allocate(device, ALLOCATE_SHARED, size, out);
}
tb_status device_release(Device *device, void *block) {
  Answer answer;
  return ask(device, RELEASE, (uintptr_t)block, 0, NULL, &answer);
}

tb_status device_load(Device *device, const void *image, uint64_t size, uint64_t *module) {
  void *copy;
  tb_status status = device_allocate_pinned(device, size, &copy);
  if (status) return status;
  memcpy(copy, image, size);
  Answer answer;
  status = ask(device, LOAD, (uintptr_t)copy, size, NULL, &answer);
  if (!status) *module = answer.handle;
  device_release(device, copy);
  return status;
}

void device_unload(Device *device, uint64_t module) {
  Answer answer;
  ask(device, UNLOAD, module, 0, NULL, &answer);
}

tb_status device_find_kernel(Device *device, uint64_t module, const char *name, DeviceKernel *out) {
  Answer answer;
  const tb_status status = ask(device, FIND_KERNEL, module, 0, name, &answer);
  if (!status) *out = (DeviceKernel){answer.handle, answer.threads};
  return status;
}

tb_status device_find_variable(Device *device, uint64_t module, const char *name, void **out, uint64_t *out_size) {
  Answer answer;
  const tb_status status = ask(device, FIND_VARIABLE, module, 0, name, &answer);
  if (!status) *out = (void *)(uintptr_t)answer.handle, *out_size = answer.size;
  return status;
}

/* ---- Work. --------------------------------------------------------------------------------------------------------- */

tb_status device_open_channel(Device *device, Channel **out) {
  void *channel;
  const tb_status status = device_allocate_pinned(device, sizeof(Channel), &channel);
  if (status) return status;
  memset(channel, 0, offsetof(Channel, piece));
  Answer answer;
  const tb_status opened = ask(device, OPEN_CHANNEL, (uintptr_t)channel, 0, NULL, &answer);
  if (opened)
    device_release(device, channel);
  else
    *out = channel;
  return opened;
}

/* Waits until the chip has done what the channel asks for. */
static tb_status run(Device *device, Channel *channel, char *text) {
  const uint32_t number = atomic_fetch_add(&channel->asked, 1) + 1;
  syscall(SYS_futex, &channel->asked, FUTEX_WAKE, 1, NULL, NULL, 0);
  while (atomic_load(&channel->answered) != number) {
    const struct timespec while_it_lives = {.tv_nsec = 50 * 1000 * 1000};
    syscall(SYS_futex, &channel->answered, FUTEX_WAIT, number - 1, &while_it_lives, NULL, 0);
    struct pollfd end = {.fd = device->socket};
    if (atomic_load(&channel->answered) == number || poll(&end, 1, 0) < 1) continue;
    snprintf(text, DEVICE_TEXT_BYTES, LOST);
    return TB_DEVICE_LOST;
  }
  snprintf(text, DEVICE_TEXT_BYTES, "%s", channel->status ? channel->text : "");
  return channel->status;
}

static int is_shared(const Device *device, const void *place) {
  return (uintptr_t)place - (uintptr_t)device->base < SHARED_BYTES;
}

tb_status device_copy(Device *device, Channel *channel, void *to, const void *from, uint64_t size, int32_t kind,
                      char *text) {
  const void *of_host = kind == TB_COPY_HOST_TO_DEVICE ? from : kind == TB_COPY_DEVICE_TO_HOST ? to : NULL;
  tb_status status = TB_OK;
  if (!of_host || is_shared(device, of_host)) { /* the chip reaches both */
    channel->kind = COPY;
    channel->to = (uintptr_t)to, channel->from = (uintptr_t)from, channel->size = size;
    return run(device, channel, text);
  }
  for (uint64_t done = 0; done < size && !status; done += channel->size) {
    channel->size = size - done < PIECE_BYTES ? size - done : PIECE_BYTES;
    channel->to = (uintptr_t)to + done, channel->from = (uintptr_t)from + done;
    channel->kind = kind == TB_COPY_HOST_TO_DEVICE ? WRITE : READ;
    if (channel->kind == WRITE) memcpy(channel->piece, (const char *)from + done, channel->size);
    status = run(device, channel, text);
    if (channel->kind == READ && !status) memcpy((char *)to + done, channel->piece, channel->size);
  }
  return status;
}

tb_status device_fill(Device *device, Channel *channel, void *to, uint32_t pattern, uint32_t pattern_size,
                      uint64_t count, char *text) {
  channel->kind = FILL;
  channel->to = (uintptr_t)to, channel->size = count;
  channel->pattern = pattern, channel->pattern_size = pattern_size;
  return run(device, channel, text);
}

tb_status device_prepare_launch(const tb_host *host, DeviceKernel kernel, const tb_launch *config, DeviceLaunch *out) {
  uint64_t threads = 1, used = 0;
  for (int axis = 0; axis < 3; ++axis) {
    if (!config->grid[axis] || !config->block[axis])
      return tb_fail(host, TB_INVALID_ARGUMENT, "the grid and the block of a launch are at least 1 in each dimension");
    threads = threads > kernel.most_threads ? threads : threads * config->block[axis];
  }
  if (threads > kernel.most_threads)
    return tb_fail(host, TB_INVALID_ARGUMENT, "a block has more threads than function_get_info allows for the kernel");
  if (config->shared_size > MOST_SHARED_BYTES)
    return tb_fail(host, TB_INVALID_ARGUMENT, "a launch on mychip has at most 16 KiB of shared memory");
  *out = (DeviceLaunch){.kernel = kernel, .argument_count = config->arg_count};
  memcpy(out->grid, config->grid, sizeof out->grid);
  memcpy(out->block, config->block, sizeof out->block);
  for (uint32_t i = 0; i < config->arg_count; ++i) {
    const uint64_t size = config->arg_sizes[i];
    if (i == MOST_ARGUMENTS || size > sizeof out->bytes - used)
      return tb_fail(host, TB_INVALID_ARGUMENT, "a launch on mychip has at most 64 arguments with 4096 bytes in all");
    memcpy(out->bytes + used, config->args[i], size);
    out->places[i] = (uint32_t)used;
    out->used = (uint32_t)(used + size);
    used = used + (size + 15) / 16 * 16 < sizeof out->bytes ? used + (size + 15) / 16 * 16 : sizeof out->bytes;
  }
  return TB_OK;
}

tb_status device_launch(Device *device, Channel *channel, const DeviceLaunch *launch, char *text) {
  channel->kind = LAUNCH;
  channel->kernel = launch->kernel.handle;
  channel->argument_count = launch->argument_count;
  memcpy(channel->grid, launch->grid, sizeof launch->grid);
  memcpy(channel->block, launch->block, sizeof launch->block);
  memcpy(channel->argument_places, launch->places, sizeof launch->places);
  memcpy(channel->piece, launch->bytes, launch->used);
  return run(device, channel, text);
}
