// operation.h -- the operations of process groups: their names in errors and timelines.
#pragma once
#include <torch/csrc/distributed/c10d/Work.hpp>

#include "closure.h"

namespace tb::distributed {

class Collective;
class CallOrder;

// Runs on the caller's stream: the call's tensors are ready.
struct Start {
  std::shared_ptr<CallOrder> order;
  std::shared_ptr<Collective> collective;
  std::string operator()();
};
// Runs on the stream that needs the result. The engine must outlive its pending calls, so closures hold the order.
struct AwaitResult {
  std::shared_ptr<CallOrder> order;
  std::shared_ptr<Collective> collective;
  std::string operator()();
};

struct Operation {
  const char *name; // as torch.distributed has it
  c10d::OpType type;
  tb_closure start, wait;
  // The name of c10d's operator, for timelines.
  const char *operator_name() const { return wait.name + sizeof "wait for " - 1; }
  bool only_moves = true; // the engine copies bytes, and does not compute with elements
};

namespace operations {

using enum c10d::OpType;

constexpr Operation operation(const char *name, c10d::OpType type, const char *start, const char *wait,
                              bool only_moves = true) {
  return {name, type, closure_kind<Start>(start), closure_kind<AwaitResult>(wait), only_moves};
}

// The closures are static, as the driver demands.
inline constexpr Operation broadcast =
    operation("broadcast", BROADCAST, "start of c10d::broadcast_", "wait for c10d::broadcast_");
inline constexpr Operation all_reduce =
    operation("all_reduce", ALLREDUCE, "start of c10d::allreduce_", "wait for c10d::allreduce_", false);
inline constexpr Operation all_reduce_coalesced =
    operation("all_reduce_coalesced", ALLREDUCE_COALESCED, "start of c10d::allreduce_coalesced_",
              "wait for c10d::allreduce_coalesced_", false);
inline constexpr Operation reduce =
    operation("reduce", REDUCE, "start of c10d::reduce_", "wait for c10d::reduce_", false);
inline constexpr Operation all_gather =
    operation("all_gather", ALLGATHER, "start of c10d::allgather_", "wait for c10d::allgather_");
inline constexpr Operation all_gather_into_tensor = operation(
    "all_gather_into_tensor", _ALLGATHER_BASE, "start of c10d::_allgather_base_", "wait for c10d::_allgather_base_");
inline constexpr Operation all_gather_coalesced =
    operation("all_gather_coalesced", ALLGATHER_COALESCED, "start of c10d::allgather_coalesced_",
              "wait for c10d::allgather_coalesced_");
inline constexpr Operation all_gather_into_tensor_coalesced =
    operation("all_gather_into_tensor_coalesced", COALESCED, "start of c10d::allgather_into_tensor_coalesced_",
              "wait for c10d::allgather_into_tensor_coalesced_");
inline constexpr Operation gather = operation("gather", GATHER, "start of c10d::gather_", "wait for c10d::gather_");
inline constexpr Operation scatter =
    operation("scatter", SCATTER, "start of c10d::scatter_", "wait for c10d::scatter_");
inline constexpr Operation reduce_scatter = operation(
    "reduce_scatter", REDUCE_SCATTER, "start of c10d::reduce_scatter_", "wait for c10d::reduce_scatter_", false);
inline constexpr Operation reduce_scatter_tensor =
    operation("reduce_scatter_tensor", _REDUCE_SCATTER_BASE, "start of c10d::_reduce_scatter_base_",
              "wait for c10d::_reduce_scatter_base_", false);
inline constexpr Operation reduce_scatter_tensor_coalesced = operation(
    "reduce_scatter_tensor_coalesced", REDUCE_SCATTER_TENSOR_COALESCED,
    "start of c10d::reduce_scatter_tensor_coalesced_", "wait for c10d::reduce_scatter_tensor_coalesced_", false);
inline constexpr Operation all_to_all_single =
    operation("all_to_all_single", ALLTOALL_BASE, "start of c10d::alltoall_base_", "wait for c10d::alltoall_base_");
inline constexpr Operation all_to_all =
    operation("all_to_all", ALLTOALL, "start of c10d::alltoall_", "wait for c10d::alltoall_");
inline constexpr Operation send = operation("send", SEND, "start of c10d::send", "wait for c10d::send");
inline constexpr Operation recv = operation("recv", RECV, "start of c10d::recv_", "wait for c10d::recv_");
inline constexpr Operation recv_from_any = operation(
    "recv from any rank", RECVANYSOURCE, "start of c10d::recv_any_source_", "wait for c10d::recv_any_source_");
inline constexpr Operation coalesced =
    operation("coalesced calls", COALESCED, "start of coalesced c10d:: calls", "wait for coalesced c10d:: calls");
inline constexpr Operation barrier = operation("barrier", BARRIER, "start of c10d::barrier", "wait for c10d::barrier");

} // namespace operations
} // namespace tb::distributed
