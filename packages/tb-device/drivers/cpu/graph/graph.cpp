// Runs captured work.
#include "drivers/cpu/graph/graph.h"

#include <cstddef>

#include "drivers/common/error_text.h"
#include "drivers/cpu/device/device.h"

namespace tb::drivers::cpu {

struct ReplayWork {
  static constexpr char name[] = "graph_launch";
  static constexpr uint32_t flags = TB_CLOSURE_AFTER_FAILURE; // its nodes are left out one by one
  Ref<Executable> executable;
  std::shared_ptr<NodeList> nodes; // as of the launch: an update comes too late for it

  tb_status run(const tb_closure_context *context) {
    std::lock_guard lock(executable->running_);
    nodes->run(*context);
    return TB_OK;
  }
};

NodeList::~NodeList() {
  for (Node &node : nodes)
    if (node.closure) destroy_closure(*node.closure, node.storage.get());
}

namespace {

// The context that a node's closure receives, and the node's place in the list.
struct NodeContext {
  tb_closure_context given;
  const NodeList::Node *node, *end;

  static const tb_closure *next(const tb_closure_context *context, void **storage) noexcept {
    static_assert(offsetof(NodeContext, given) == 0);
    const auto &self = *reinterpret_cast<const NodeContext *>(context);
    const NodeList::Node *last = self.node;
    while (*storage && last->storage.get() != *storage)
      if (++last == self.end) return nullptr;
    if (++last == self.end) return nullptr;
    *storage = last->storage.get();
    return last->closure;
  }
};

} // namespace

void NodeList::run(const tb_closure_context &outer) {
  std::lock_guard lock(running_);
  Stream &stream = *Stream::of(outer.stream);
  NodeContext context = {outer, nodes.data(), nodes.data() + nodes.size()};
  context.given.next = &NodeContext::next;
  for (; context.node != context.end; ++context.node) {
    context.given.device = context.node->device;
    stream.run_closure(*context.node->closure, context.node->storage.get(), context.given, true);
  }
}

tb_status Executable::launch(Stream &stream) {
  std::shared_ptr<NodeList> nodes;
  {
    std::lock_guard lock(mutex_);
    nodes = nodes_;
  }
  for (const Event::Point &point : nodes->prerequisites)
    if (const tb_status status = wait_for_point(stream, point)) return status;
  return enqueue(stream, ReplayWork{Ref<Executable>(this), std::move(nodes)});
}

tb_status Executable::update(const tb_host *host, std::shared_ptr<NodeList> nodes) {
  std::lock_guard lock(mutex_);
  const auto &mine = nodes_->nodes, &theirs = nodes->nodes;
  if (mine.size() != theirs.size())
    return fail(host, TB_FAILED_PRECONDITION,
                "the executable has %zu nodes and the graph %zu: instantiate the graph again", mine.size(),
                theirs.size());
  for (size_t place = 0; place < mine.size(); ++place)
    if (mine[place].closure != theirs[place].closure || mine[place].device != theirs[place].device)
      return fail(host, TB_FAILED_PRECONDITION,
                  "node %zu is %.60s on device %d in the executable and %.60s on device %d in the graph: instantiate "
                  "the graph again",
                  place, mine[place].closure->name, mine[place].device, theirs[place].closure->name,
                  theirs[place].device);
  nodes_.swap(nodes); // the old list goes after the lock
  return TB_OK;
}

} // namespace tb::drivers::cpu
