// backend.h -- "tbccl", c10d's backend for tb tensors. It has no transport of its own: an engine, which is a c10d::Backend of
// PyTorch's, moves the bytes, and this class ties it to tb's streams and memory.
//
// The engine of the host, gloo, takes CPU tensors and knows no streams. An engine of streams, such as NCCL, takes tensors of
// another device of PyTorch's, whose memory and streams are the driver's, and orders its work on them itself.
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

  using Engine = c10d::Backend;
  // of_streams: serves drivers that have the memory and streams of `streams_device`; nullptr for none.
  Backend(c10::intrusive_ptr<Engine> of_host, c10::intrusive_ptr<Engine> of_streams, c10::DeviceType streams_device);

  const std::string getBackendName() const override { return "tbccl"; }
  c10::intrusive_ptr<Options> getBackendOptions() override { return engine().getBackendOptions(); }
  void setTimeout(std::chrono::milliseconds timeout) override;
  void setGroupUid(const std::string &name) override;
  // All ranks make the same calls, so their counts are equal.
  void setSequenceNumberForGroup() override {}
  uint64_t getSequenceNumberForGroup() override;
  c10d::ErrorType getError() override;
  bool supportsSplitting() const override {
    return order_->engine().supportsSplitting() && (!of_streams_ || of_streams_->supportsSplitting());
  }
  c10::intrusive_ptr<c10d::Backend> split(const c10::intrusive_ptr<c10d::Store> &store, const std::vector<int> &ranks,
                                          const c10::intrusive_ptr<Options> &options) override;
  void abort() override;
  void shutdown() override;
  bool supportsCoalescing() const override { return streams() && of_streams_->supportsCoalescing(); }
  void startCoalescing() override;
  WorkPointer endCoalescing() override;
  void eagerConnectSingleDevice(at::Device device) override;

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
  // Whether the engine of streams serves the driver, which opens here.
  bool streams() const;
  Engine &engine() { return streams() ? *of_streams_ : order_->engine(); }
  EngineTensors tensors_for(const Operation &operation, int32_t device);
  EngineTensors tensors_for(const Operation &operation, const Tensor &first);
  // Refuses what gloo refuses too late; an engine of streams refuses at the call itself.
  void check_reduction(const Operation &operation, c10::ScalarType type, const c10d::ReduceOp &reduction);
  // Gives the call to the current stream, and never waits for it: another rank may need this one's next call first.
  // results: what the Work says it gives.
  WorkPointer submit(EngineTensors &tensors, Tensors results, Collective::Call call);
  WorkPointer submit_to_streams(EngineTensors &tensors, Tensors results, const Collective::Call &call);

  const std::shared_ptr<CallOrder> order_; // with the engine of the host
  const c10::intrusive_ptr<Engine> of_streams_;
  const c10::DeviceType streams_device_;
  // The calls between startCoalescing and endCoalescing, whose Work comes at the end.
  struct Coalesced {
    std::optional<EngineTensors> tensors; // of all calls
    Tensors results;
  };
  std::optional<Coalesced> coalesced_;
};

} // namespace tb::distributed
