// backend.cpp -- the calls of "tbccl", one short function each.
#include "backend.h"

#include "stream_order.h"

#include <ATen/Context.h>
#include <ATen/ThreadLocalState.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>

#include <thread>
#include <utility>

namespace tb::distributed {
namespace {

using Engine = Backend::Engine;

// In one dimension: gloo cuts the single tensor along its first one, which may be shorter than the group. It is the
// engine's own tensor, and dense; a view would be an operator of the engine's device, on whatever stream is current there.
at::Tensor flat(at::Tensor tensor) {
  tensor.unsafeGetTensorImpl()->set_sizes_contiguous(tensor.numel());
  return tensor;
}
std::vector<at::Tensor> flat(std::vector<at::Tensor> tensors) {
  for (at::Tensor &each : tensors) each = flat(std::move(each));
  return tensors;
}

// With gloo its first replay would be right, each later one would do nothing, and other calls of the group would wait for
// it. What other engines do was not tried.
void refuse_capture(const Operation &operation, int32_t device) {
  if (__atomic_load_n(runtime.stream.capturing, __ATOMIC_RELAXED) == 0) return; // a driver without graphs has no answer
  void *capture = nullptr;
  check(runtime.stream.capture_part(current_stream(device), nullptr, &capture), operation.name, device);
  TORCH_CHECK(!capture, operation.name,
              " is called while a graph is captured, which cannot hold what the engine of the process group does: call "
              "it before or after torch.tb.graph");
}

// Gloo keeps the caller's state in its work and drops it on a thread of its own. A Python object in it would take the
// interpreter's lock there, while the destructor of the process group may hold the lock and join that thread.
const at::ThreadLocalState &state_without_python() {
  static const at::ThreadLocalState state = [] {
    std::optional<at::ThreadLocalState> made;
    std::thread([&made] { made.emplace(); }).join();
    return *made;
  }();
  return state;
}

} // namespace

Backend::Backend(c10::intrusive_ptr<Engine> of_host, c10::intrusive_ptr<Engine> of_streams,
                 c10::DeviceType streams_device)
    : c10d::Backend(of_host->getRank(), of_host->getSize()), order_(CallOrder::make(std::move(of_host))),
      of_streams_(std::move(of_streams)), streams_device_(streams_device) {}

bool Backend::streams() const {
  if (!of_streams_) return false;
  open();
  if (runtime.native != c10::DeviceTypeName(streams_device_, /*lower_case=*/true)) return false;
  at::globalContext().lazyInitDevice(streams_device_); // the engine allocates there
  return true;
}

EngineTensors Backend::tensors_for(const Operation &operation, int32_t device) {
  return {operation, device, streams() ? streams_device_ : c10::kCPU};
}
EngineTensors Backend::tensors_for(const Operation &operation, const Tensor &first) {
  return tensors_for(operation, first.device().index());
}

void Backend::setTimeout(std::chrono::milliseconds timeout) {
  order_->engine().setTimeout(timeout);
  if (of_streams_) of_streams_->setTimeout(timeout);
}

void Backend::setGroupUid(const std::string &name) {
  c10d::Backend::setGroupUid(name);
  order_->group().set_name(name);
  order_->engine().setGroupUid(name);
  if (of_streams_) of_streams_->setGroupUid(name);
}

uint64_t Backend::getSequenceNumberForGroup() {
  return streams() ? of_streams_->getSequenceNumberForGroup() : order_->number();
}

c10d::ErrorType Backend::getError() {
  if (streams()) return of_streams_->getError();
  return order_->group().failure().empty() ? c10d::ErrorType::SUCCESS : c10d::ErrorType::COMM_ERROR;
}

c10::intrusive_ptr<c10d::Backend> Backend::split(const c10::intrusive_ptr<c10d::Store> &store,
                                                 const std::vector<int> &ranks, const c10::intrusive_ptr<Options> &) {
  const auto part_of = [&](Engine &whole, const char *name) {
    return whole.split(c10::make_intrusive<c10d::PrefixStore>(name, store), ranks, whole.getBackendOptions());
  };
  auto of_host = part_of(order_->engine(), "tb");
  auto of_streams = of_streams_ ? part_of(*of_streams_, "tb_streams") : nullptr;
  if (!of_host) return nullptr; // this rank is not in the part
  return c10::make_intrusive<Backend>(std::move(of_host), std::move(of_streams), streams_device_);
}

void Backend::abort() {
  order_->abort("the process group was aborted");
  if (of_streams_) of_streams_->abort();
}

void Backend::shutdown() {
  order_->engine().shutdown();
  if (of_streams_) of_streams_->shutdown();
}

void Backend::eagerConnectSingleDevice(at::Device device) {
  if (streams()) of_streams_->eagerConnectSingleDevice({streams_device_, device.index()});
}

void Backend::startCoalescing() {
  engine().startCoalescing();
  coalesced_.emplace();
}

Backend::WorkPointer Backend::endCoalescing() {
  Coalesced all = std::exchange(coalesced_, std::nullopt).value_or(Coalesced{});
  if (!all.tensors) return engine().endCoalescing();
  const OnStreams on = on_streams(streams_device_, all.tensors->device());
  WorkPointer work = engine().endCoalescing();
  tell_call(order_.get(), work.get(), *all.tensors);
  return c10::make_intrusive<StreamEngineWork>(std::move(work), streams_device_, order_, *all.tensors,
                                               std::move(all.results));
}

// Gloo refuses these on a thread of its own, too late for a traceback, and in these words.
void Backend::check_reduction(const Operation &operation, c10::ScalarType type, const c10d::ReduceOp &reduction) {
  if (streams()) return;
  using Op = c10d::ReduceOp;
  const bool takes_complex =
      operation.type != c10d::OpType::ALLREDUCE && operation.type != c10d::OpType::ALLREDUCE_COALESCED;
  if (takes_complex && c10::isComplexType(type) && (reduction == Op::SUM || reduction == Op::AVG)) return;
  TORCH_CHECK(engine_computes(type), "Invalid scalar type: ", operation.name, " cannot compute with ", type,
              ". Convert the tensor before.");
  const bool integral = c10::isIntegralType(type, /*includeBool=*/true);
  TORCH_CHECK(integral || (reduction != Op::BAND && reduction != Op::BOR && reduction != Op::BXOR),
              "Cannot use ReduceOp.",
              reduction == Op::BAND  ? "BAND"
              : reduction == Op::BOR ? "BOR"
                                     : "BXOR",
              " with non-integral dtype");
  TORCH_CHECK(!integral || reduction != Op::AVG, "result type Float can't be cast to the desired output type ", type);
}

Backend::WorkPointer Backend::submit_to_streams(EngineTensors &tensors, Tensors results, const Collective::Call &call) {
  const OnStreams on = on_streams(streams_device_, tensors.device());
  WorkPointer work = call(*of_streams_);
  if (coalesced_) {
    if (!coalesced_->tensors) coalesced_->tensors.emplace(tensors_for(operations::coalesced, tensors.device()));
    coalesced_->tensors->join(tensors);
    coalesced_->results.insert(coalesced_->results.end(), results.begin(), results.end());
  }
  if (!work) return work;
  tell_call(order_.get(), work.get(), tensors);
  return c10::make_intrusive<StreamEngineWork>(std::move(work), streams_device_, order_, tensors, std::move(results));
}

Backend::WorkPointer Backend::submit(EngineTensors &tensors, Tensors results, Collective::Call call) {
  const Operation &operation = tensors.operation();
  const int32_t device = tensors.device();
  tb_stream *stream = current_stream(device);
  refuse_capture(operation, device);
  if (tensors.of_engine() != c10::kCPU) return submit_to_streams(tensors, std::move(results), call);
  std::shared_ptr<Collective> collective;
  const tb_status idle = runtime.driver->stream_query(runtime.self, stream);
  if (idle != TB_OK && idle != TB_NOT_READY) check(idle, operation.name, device, Failed::work); // of earlier work
  if (idle == TB_NOT_READY && runtime.closures) {
    // The place in the stream comes before the place in the order. So whatever threads do, no start comes after a wait for
    // a later call; and nothing waits for room in the stream's queue with a lock in its hand.
    Reservation<Start> reservation(stream, operation.start);
    collective = order_->add(operation, std::move(call), device);
    tell_call(order_.get(), collective.get(), tensors);
    reservation.commit({order_, collective});
  } else {
    if (idle == TB_NOT_READY)
      check(runtime.driver->stream_synchronize(runtime.self, stream), operation.name, device, Failed::work);
    collective = order_->add(operation, std::move(call), device);
    tell_call(order_.get(), collective.get(), tensors);
    const at::ThreadLocalStateGuard guard(state_without_python());
    order_->ready(*collective);
    if (const std::exception_ptr refusal = collective->refusal()) std::rethrow_exception(refusal);
  }
  return c10::make_intrusive<HostEngineWork>(std::move(collective), order_, tensors, std::move(results));
}

Backend::WorkPointer Backend::broadcast(Tensors &tensors, const c10d::BroadcastOptions &options) {
  EngineTensors engine_tensors = tensors_for(operations::broadcast, tensors.at(0));
  return submit(engine_tensors, tensors, [a = engine_tensors.of(tensors, Use::both), options](Engine &e) mutable {
    return e.broadcast(a, options);
  });
}

Backend::WorkPointer Backend::allreduce(Tensors &tensors, const c10d::AllreduceOptions &options) {
  check_reduction(operations::all_reduce, tensors.at(0).scalar_type(), options.reduceOp);
  EngineTensors engine_tensors = tensors_for(operations::all_reduce, tensors[0]);
  return submit(engine_tensors, tensors, [a = engine_tensors.of(tensors, Use::both), options](Engine &e) mutable {
    return e.allreduce(a, options);
  });
}

Backend::WorkPointer Backend::allreduce_coalesced(Tensors &tensors, const c10d::AllreduceCoalescedOptions &options) {
  check_reduction(operations::all_reduce_coalesced, tensors.at(0).scalar_type(), options.reduceOp);
  EngineTensors engine_tensors = tensors_for(operations::all_reduce_coalesced, tensors[0]);
  return submit(engine_tensors, tensors, [a = engine_tensors.of(tensors, Use::both), options](Engine &e) mutable {
    return e.allreduce_coalesced(a, options);
  });
}

Backend::WorkPointer Backend::reduce(Tensors &tensors, const c10d::ReduceOptions &options) {
  check_reduction(operations::reduce, tensors.at(0).scalar_type(), options.reduceOp);
  EngineTensors engine_tensors = tensors_for(operations::reduce, tensors[0]);
  return submit(engine_tensors, tensors, [a = engine_tensors.of(tensors, Use::both), options](Engine &e) mutable {
    return e.reduce(a, options);
  });
}

Backend::WorkPointer Backend::allgather(TensorLists &outputs, Tensors &inputs, const c10d::AllgatherOptions &options) {
  EngineTensors engine_tensors = tensors_for(operations::all_gather, inputs.at(0));
  return submit(engine_tensors, outputs.at(0),
                [o = engine_tensors.of(outputs, Use::write), i = engine_tensors.of(inputs, Use::read),
                 options](Engine &e) mutable { return e.allgather(o, i, options); });
}

Backend::WorkPointer Backend::_allgather_base(Tensor &output, Tensor &input, const c10d::AllgatherOptions &options) {
  EngineTensors engine_tensors = tensors_for(operations::all_gather_into_tensor, input);
  return submit(engine_tensors, {output},
                [o = flat(engine_tensors.of(output, Use::write)), i = flat(engine_tensors.of(input, Use::read)),
                 options](Engine &e) mutable { return e._allgather_base(o, i, options); });
}

Backend::WorkPointer Backend::allgather_coalesced(TensorLists &outputs, Tensors &inputs,
                                                  const c10d::AllgatherOptions &options) {
  EngineTensors engine_tensors = tensors_for(operations::all_gather_coalesced, inputs.at(0));
  Tensors results;
  for (const Tensors &list : outputs) results.insert(results.end(), list.begin(), list.end());
  return submit(engine_tensors, std::move(results),
                [o = engine_tensors.of(outputs, Use::write), i = engine_tensors.of(inputs, Use::read),
                 options](Engine &e) mutable { return e.allgather_coalesced(o, i, options); });
}

Backend::WorkPointer Backend::allgather_into_tensor_coalesced(Tensors &outputs, Tensors &inputs,
                                                              const c10d::AllgatherOptions &options) {
  EngineTensors engine_tensors = tensors_for(operations::all_gather_into_tensor_coalesced, inputs.at(0));
  return submit(engine_tensors, outputs,
                [o = flat(engine_tensors.of(outputs, Use::write)), i = flat(engine_tensors.of(inputs, Use::read)),
                 options](Engine &e) mutable { return e.allgather_into_tensor_coalesced(o, i, options); });
}

Backend::WorkPointer Backend::gather(TensorLists &outputs, Tensors &inputs, const c10d::GatherOptions &options) {
  EngineTensors engine_tensors = tensors_for(operations::gather, inputs.at(0));
  return submit(engine_tensors, outputs.empty() ? Tensors{} : outputs[0],
                [o = engine_tensors.of(outputs, Use::write), i = engine_tensors.of(inputs, Use::read),
                 options](Engine &e) mutable { return e.gather(o, i, options); });
}

Backend::WorkPointer Backend::scatter(Tensors &outputs, TensorLists &inputs, const c10d::ScatterOptions &options) {
  EngineTensors engine_tensors = tensors_for(operations::scatter, outputs.at(0));
  return submit(engine_tensors, outputs,
                [o = engine_tensors.of(outputs, Use::write), i = engine_tensors.of(inputs, Use::read),
                 options](Engine &e) mutable { return e.scatter(o, i, options); });
}

Backend::WorkPointer Backend::reduce_scatter(Tensors &outputs, TensorLists &inputs,
                                             const c10d::ReduceScatterOptions &options) {
  check_reduction(operations::reduce_scatter, outputs.at(0).scalar_type(), options.reduceOp);
  EngineTensors engine_tensors = tensors_for(operations::reduce_scatter, outputs[0]);
  // Gloo reduces in the inputs' memory.
  return submit(engine_tensors, outputs,
                [o = engine_tensors.of(outputs, Use::write), i = engine_tensors.of(inputs, Use::both),
                 options](Engine &e) mutable { return e.reduce_scatter(o, i, options); });
}

Backend::WorkPointer Backend::_reduce_scatter_base(Tensor &output, Tensor &input,
                                                   const c10d::ReduceScatterOptions &options) {
  check_reduction(operations::reduce_scatter_tensor, output.scalar_type(), options.reduceOp);
  EngineTensors engine_tensors = tensors_for(operations::reduce_scatter_tensor, output);
  return submit(engine_tensors, {output},
                [o = flat(engine_tensors.of(output, Use::write)), i = flat(engine_tensors.of(input, Use::read)),
                 options](Engine &e) mutable { return e._reduce_scatter_base(o, i, options); });
}

Backend::WorkPointer Backend::reduce_scatter_tensor_coalesced(Tensors &outputs, Tensors &inputs,
                                                              const c10d::ReduceScatterOptions &options) {
  check_reduction(operations::reduce_scatter_tensor_coalesced, outputs.at(0).scalar_type(), options.reduceOp);
  EngineTensors engine_tensors = tensors_for(operations::reduce_scatter_tensor_coalesced, outputs[0]);
  return submit(engine_tensors, outputs,
                [o = flat(engine_tensors.of(outputs, Use::write)), i = flat(engine_tensors.of(inputs, Use::read)),
                 options](Engine &e) mutable { return e.reduce_scatter_tensor_coalesced(o, i, options); });
}

Backend::WorkPointer Backend::alltoall_base(Tensor &output, Tensor &input, Sizes &output_sizes, Sizes &input_sizes,
                                            const c10d::AllToAllOptions &options) {
  EngineTensors engine_tensors = tensors_for(operations::all_to_all_single, output);
  return submit(engine_tensors, {output},
                [o = engine_tensors.of(output, Use::write), i = engine_tensors.of(input, Use::read), output_sizes,
                 input_sizes,
                 options](Engine &e) mutable { return e.alltoall_base(o, i, output_sizes, input_sizes, options); });
}

Backend::WorkPointer Backend::alltoall(Tensors &outputs, Tensors &inputs, const c10d::AllToAllOptions &options) {
  EngineTensors engine_tensors = tensors_for(operations::all_to_all, outputs.at(0));
  return submit(engine_tensors, outputs,
                [o = engine_tensors.of(outputs, Use::write), i = engine_tensors.of(inputs, Use::read),
                 options](Engine &e) mutable { return e.alltoall(o, i, options); });
}

Backend::WorkPointer Backend::send(Tensors &tensors, int to, int tag) {
  EngineTensors engine_tensors = tensors_for(operations::send, tensors.at(0));
  return submit(engine_tensors, {},
                [a = engine_tensors.of(tensors, Use::read), to, tag](Engine &e) mutable { return e.send(a, to, tag); });
}

Backend::WorkPointer Backend::recv(Tensors &tensors, int from, int tag) {
  EngineTensors engine_tensors = tensors_for(operations::recv, tensors.at(0));
  return submit(engine_tensors, tensors, [a = engine_tensors.of(tensors, Use::write), from, tag](Engine &e) mutable {
    return e.recv(a, from, tag);
  });
}

Backend::WorkPointer Backend::recvAnysource(Tensors &tensors, int tag) {
  EngineTensors engine_tensors = tensors_for(operations::recv_from_any, tensors.at(0));
  return submit(engine_tensors, tensors, [a = engine_tensors.of(tensors, Use::write), tag](Engine &e) mutable {
    return e.recvAnysource(a, tag);
  });
}

Backend::WorkPointer Backend::barrier(const c10d::BarrierOptions &options) {
  const bool named = options.device && options.device->type() == device_type && options.device->has_index();
  const int32_t device = named ? options.device->index() : runtime.device.current_device();
  EngineTensors none = tensors_for(operations::barrier, device);
  c10d::BarrierOptions given = options;
  given.device.reset(); // the engines do not know tb
  if (streams()) given.device.emplace(streams_device_, static_cast<c10::DeviceIndex>(device));
  return submit(none, {}, [given](Engine &e) mutable { return e.barrier(given); });
}

void Backend::monitoredBarrier(const c10d::BarrierOptions &options, bool wait_all_ranks) {
  open();
  const int32_t device = runtime.device.current_device();
  check(runtime.driver->stream_synchronize(runtime.self, current_stream(device)), "monitored_barrier", device,
        Failed::work);
  order_->engine().monitoredBarrier(options, wait_all_ranks);
}

} // namespace tb::distributed
