// The extension "tb.graph": captured work as command buffers.
#pragma once

#include "graph/command_buffer.h"
#include "tb/graph.h"

struct tb_graph {
  std::shared_ptr<tb::opencl::NodeList> nodes;
};

struct tb_graph_exec {
  std::mutex mutex; // of what follows
  std::shared_ptr<tb::opencl::NodeList> nodes;
  tb::opencl::CommandBuffer buffer; // null where there are no nodes
  std::shared_ptr<tb::opencl::FailureWord> word;
  tb::opencl::Event last; // of the newest launch
};

namespace tb::opencl {

// Fills the extension's table as far as `size` bytes reach.
tb_status give_graph_table(void *table, uint32_t size);

} // namespace tb::opencl
