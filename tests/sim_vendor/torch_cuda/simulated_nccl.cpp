// simulated_nccl.cpp -- takes the place of PyTorch's ProcessGroupNCCL where there is no GPU, on the simulated libcuda.
//
// Like that, it takes dense CUDA tensors only, knows nothing of tb, waits for CUDA's current stream, works on a stream of its
// own, and lets the current stream of a wait wait for it. Gloo carries the bytes. Its results come late (SIMULATED_NCCL_LATE,
// milliseconds), so that a reader who does not wait reads something else.
#include <ATen/ops/empty.h>
#include <c10/core/impl/VirtualGuardImpl.h>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/library.h>

#include <atomic>
#include <chrono>
#include <cstdlib>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "libcuda.h"

namespace {

using Stream = void *;
using Event = void *;
using Tensors = std::vector<at::Tensor>;
using TensorLists = std::vector<Tensors>;
using WorkPointer = c10::intrusive_ptr<c10d::Work>;
std::atomic<int64_t> calls{0}, waits{0};

Stream current_stream() {
  const c10::impl::VirtualGuardImpl guard(c10::kCUDA);
  return reinterpret_cast<Stream>(guard.getStream(guard.getDevice()).id());
}
Event make_event() {
  Event event = nullptr;
  cuda("cuEventCreate", &event, 2u);
  return event;
}
Address address(const at::Tensor &tensor) { return reinterpret_cast<Address>(tensor.data_ptr()); }
void be_late(void *) {
  const char *asked = std::getenv("SIMULATED_NCCL_LATE");
  std::this_thread::sleep_for(std::chrono::milliseconds(asked ? std::atoi(asked) : 3));
}

struct SimulatedWork final : c10d::Work {
  SimulatedWork() : c10d::Work(-1, c10d::OpType::UNKNOWN), end(make_event()) {}
  ~SimulatedWork() override { cuda("cuEventDestroy_v2", end); }
  const Event end;
  // NCCL asks the event; this one has no error to hide.
  bool isCompleted() override { return false; }
  void synchronize() override {
    waits++;
    cuda("cuStreamWaitEvent", current_stream(), end, 0u);
  }
  bool wait(std::chrono::milliseconds) override {
    synchronize();
    return true;
  }
};

// One call that gloo has begun: what is to be written when it is done.
struct Begun {
  WorkPointer gloo;
  Tensors outs, hosts;
};

class SimulatedNccl final : public c10d::Backend {
public:
  explicit SimulatedNccl(c10::intrusive_ptr<c10d::Backend> gloo)
      : c10d::Backend(gloo->getRank(), gloo->getSize()), gloo_(std::move(gloo)) {}
  const std::string getBackendName() const override { return "simulated_nccl"; }
  bool supportsCoalescing() const override { return true; }
  void setTimeout(std::chrono::milliseconds timeout) override { gloo_->setTimeout(timeout); }
  uint64_t getSequenceNumberForGroup() override { return sequence_; }
  void startCoalescing() override { coalesced_.emplace(); }
  WorkPointer endCoalescing() override { return finish(*std::exchange(coalesced_, std::nullopt)); }

  WorkPointer allreduce(Tensors &t, const c10d::AllreduceOptions &options) override {
    return run(t, t, [&](Tensors &, Tensors &out) { return gloo_->allreduce(out, options); });
  }
  WorkPointer broadcast(Tensors &t, const c10d::BroadcastOptions &options) override {
    return run(t, t, [&](Tensors &, Tensors &out) { return gloo_->broadcast(out, options); });
  }
  WorkPointer reduce(Tensors &t, const c10d::ReduceOptions &options) override {
    return run(t, t, [&](Tensors &, Tensors &out) { return gloo_->reduce(out, options); });
  }
  WorkPointer allgather(TensorLists &outs, Tensors &in, const c10d::AllgatherOptions &options) override {
    return run(in, outs.at(0), [&](Tensors &in, Tensors &out) {
      TensorLists lists{out};
      return gloo_->allgather(lists, in, options);
    });
  }
  WorkPointer _allgather_base(at::Tensor &out, at::Tensor &in, const c10d::AllgatherOptions &options) override {
    return run({in}, {out}, [&](Tensors &in, Tensors &out) { return gloo_->_allgather_base(out[0], in[0], options); });
  }
  WorkPointer reduce_scatter(Tensors &out, TensorLists &ins, const c10d::ReduceScatterOptions &options) override {
    return run(ins.at(0), out, [&](Tensors &in, Tensors &out) {
      TensorLists lists{in};
      return gloo_->reduce_scatter(out, lists, options);
    });
  }
  WorkPointer _reduce_scatter_base(at::Tensor &out, at::Tensor &in,
                                   const c10d::ReduceScatterOptions &options) override {
    return run({in}, {out},
               [&](Tensors &in, Tensors &out) { return gloo_->_reduce_scatter_base(out[0], in[0], options); });
  }
  WorkPointer alltoall_base(at::Tensor &out, at::Tensor &in, std::vector<int64_t> &outs, std::vector<int64_t> &ins,
                            const c10d::AllToAllOptions &options) override {
    return run({in}, {out},
               [&](Tensors &in, Tensors &out) { return gloo_->alltoall_base(out[0], in[0], outs, ins, options); });
  }
  WorkPointer gather(TensorLists &outs, Tensors &in, const c10d::GatherOptions &options) override {
    return run(in, outs.empty() ? Tensors{} : outs[0], [&](Tensors &in, Tensors &out) {
      TensorLists lists;
      if (!outs.empty()) lists.push_back(out);
      return gloo_->gather(lists, in, options);
    });
  }
  WorkPointer scatter(Tensors &out, TensorLists &ins, const c10d::ScatterOptions &options) override {
    return run(ins.empty() ? Tensors{} : ins[0], out, [&](Tensors &in, Tensors &out) {
      TensorLists lists;
      if (!ins.empty()) lists.push_back(in);
      return gloo_->scatter(out, lists, options);
    });
  }
  WorkPointer alltoall(Tensors &out, Tensors &in, const c10d::AllToAllOptions &options) override {
    return run(in, out, [&](Tensors &in, Tensors &out) { return gloo_->alltoall(out, in, options); });
  }
  WorkPointer allreduce_coalesced(Tensors &t, const c10d::AllreduceCoalescedOptions &options) override {
    return run(t, t, [&](Tensors &, Tensors &out) { return gloo_->allreduce_coalesced(out, options); });
  }
  WorkPointer allgather_into_tensor_coalesced(Tensors &out, Tensors &in,
                                              const c10d::AllgatherOptions &options) override {
    return run(in, out,
               [&](Tensors &in, Tensors &out) { return gloo_->allgather_into_tensor_coalesced(out, in, options); });
  }
  WorkPointer reduce_scatter_tensor_coalesced(Tensors &out, Tensors &in,
                                              const c10d::ReduceScatterOptions &options) override {
    return run(in, out,
               [&](Tensors &in, Tensors &out) { return gloo_->reduce_scatter_tensor_coalesced(out, in, options); });
  }
  WorkPointer send(Tensors &t, int to, int tag) override {
    return run(t, {}, [&](Tensors &in, Tensors &) { return gloo_->send(in, to, tag); });
  }
  WorkPointer recv(Tensors &t, int from, int tag) override {
    return run({}, t, [&](Tensors &, Tensors &out) { return gloo_->recv(out, from, tag); });
  }
  WorkPointer barrier(const c10d::BarrierOptions &options) override {
    TORCH_CHECK(options.device && options.device->is_cuda(), "simulated NCCL: a barrier without a CUDA device");
    cuda("cuStreamSynchronize", current_stream());
    gloo_->barrier(c10d::BarrierOptions())->wait();
    return finish({});
  }

private:
  template <class Call> WorkPointer run(const Tensors &ins, const Tensors &outs, Call call) {
    calls++;
    sequence_++;
    for (const Tensors *some : {&ins, &outs})
      for (const at::Tensor &tensor : *some)
        TORCH_CHECK(tensor.is_cuda() && tensor.is_contiguous(), "simulated NCCL: a tensor on ", tensor.device(),
                    tensor.is_contiguous() ? "" : ", not contiguous");
    if (!stream_) cuda("cuStreamCreate", &stream_, 1u);
    const Event begin = make_event();
    cuda("cuEventRecord", begin, current_stream());
    cuda("cuStreamWaitEvent", stream_, begin, 0u);
    cuda("cuEventDestroy_v2", begin);
    Tensors hosts_in, hosts_out;
    for (const at::Tensor &tensor : ins) {
      hosts_in.push_back(at::empty(tensor.sizes(), tensor.options().device(c10::kCPU)));
      cuda("cuMemcpyDtoHAsync_v2", hosts_in.back().data_ptr(), address(tensor), tensor.nbytes(), stream_);
    }
    cuda("cuStreamSynchronize", stream_);
    for (const at::Tensor &tensor : outs) {
      at::Tensor host;
      for (size_t i = 0; i < ins.size(); i++)
        if (ins[i].data_ptr() == tensor.data_ptr() && ins[i].nbytes() == tensor.nbytes()) host = hosts_in[i];
      hosts_out.push_back(host.defined() ? host : at::empty(tensor.sizes(), tensor.options().device(c10::kCPU)));
    }
    Begun begun{call(hosts_in, hosts_out), outs, hosts_out};
    begun.hosts.insert(begun.hosts.end(), hosts_in.begin(), hosts_in.end()); // alive until gloo is done
    if (!coalesced_) return finish({std::move(begun)});
    coalesced_->push_back(std::move(begun));
    return nullptr;
  }

  WorkPointer finish(std::vector<Begun> all) {
    auto work = c10::make_intrusive<SimulatedWork>();
    if (!stream_) cuda("cuStreamCreate", &stream_, 1u);
    for (const Begun &begun : all) begun.gloo->wait();
    cuda("cuLaunchHostFunc", stream_, &be_late, static_cast<void *>(nullptr));
    static auto &sources = *new Tensors; // copies are read late
    for (const Begun &begun : all)
      for (size_t i = 0; i < begun.outs.size(); i++) {
        cuda("cuMemcpyHtoDAsync_v2", address(begun.outs[i]), begun.hosts[i].const_data_ptr(), begun.outs[i].nbytes(),
             stream_);
        sources.push_back(begun.hosts[i]);
      }
    cuda("cuEventRecord", work->end, stream_);
    return work;
  }

  const c10::intrusive_ptr<c10d::Backend> gloo_;
  Stream stream_ = nullptr;
  std::optional<std::vector<Begun>> coalesced_;
  uint64_t sequence_ = 0;
};

// Gives the group a backend for CUDA tensors over the one that it has for the CPU's.
void add_backend(const c10::intrusive_ptr<c10d::ProcessGroup> &group) {
  group->setBackend(c10::kCUDA, c10d::ProcessGroup::BackendType::CUSTOM,
                    c10::make_intrusive<SimulatedNccl>(group->getBackend(c10::kCPU)));
}

} // namespace

TORCH_LIBRARY(simulated_nccl, m) {
  m.def("add_backend(__torch__.torch.classes.c10d.ProcessGroup group) -> ()", &add_backend);
  m.def("counts() -> int[]", [] { return std::vector<int64_t>{calls.load(), waits.load()}; });
}
