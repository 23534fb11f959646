// work.h -- what a call of a process group returns.
#pragma once
#include "collective.h"
#include "engine_tensors.h"

namespace tb::distributed {

// TB_DISTRIBUTED_WAIT=host: wait() blocks the calling thread until the call is done, and raises its failure. Otherwise the
// current stream waits, and the thread goes on.
extern bool host_waits;

class StreamWork final : public c10d::Work {
public:
  using Tensors = std::vector<at::Tensor>;
  // results: what result() and the Future give.
  StreamWork(std::shared_ptr<Collective> collective, std::shared_ptr<CallOrder> order, EngineTensors &tensors,
             Tensors results);
  // A call whose Work is dropped goes on; its memory is kept until it is done.
  ~StreamWork() override;

  bool isCompleted() override { return collective_->done(); }
  bool isSuccess() const override { return collective_->done() && collective_->failure().empty(); }
  std::exception_ptr exception() const override;
  int sourceRank() const override { return collective_->source(); }
  Tensors result() override { return results_; }
  void abort() override { collective_->abort(); }
  uint64_t getSequencenumber() const override { return collective_->number(); }
  // With a limit the thread waits. DistBackendError: the call failed, or was not done within the limit.
  bool wait(std::chrono::milliseconds limit) override;
  void synchronize() override; // the current stream waits
  void blockCurrentStream() override { synchronize(); }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;

private:
  void bring_results_back();
  void release_storages(tb_stream *waiting);

  const std::shared_ptr<Collective> collective_;
  const std::shared_ptr<CallOrder> order_;
  const int32_t device_;
  const Tensors results_;
  std::vector<c10::Storage> storages_;
  std::vector<StagedCopy> copies_;
  std::mutex future_mutex_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

} // namespace tb::distributed
