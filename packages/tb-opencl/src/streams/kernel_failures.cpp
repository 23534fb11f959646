#include "streams/kernel_failures.h"

#include <new>

#include "opencl/failure.h"

namespace tb::opencl {

FailureWord::FailureWord(const Functions &cl, Memory &memory, int32_t device, cl_command_queue queue)
    : cl_(cl), memory_(memory), queue_(memory.host_reaches_pinned() ? nullptr : queue),
      word_(memory.allocate_own(device, sizeof(uint64_t), true)) {
  if (!word_) throw std::bad_alloc();
  if (queue_) {
    cl_.clRetainCommandQueue(queue_);
    constexpr uint64_t start = none;
    memory_.copy(queue_, true, word_, &start, sizeof start, nullptr);
  } else {
    *static_cast<uint64_t *>(word_) = none;
  }
}

FailureWord::~FailureWord() {
  if (queue_) cl_.clReleaseCommandQueue(queue_);
  memory_.free_own(word_);
}

cl_int FailureWord::set_arguments(cl_kernel kernel, cl_uint index, uint64_t launch) const {
  const cl_ulong number = launch << 8;
  const cl_int code = memory_.set_pointer(kernel, index, word_);
  return code == CL_SUCCESS ? cl_.clSetKernelArg(kernel, index + 1, sizeof number, &number) : code;
}

uint64_t FailureWord::read() {
  if (!queue_) return __atomic_load_n(static_cast<uint64_t *>(word_), __ATOMIC_ACQUIRE);
  const std::lock_guard lock(mutex_);
  uint64_t seen = none;
  memory_.copy(queue_, true, &seen, word_, sizeof seen, nullptr);
  return seen;
}

bool FailureWord::take(uint64_t seen) {
  if (!queue_)
    return __atomic_compare_exchange_n(static_cast<uint64_t *>(word_), &seen, none, false, __ATOMIC_ACQ_REL,
                                       __ATOMIC_RELAXED);
  const std::lock_guard lock(mutex_);
  uint64_t now = none;
  constexpr uint64_t cleared = none;
  if (memory_.copy(queue_, true, &now, word_, sizeof now, nullptr) != CL_SUCCESS || now != seen) return false;
  return memory_.copy(queue_, true, word_, &cleared, sizeof cleared, nullptr) == CL_SUCCESS;
}

void Covers::add(const Cover &cover) {
  for (Cover &own : list_)
    if (own.word == cover.word) {
      if (own.launch < cover.launch) own.launch = cover.launch;
      return;
    }
  list_.push_back(cover);
}

void Covers::add(const Covers &other) {
  for (const Cover &cover : other.list_) add(cover);
}

tb_status Covers::peek() const {
  for (const Cover &cover : list_)
    if (const uint64_t seen = cover.word->read(); seen != FailureWord::none && seen >> 8 <= cover.launch)
      return static_cast<tb_status>(seen & 255);
  return TB_OK;
}

tb_status Covers::report(const tb_host *host) const {
  for (const Cover &cover : list_) {
    const uint64_t seen = cover.word->read();
    if (seen == FailureWord::none || seen >> 8 > cover.launch || !cover.word->take(seen)) continue;
    return fail(host, static_cast<tb_status>(seen & 255), 0,
                "a check in a kernel failed, such as that of an index that is out of range");
  }
  return TB_OK;
}

} // namespace tb::opencl
