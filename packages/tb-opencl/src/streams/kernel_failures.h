// Failures that kernels note themselves, such as an index out of range, until a query or wait reports them.
//
// Each stream has a word in memory that its kernels reach. A kernel whose check fails stores the number of its launch
// and a status there, and the smallest number stays. A point of a stream covers the launches before it, of the stream
// itself and of streams that it waited for; the first query or wait for a point that covers a failure reports it.
#pragma once

#include <memory>
#include <vector>

#include "memory/memory.h"

namespace tb::opencl {

// launch number << 8 | status; all ones: no failure.
class FailureWord {
public:
  static constexpr uint64_t none = UINT64_MAX;

  // `queue` reads and resets the word where the host does not reach it. Throws std::bad_alloc.
  FailureWord(const Functions &cl, Memory &memory, int32_t device, cl_command_queue queue);
  ~FailureWord();
  FailureWord(const FailureWord &) = delete;
  FailureWord &operator=(const FailureWord &) = delete;

  // Sets the two arguments of a kernel, from `index` on, by which a failing check of that launch reports.
  cl_int set_arguments(cl_kernel kernel, cl_uint index, uint64_t launch) const;
  uint64_t read();
  // True for the one caller that replaces `seen` by none.
  bool take(uint64_t seen);

private:
  const Functions &cl_;
  Memory &memory_;
  cl_command_queue queue_; // only where the host reads by copies
  void *word_;
  std::mutex mutex_; // of copies
};

struct Cover {
  std::shared_ptr<FailureWord> word;
  uint64_t launch; // the last one that is covered
};

// What a point covers: one entry a stream.
class Covers {
public:
  void add(const Cover &cover);
  void add(const Covers &other);
  // The status of the first failure that is covered, or TB_OK; it stays.
  tb_status peek() const;
  // The same, reported: nobody else gets it.
  tb_status report(const tb_host *host) const;

private:
  std::vector<Cover> list_;
};

} // namespace tb::opencl
