// backend.h -- "tbccl", c10d's backend for tb tensors. It has no transport of its own: an engine, which is a c10d::Backend for
// CPU tensors, moves the bytes, and this class ties it to tb's streams and memory.
#pragma once
#include "work.h"

namespace tb::distributed {

class Backend final : public c10d::Backend {
public:
  using Tensor = at::Tensor;
  using Tensors = std::vector<at::Tensor>;
  using TensorLists = std::vector<Tensors>;
  using WorkPointer = c10::intrusive_ptr<c10d::Work>;
  using Sizes = std::vector<int64_t>;

  explicit Backend(c10::intrusive_ptr<c10d::Backend> engine);

  const std::string getBackendName() const override { return "tbccl"; }
  c10::intrusive_ptr<Options> getBackendOptions() override { return engine().getBackendOptions(); }
  void setTimeout(std::chrono::milliseconds timeout) override { engine().setTimeout(timeout); }
  void setGroupUid(const std::string &name) override;
  // All ranks make the same calls, so their counts are equal.
  void setSequenceNumberForGroup() override {}
  uint64_t getSequenceNumberForGroup() override { return order_->number(); }
  c10d::ErrorType getError() override;
  bool supportsSplitting() const override { return order_->engine().supportsSplitting(); }
  c10::intrusive_ptr<c10d::Backend> split(const c10::intrusive_ptr<c10d::Store> &store, const std::vector<int> &ranks,
                                          const c10::intrusive_ptr<Options> &options) override;
  void abort() override { order_->abort("the process group was aborted"); }
  void shutdown() override { engine().shutdown(); }

  // Later versions of PyTorch have other names for some of these, and forward them to these.
  WorkPointer broadcast(Tensors &, const c10d::BroadcastOptions &) override;
  WorkPointer allreduce(Tensors &, const c10d::AllreduceOptions &) override;
  WorkPointer allreduce_coalesced(Tensors &, const c10d::AllreduceCoalescedOptions &) override;
  WorkPointer reduce(Tensors &, const c10d::ReduceOptions &) override;
  WorkPointer allgather(TensorLists &, Tensors &, const c10d::AllgatherOptions &) override;
  WorkPointer _allgather_base(Tensor &, Tensor &, const c10d::AllgatherOptions &) override;
  WorkPointer allgather_coalesced(TensorLists &, Tensors &, const c10d::AllgatherOptions &) override;
  WorkPointer allgather_into_tensor_coalesced(Tensors &, Tensors &, const c10d::AllgatherOptions &) override;
  WorkPointer gather(TensorLists &, Tensors &, const c10d::GatherOptions &) override;
  WorkPointer scatter(Tensors &, TensorLists &, const c10d::ScatterOptions &) override;
  WorkPointer reduce_scatter(Tensors &, TensorLists &, const c10d::ReduceScatterOptions &) override;
  WorkPointer _reduce_scatter_base(Tensor &, Tensor &, const c10d::ReduceScatterOptions &) override;
  WorkPointer reduce_scatter_tensor_coalesced(Tensors &, Tensors &, const c10d::ReduceScatterOptions &) override;
  WorkPointer alltoall_base(Tensor &, Tensor &, Sizes &, Sizes &, const c10d::AllToAllOptions &) override;
  WorkPointer alltoall(Tensors &, Tensors &, const c10d::AllToAllOptions &) override;
  WorkPointer send(Tensors &, int to, int tag) override;
  WorkPointer recv(Tensors &, int from, int tag) override;
  WorkPointer recvAnysource(Tensors &, int tag) override;
  WorkPointer barrier(const c10d::BarrierOptions &) override;
  void monitoredBarrier(const c10d::BarrierOptions &, bool wait_all_ranks) override;

private:
  c10d::Backend &engine() { return order_->engine(); }
  // Gives the call to the current stream, and never waits for it: another rank may need this one's next call first.
  // results: what the Work says it gives.
  WorkPointer submit(EngineTensors &tensors, Tensors results, Collective::Call call);

  const std::shared_ptr<CallOrder> order_;
};

} // namespace tb::distributed
