/* chip.c -- the invented chip: a process with memory of its own, which loads images and runs their kernels. A driver of
 * real hardware has nothing of it. It ends when the other end of its socket is closed. */
#define _GNU_SOURCE
#undef _FORTIFY_SOURCE /* it takes a jump to another stack for a bug */
#include <dlfcn.h>
#include <elf.h>
#include <linux/futex.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "protocol.h"
#include "tb/driver.h"
#include "toolchain/entry.h"

#define MOST_THREADS 1024
#define STACK_BYTES ((size_t)64 << 10)

/* ---- Memory: blocks in the order of their addresses, without gaps. The first free one that is large enough is taken. */

typedef struct Block {
  struct Block *next;
  uint64_t address, size;
  int is_free;
} Block;

static uint64_t allocate(Block *first, uint64_t size) {
  if (size > DEVICE_BYTES + SHARED_BYTES) return 0;
  size = size ? (size + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT : ALIGNMENT;
  Block *block = first;
  while (block && (!block->is_free || block->size < size)) block = block->next;
  if (!block) return 0;
  if (block->size > size) {
    Block *rest = malloc(sizeof *rest);
    if (!rest) return 0;
    *rest = (Block){block->next, block->address + size, block->size - size, 1};
    block->next = rest;
    block->size = size;
  }
  block->is_free = 0;
  return block->address;
}

static int release(Block *first, uint64_t address) {
  Block *before = NULL, *block = first;
  while (block && block->address != address) before = block, block = block->next;
  if (!block || block->is_free) return 0;
  block->is_free = 1;
  if (before && before->is_free) block = before;
  while (block->next && block->next->is_free) { /* at most two */
    Block *next = block->next;
    block->size += next->size;
    block->next = next->next;
    free(next);
  }
  return 1;
}

static uint64_t free_bytes(const Block *block) {
  uint64_t sum = 0;
  for (; block; block = block->next) sum += block->is_free ? block->size : 0;
  return sum;
}

/* ---- Images: shared objects, see entry.h. -------------------------------------------------------------------------- */

typedef struct Module {
  void *library;
  int file;
} Module;

/* What is wrong with an image, or NULL. The loader trusts the headers, and would crash at what is cut off. */
static const char *find_fault(const char *image, uint64_t size) {
  const Elf64_Ehdr *header = (const Elf64_Ehdr *)image;
  if (size < sizeof *header || memcmp(image, ELFMAG, SELFMAG) != 0) return "it is no shared object";
  if (header->e_phoff > size || header->e_phnum * sizeof(Elf64_Phdr) > size - header->e_phoff) return "it is cut off";
  for (unsigned i = 0; i < header->e_phnum; ++i) {
    const Elf64_Phdr *part = (const Elf64_Phdr *)(image + header->e_phoff) + i;
    if (part->p_offset > size || part->p_filesz > size - part->p_offset) return "it is cut off";
  }
  return NULL;
}

static Module *load(const char *image, uint64_t size, Answer *answer) {
  static uint64_t serial;
  const char *fault = find_fault(image, size);
  Module module = {NULL, -1};
  if (!fault) {
    module.file = memfd_create("mychip image", MFD_CLOEXEC);
    for (uint64_t done = 0; done < size && !fault;) {
      const ssize_t part = write(module.file, image + done, size - done);
      if (part <= 0) fault = "the chip has no memory for it";
      done += (uint64_t)part;
    }
  }
  if (!fault) {
    /* The loader takes an object of a name that it knows for loaded, so each load has another name of its file. */
    char path[160] = "/proc/self/fd";
    for (uint64_t bits = serial++; bits; bits >>= 1) strcat(path, bits & 1 ? "/." : "/");
    sprintf(path + strlen(path), "/%d", module.file);
    module.library = dlopen(path, RTLD_NOW | RTLD_LOCAL);
    if (!module.library) fault = dlerror();
  }
  Module *loaded = fault ? NULL : malloc(sizeof *loaded);
  if (loaded) return *loaded = module, loaded;
  if (module.file >= 0) close(module.file);
  snprintf(answer->text, sizeof answer->text, "the image of %llu bytes cannot be loaded: %s", (unsigned long long)size,
           fault);
  answer->status = TB_INVALID_ARGUMENT;
  return NULL;
}

static void unload(Module *module) {
  dlclose(module->library);
  close(module->file);
  free(module);
}

/* The address of what an image exports; dlsym alone would also find what its libraries do. */
static void *find(const Module *module, const char *prefix, const char *name, Answer *answer) {
  char symbol[320];
  snprintf(symbol, sizeof symbol, "%s%s", prefix, name);
  void *address = dlsym(module->library, symbol), *entry = NULL, *other = dlsym(RTLD_DEFAULT, symbol);
  Dl_info info;
  if (address && address != other && dladdr1(address, &info, &entry, RTLD_DL_SYMENT) && entry &&
      ELF64_ST_TYPE(((Elf64_Sym *)entry)->st_info) == STT_OBJECT) {
    answer->size = ((Elf64_Sym *)entry)->st_size;
    return address;
  }
  snprintf(answer->text, sizeof answer->text, "the module has no such %s as %s", *prefix ? "kernel" : "variable", name);
  answer->status = TB_NOT_FOUND;
  return NULL;
}

/* ---- Launches: a block runs on one thread of the chip. Where its threads wait for each other, each has a stack. ------ */

typedef struct Fiber {
  mychip_lane lane;
  ucontext_t start;
  jmp_buf place;
  int begun, done;
} Fiber;

typedef struct Core {
  const mychip_entry *entry;
  const void *arguments[MOST_ARGUMENTS];
  Fiber *fibers; /* MOST_THREADS of them */
  char *stacks;
  Fiber *running;
  jmp_buf scheduler;
} Core;

static _Thread_local Core core;

static void wait_for_others(void) {
  if (_setjmp(core.running->place) == 0) _longjmp(core.scheduler, 1);
}

static void run_fiber(void) {
  core.entry->run(&core.running->lane, core.arguments);
  core.running->done = 1;
  _longjmp(core.scheduler, 1);
}

/* Runs a fiber to its next barrier, or its end. */
__attribute__((noinline)) static void resume(Fiber *fiber) {
  core.running = fiber;
  if (_setjmp(core.scheduler) != 0) return;
  if (fiber->begun) _longjmp(fiber->place, 1);
  fiber->begun = 1;
  setcontext(&fiber->start);
}

static void prepare(Fiber *fiber, char *stack) {
  fiber->begun = fiber->done = 0;
  getcontext(&fiber->start);
  fiber->start.uc_stack = (stack_t){stack, 0, STACK_BYTES};
  makecontext(&fiber->start, run_fiber, 0);
}

static void run_block(mychip_block *block, unsigned threads) {
  for (unsigned i = 0; i < threads; ++i) {
    const unsigned x = block->size.x, y = block->size.y;
    Fiber *fiber = &core.fibers[i];
    fiber->lane = (mychip_lane){{i % x, i / x % y, i / x / y}, block, wait_for_others};
    if (core.entry->barriers)
      prepare(fiber, core.stacks + i * STACK_BYTES);
    else
      core.entry->run(&fiber->lane, core.arguments);
  }
  for (unsigned ended = core.entry->barriers ? 0 : threads; ended < threads;) {
    ended = 0;
    for (unsigned i = 0; i < threads; ++i) {
      resume(&core.fibers[i]);
      ended += core.fibers[i].done;
    }
    if (ended == 0 || ended == threads) continue;
    block->status = TB_INTERNAL;
    block->failure = "some threads of a block ended while others waited at a barrier";
    return;
  }
}

static void launch(Channel *channel) {
  core.entry = (const mychip_entry *)channel->kernel;
  for (uint32_t i = 0; i < channel->argument_count; ++i)
    core.arguments[i] = channel->piece + channel->argument_places[i];
  const uint32_t *grid = channel->grid, *size = channel->block;
  mychip_block block = {.size = {size[0], size[1], size[2]}, .grid = {grid[0], grid[1], grid[2]}};
  for (unsigned z = 0; z < grid[2]; ++z)
    for (unsigned y = 0; y < grid[1]; ++y)
      for (unsigned x = 0; x < grid[0] && !block.status; ++x) {
        block.index = (mychip_index){x, y, z};
        run_block(&block, size[0] * size[1] * size[2]);
      }
  channel->status = block.status;
  snprintf(channel->text, sizeof channel->text, "%s", block.status ? block.failure : "");
}

/* ---- Channels and requests. ---------------------------------------------------------------------------------------- */

static void run_command(Channel *channel) {
  char *to = (char *)channel->to;
  channel->status = TB_OK;
  switch (channel->kind) {
  case READ:
    memcpy(channel->piece, (const void *)channel->from, channel->size);
    break;
  case WRITE:
    memcpy(to, channel->piece, channel->size);
    break;
  case COPY:
    memmove(to, (const void *)channel->from, channel->size);
    break;
  case FILL:
    for (uint64_t i = 0; i < channel->size; ++i)
      memcpy(to + i * channel->pattern_size, &channel->pattern, channel->pattern_size);
    break;
  case LAUNCH:
    launch(channel);
    break;
  }
}

static void *serve_channel(void *argument) {
  Channel *channel = argument;
  core.fibers = malloc(MOST_THREADS * sizeof *core.fibers);
  core.stacks = mmap(NULL, MOST_THREADS * STACK_BYTES, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (!core.fibers || core.stacks == MAP_FAILED) _exit(1);
  for (uint32_t done = 0;; ++done) {
    while (atomic_load(&channel->asked) == done) syscall(SYS_futex, &channel->asked, FUTEX_WAIT, done, NULL, NULL, 0);
    run_command(channel);
    atomic_store(&channel->answered, done + 1);
    syscall(SYS_futex, &channel->answered, FUTEX_WAKE, 1, NULL, NULL, 0);
  }
  return NULL;
}

static Block shared, own;

static void serve_request(Request *request, Answer *answer) {
  const char *place = (const char *)request->handle;
  Module *module = (Module *)request->handle;
  pthread_t thread;
  switch (request->kind) {
  case ALLOCATE:
  case ALLOCATE_SHARED:
    answer->handle = allocate(request->kind == ALLOCATE ? &own : &shared, request->size);
    if (answer->handle) break;
    answer->status = TB_OUT_OF_MEMORY;
    snprintf(answer->text, sizeof answer->text, "no block of %llu bytes is free in 1 GiB of memory",
             (unsigned long long)request->size);
    break;
  case RELEASE:
    if (release(request->handle < own.address ? &shared : &own, request->handle)) break;
    answer->status = TB_INVALID_ARGUMENT;
    snprintf(answer->text, sizeof answer->text, "no block begins at 0x%llx", (unsigned long long)request->handle);
    break;
  case GET_FREE_BYTES:
    answer->size = free_bytes(&own);
    break;
  case LOAD:
    answer->handle = (uint64_t)load(place, request->size, answer);
    break;
  case UNLOAD:
    unload(module);
    break;
  case FIND_KERNEL: {
    const mychip_entry *entry = find(module, "mychip_entry_", request->name, answer);
    answer->handle = (uint64_t)entry;
    answer->threads = entry ? entry->threads : 0;
    break;
  }
  case FIND_VARIABLE:
    answer->handle = (uint64_t)find(module, "", request->name, answer);
    break;
  case OPEN_CHANNEL:
    if (pthread_create(&thread, NULL, serve_channel, (void *)request->handle) == 0) break;
    answer->status = TB_UNAVAILABLE;
    snprintf(answer->text, sizeof answer->text, "the chip has no thread for another channel");
    break;
  }
}

static int map(uint64_t address, uint64_t size, int flags, int file) {
  return mmap((void *)address, size, PROT_READ | PROT_WRITE, flags | MAP_FIXED_NOREPLACE, file, 0) == (void *)address;
}

int main(int count, char **words) {
  const uint64_t base = count == 2 ? strtoull(words[1], NULL, 16) : 0;
  shared = (Block){NULL, base, SHARED_BYTES, 1};
  own = (Block){NULL, base + SHARED_BYTES, DEVICE_BYTES, 1};
  Answer answer = {.status = TB_OK};
  if (!base || !map(shared.address, shared.size, MAP_SHARED, 1) ||
      !map(own.address, own.size, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1))
    answer.status = TB_UNAVAILABLE; /* its addresses are in use */
  Request request;
  while (send(0, &answer, sizeof answer, MSG_NOSIGNAL) == sizeof answer &&
         recv(0, &request, sizeof request, MSG_WAITALL) == sizeof request) {
    answer = (Answer){.status = TB_OK};
    serve_request(&request, &answer);
  }
  _exit(0);
}
