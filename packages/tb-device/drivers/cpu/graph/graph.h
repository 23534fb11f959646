// Captured work: its nodes, and the executables that replay them (the extension tb.graph).
//
// A node is a closure, exactly as the queue of a stream would hold it, in storage of its own. A launch queues one
// closure, which runs the nodes in the order of their capture: a valid order, also where streams forked and joined.
#pragma once

#include <cstdlib>
#include <memory>
#include <mutex>
#include <vector>

#include "drivers/cpu/stream/event.h"
#include "drivers/cpu/stream/stream.h"
#include "tb/graph.h"

namespace tb::drivers::cpu {

// Shared by the graph, its executables and queued launches; the last one destroys the closures.
class NodeList {
public:
  struct Node {
    struct Free {
      void operator()(void *memory) const noexcept { std::free(memory); }
    };
    std::unique_ptr<void, Free> storage;
    const tb_closure *closure; // NULL between reserve and commit
    int32_t device;
  };

  NodeList() = default;
  NodeList(const NodeList &) = delete;
  NodeList &operator=(const NodeList &) = delete;
  ~NodeList();

  // Changed while capturing, constant from then on.
  std::vector<Node> nodes;
  std::vector<Event::Point> prerequisites; // records outside the capture that captured work waited for

  // Runs every node on the worker of the context's stream. A closure must not run twice at a time, so runs of one list
  // exclude each other, also those of several executables.
  void run(const tb_closure_context &context);

private:
  std::mutex running_;
};

struct Graph {
  std::shared_ptr<NodeList> nodes;
  tb_graph *handle() noexcept { return reinterpret_cast<tb_graph *>(this); }
  static Graph *of(tb_graph *handle) noexcept { return reinterpret_cast<Graph *>(handle); }
};

class Executable {
public:
  explicit Executable(std::shared_ptr<NodeList> nodes) : nodes_(std::move(nodes)) {}
  void retain() noexcept { references_.fetch_add(1, std::memory_order_relaxed); }
  void release() noexcept {
    if (references_.fetch_sub(1, std::memory_order_acq_rel) == 1) delete this;
  }
  tb_graph_exec *handle() noexcept { return reinterpret_cast<tb_graph_exec *>(this); }
  static Executable *of(tb_graph_exec *handle) noexcept { return reinterpret_cast<Executable *>(handle); }

  tb_status launch(Stream &stream);
  // Fails with a text, and without a change, when the shapes differ.
  tb_status update(const tb_host *host, std::shared_ptr<NodeList> nodes);

private:
  friend struct ReplayWork;
  ~Executable() = default;

  std::atomic<uint32_t> references_{1}; // the handle and queued launches
  std::mutex mutex_;
  std::shared_ptr<NodeList> nodes_; // of the next launch
  std::mutex running_;              // held by a running launch
};

} // namespace tb::drivers::cpu
