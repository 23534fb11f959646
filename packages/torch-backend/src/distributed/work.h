// work.h -- what a call of a process group returns.
#pragma once
#include "collective.h"
#include "engine_tensors.h"

namespace tb::distributed {

// TB_DISTRIBUTED_WAIT=host: wait() blocks the calling thread until the call is done, and raises its failure. Otherwise the
// current stream waits, and the thread goes on.
extern bool host_waits;

// What both kinds of engines have in common: results that are brought back and memory that is kept until a stream waits.
class DeviceWork : public c10d::Work {
public:
  using Tensors = std::vector<at::Tensor>;
  Tensors result() override { return results_; }
  void synchronize() override; // the current stream waits
  void blockCurrentStream() override { synchronize(); }
  c10::intrusive_ptr<c10::ivalue::Future> getFuture() override;

protected:
  // results: what result() and the Future give.
  DeviceWork(std::shared_ptr<CallOrder> order, EngineTensors &tensors, Tensors results);
  // Lets the current stream wait for the engine. Returns whether the engine was done already, so that nothing waits.
  virtual bool wait_on_stream(tb_stream *stream) = 0;
  void bring_results_back();
  void release_storages(tb_stream *waiting);

  const std::shared_ptr<CallOrder> order_;
  const int32_t device_;
  const Tensors results_;
  std::vector<c10::Storage> storages_;
  std::vector<StagedCopy> copies_;
  std::mutex future_mutex_;
  c10::intrusive_ptr<c10::ivalue::Future> future_;
};

// Of an engine with threads, which knows no streams: gloo.
class HostEngineWork final : public DeviceWork {
public:
  HostEngineWork(std::shared_ptr<Collective> collective, std::shared_ptr<CallOrder> order, EngineTensors &tensors,
                 Tensors results);
  // A call whose Work is dropped goes on; its memory is kept until it is done.
  ~HostEngineWork() override;

  bool isCompleted() override;
  bool isSuccess() const override { return collective_->done() && collective_->failure().empty(); }
  std::exception_ptr exception() const override;
  int sourceRank() const override { return collective_->source(); }
  void abort() override { collective_->abort(); }
  uint64_t getSequencenumber() const override { return collective_->number(); }
  // With a limit the thread waits. DistBackendError: the call failed, or was not done within the limit.
  bool wait(std::chrono::milliseconds limit) override;

private:
  bool wait_on_stream(tb_stream *stream) override;

  const std::shared_ptr<Collective> collective_;
};

// Of an engine that queues its work on streams of another PyTorch backend, whose memory and streams are the driver's: NCCL.
// What the engine does at a wait, it does to that backend's current stream.
class StreamEngineWork final : public DeviceWork {
public:
  StreamEngineWork(c10::intrusive_ptr<c10d::Work> work, c10::DeviceType of_engine, std::shared_ptr<CallOrder> order,
                   EngineTensors &tensors, Tensors results);
  // A stream of the group waits in place of those of the program.
  ~StreamEngineWork() override;

  bool isCompleted() override { return work_->isCompleted(); }
  bool isSuccess() const override { return work_->isSuccess(); }
  std::exception_ptr exception() const override { return work_->exception(); }
  int sourceRank() const override { return work_->sourceRank(); }
  void abort() override { work_->abort(); }
  float getDuration() const override { return work_->getDuration(); }
  uint64_t getSequencenumber() const override { return work_->getSequencenumber(); }
  bool wait(std::chrono::milliseconds limit) override;

private:
  bool wait_on_stream(tb_stream *stream) override;

  const c10::intrusive_ptr<c10d::Work> work_;
  const c10::DeviceType of_engine_;
};

} // namespace tb::distributed
