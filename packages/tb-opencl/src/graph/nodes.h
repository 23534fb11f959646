// Captured work: commands with their arguments, in the order of their capture. That is a valid order also where streams
// forked and joined.
#pragma once

#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "memory/memory.h"
#include "streams/stream.h"

namespace tb::opencl {

// A copy, or a fill where `src` is null.
struct Transfer {
  void *dst;
  const void *src;
  uint64_t size;
  size_t unit;              // of a fill
  unsigned char pattern[4]; // `unit` bytes of it

  bool overlaps() const {
    const auto to = reinterpret_cast<uintptr_t>(dst), from = reinterpret_cast<uintptr_t>(src);
    return src && to < from + size && from < to + size;
  }
};

struct Grid {
  size_t local[3], global[3];
};

// A kernel object of its own, which holds the arguments of one launch.
class KernelCall {
public:
  KernelCall(const Functions &cl, cl_program program, const std::string &name, const Grid &grid, cl_int *code)
      : grid(grid), program(program), name(name), cl_(cl), kernel_(cl.clCreateKernel(program, name.c_str(), code)) {}
  KernelCall(KernelCall &&other) noexcept
      : grid(other.grid), program(other.program), name(std::move(other.name)), failure_argument(other.failure_argument),
        cl_(other.cl_), kernel_(std::exchange(other.kernel_, nullptr)) {}
  KernelCall &operator=(KernelCall &&) = delete;
  ~KernelCall() {
    if (kernel_) cl_.clReleaseKernel(kernel_);
  }

  cl_kernel get() const { return kernel_; }

  Grid grid;
  cl_program program; // with the name: which kernel it is
  std::string name;
  std::optional<cl_uint> failure_argument; // the place of the two arguments by which a check reports

private:
  const Functions &cl_;
  cl_kernel kernel_;
};

// What one call of the table enqueues: some transfers, or a kernel.
struct Node {
  enum class Kind { copy, fill, launch };
  Kind kind;
  std::vector<Transfer> transfers;
  std::optional<KernelCall> call;
  std::vector<std::shared_ptr<void>> blocks; // memory of the node's own

  bool has_kind_of(const Node &other) const {
    if (kind != other.kind || kind != Kind::launch) return kind == other.kind;
    return call->program == other.call->program && call->name == other.call->name;
  }
};

// Changed while capturing, constant from then on.
struct NodeList {
  int32_t device = 0;
  std::vector<Node> nodes;
  std::vector<Point> prerequisites; // records outside the capture that captured work waited for
  std::mutex recording;             // of the nodes' kernel objects, whose last arguments differ by executable

  bool owns_memory() const {
    for (const Node &node : nodes)
      if (!node.blocks.empty()) return true;
    return false;
  }
};

} // namespace tb::opencl
