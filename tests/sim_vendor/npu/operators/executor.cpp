// executor.cpp -- the two phases of every operator.
#include "executor.h"

#include <cstring>
#include <mutex>
#include <unordered_map>

#include "../src/entry.h"
#include "../src/machine.h"
#include "functions.h"

namespace sim {
namespace {

constexpr int kScribble = 0xC3; // the byte with which an operator overwrites its workspace

Live live_executors{"executors"};

struct Known {
  std::mutex mutex;
  std::unordered_map<const Executor *, std::shared_ptr<Executor>> executors;
};
Known &known() {
  static auto *known = new Known; // used until the process ends
  return *known;
}

std::shared_ptr<Executor> find(const Executor *executor) {
  Known &all = known();
  std::lock_guard lock(all.mutex);
  const auto found = all.executors.find(executor);
  return found == all.executors.end() ? nullptr : found->second;
}

void forget(const Executor *executor) {
  Known &all = known();
  std::lock_guard lock(all.mutex);
  if (all.executors.erase(executor)) --live_executors.count;
}

Error no_executor(const char *function, const Executor *executor) {
  return fail(kOperatorParameter, "EZ1004: %s: %p is no executor, or one that was used already", function,
              static_cast<const void *>(executor));
}

// Overwrites the workspace, so that other code that wrongly uses the memory notices it.
Error scribble(int32_t device, void *workspace, uint64_t size) {
  if (!size) return kOk;
  std::vector<Memory::Piece> pieces;
  if (!Machine::get().memory().locate(device, workspace, size, &pieces))
    return fail(kCoreException,
                "EZ9999: AI core exception: the workspace of %llu bytes at %p is no memory of device %d that is alive",
                static_cast<unsigned long long>(size), workspace, device);
  for (const Memory::Piece &piece : pieces) std::memset(piece.bytes, kScribble, piece.size);
  return kOk;
}

Error work_off(const char *name, const Work &work, const Run &run, int32_t device, void *workspace, uint64_t size) {
  try {
    for (const View &view : run.views)
      if (view.count()) view.check(name);
    if (const Error error = scribble(device, workspace, size)) return error;
    work(run);
    return scribble(device, workspace, size);
  } catch (const Refusal &refusal) {
    return fail(refusal.code, "%s", refusal.text.c_str());
  } catch (const std::bad_alloc &) {
    return fail(kInternal, "EZ9999: no host memory left for %s", name);
  }
}

} // namespace

int32_t Executor::add(const Tensor *tensor, std::vector<int32_t> *side) {
  const int32_t slot = tensor ? static_cast<int32_t>(run_.views.size()) : -1;
  side->push_back(slot);
  if (!tensor) return slot;
  if (!alive(tensor, Object::Kind::tensor)) refuse(kOperatorParameter, "EZ1001: a tensor of %s was destroyed", name_);
  View view;
  view.device = Machine::get().current()->device;
  view.type = tensor->type;
  view.dims = tensor->dims;
  view.strides = tensor->strides;
  view.offset = tensor->offset;
  view.storage = static_cast<uint64_t>(count_of(tensor->storage)) * size_of(tensor->type);
  view.address = tensor->address;
  if (!view.address && view.count()) refuse(kOperatorNull, "EZ1005: a tensor of %s has no data", name_);
  run_.views.push_back(std::move(view));
  described_.push_back({tensor, tensor->number});
  return slot;
}

Error Executor::prepare(const char *name, uint64_t *workspace, Executor **out,
                        const std::function<Plan(Executor &)> &plan) {
  if (!workspace || !out) return fail(kOperatorNull, "EZ1005: %s: workspaceSize or executor is NULL", name);
  auto executor = std::make_shared<Executor>(name);
  try {
    Plan made = plan(*executor);
    executor->work_ = std::make_shared<const Work>(std::move(made.work));
    executor->workspace_ = (made.workspace + 511) / 512 * 512;
  } catch (const Refusal &refusal) {
    return fail(refusal.code, "%s of aclnn%s", refusal.text.c_str(), name);
  }
  *workspace = executor->workspace_;
  *out = executor.get();
  Known &all = known();
  std::lock_guard lock(all.mutex);
  all.executors.emplace(executor.get(), std::move(executor));
  ++live_executors.count;
  return kOk;
}

Error Executor::launch(const char *name, void *workspace, uint64_t size, Executor *handle, void *stream_handle) {
  if (!handle) return fail(kOperatorNull, "EZ1005: aclnn%s: the executor is NULL", name);
  const std::shared_ptr<Executor> executor = find(handle);
  if (!executor) return no_executor(name, handle);
  if (std::strcmp(executor->name_, name) != 0)
    return fail(kOperatorParameter, "EZ1006: aclnn%s was given an executor of aclnn%s", name, executor->name_);
  drop(handle);
  for (const Described &each : executor->described_)
    if (!alive(each.tensor, Object::Kind::tensor, each.number))
      return fail(kOperatorParameter, "EZ1007: a tensor of aclnn%s was destroyed between its two phases", name);
  if (executor->workspace_ && (!workspace || size < executor->workspace_))
    return fail(kOperatorParameter, "EZ1008: aclnn%s needs %llu bytes of workspace and was given %llu", name,
                static_cast<unsigned long long>(executor->workspace_),
                static_cast<unsigned long long>(workspace ? size : 0));
  std::shared_ptr<Stream> stream;
  if (const Error error = Machine::get().find_stream(stream_handle, &stream)) return error;
  for (const View &view : executor->run_.views)
    if (view.device != stream->device)
      return fail(kOperatorParameter, "EZ1009: aclnn%s was prepared on device %d, and the stream is device %d's", name,
                  view.device, stream->device);
  stream->enqueue([name, work = executor->work_, run = executor->run_, device = stream->device, workspace,
                   needed = executor->workspace_] { return work_off(name, *work, run, device, workspace, needed); });
  return kOk;
}

void Executor::drop(Executor *handle) {
  const std::shared_ptr<Executor> executor = find(handle);
  if (executor && !executor->repeatable_) forget(handle);
}

Error Executor::make_repeatable(Executor *handle) {
  const std::shared_ptr<Executor> executor = find(handle);
  if (!executor) return no_executor("aclSetAclOpExecutorRepeatable", handle);
  executor->repeatable_ = true;
  return kOk;
}

Error Executor::destroy(Executor *handle) {
  const std::shared_ptr<Executor> executor = find(handle);
  if (!executor) return no_executor("aclDestroyAclOpExecutor", handle);
  if (!executor->repeatable_)
    return fail(kOperatorParameter, "EZ1010: the executor of aclnn%s is not repeatable: its phase 2 destroys it",
                executor->name_);
  forget(handle);
  return kOk;
}

Error Executor::set_address(Executor *handle, Side side, size_t index, const Tensor *tensor, void *address) {
  const std::shared_ptr<Executor> executor = find(handle);
  if (!executor) return no_executor("setting a tensor's address", handle);
  if (!tensor || !address) return fail(kOperatorNull, "EZ1005: the tensor or its address is NULL");
  std::vector<int32_t> slots = side == Side::output ? executor->outputs_ : executor->inputs_;
  if (side == Side::any) slots.insert(slots.end(), executor->outputs_.begin(), executor->outputs_.end());
  if (index >= slots.size() || slots[index] < 0)
    return fail(kOperatorParameter, "EZ1011: aclnn%s has no tensor of number %zu", executor->name_, index);
  const auto slot = static_cast<size_t>(slots[index]);
  const Described &described = executor->described_[slot];
  if (described.tensor != tensor || !alive(tensor, Object::Kind::tensor, described.number))
    return fail(kOperatorParameter, "EZ1012: tensor %zu of aclnn%s is another, or was destroyed", index,
                executor->name_);
  executor->run_.views[slot].address = address;
  return kOk;
}

Error aclSetAclOpExecutorRepeatable(Executor *executor) { return Executor::make_repeatable(executor); }
Error aclDestroyAclOpExecutor(Executor *executor) { return Executor::destroy(executor); }
Error aclSetInputTensorAddr(Executor *executor, size_t index, Tensor *tensor, void *address) {
  return Executor::set_address(executor, Executor::Side::input, index, tensor, address);
}
Error aclSetOutputTensorAddr(Executor *executor, size_t index, Tensor *tensor, void *address) {
  return Executor::set_address(executor, Executor::Side::output, index, tensor, address);
}
Error aclSetTensorAddr(Executor *executor, size_t index, Tensor *tensor, void *address) {
  return Executor::set_address(executor, Executor::Side::any, index, tensor, address);
}

} // namespace sim
