// Takes notes in callbacks of PyTorch's record functions.
#include "step/observation.h"

#include <ATen/Context.h>
#include <ATen/core/dispatch/Dispatcher.h>

#include <algorithm>
#include <memory>
#include <string>

#include "device/components.h"
#include "device/device_type.h"

namespace tb::compile {
namespace {

// The observations that are started, and the one registration of the callbacks.
struct Started {
  std::mutex mutex;
  std::vector<Observation *> all;
  at::CallbackHandle handle = 0;
};
Started &started() {
  static Started *made = new Started; // threads may outlive the static destructors
  return *made;
}

// Fake tensors, which say that they are on the device, have a storage of the meta device, perhaps of a symbolic size.
bool has_memory(const at::Tensor &tensor) {
  return tensor.defined() && tensor.has_storage() && !tensor.storage().device().is_meta() &&
         tensor.storage().nbytes() != 0;
}

} // namespace

void Observation::start() {
  Started &all = started();
  const std::lock_guard guard(all.mutex);
  if (std::exchange(started_, true)) return;
  if (all.all.empty())
    all.handle = at::addGlobalCallback(at::RecordFunctionCallback(&Observation::begin, &Observation::end)
                                           .needsInputs(true)
                                           .needsOutputs(true)
                                           .scopes({at::RecordScope::FUNCTION}));
  all.all.push_back(this);
}

void Observation::stop() {
  Started &all = started();
  const std::lock_guard guard(all.mutex);
  if (!std::exchange(started_, false)) return;
  std::erase(all.all, this);
  if (all.all.empty()) at::removeCallback(all.handle);
}

bool Observation::is_observed() const { return components.stream.current(device_) == stream_; }

std::unique_ptr<at::ObserverContext> Observation::begin(const at::RecordFunction &function) {
  observe(function, &Observation::take_inputs);
  return nullptr;
}

void Observation::end(const at::RecordFunction &function, at::ObserverContext *) {
  observe(function, &Observation::take_outputs);
}

// Of what a callback throws PyTorch only warns. A capture of which it is not known what it reads must not go on.
void Observation::observe(const at::RecordFunction &function, Take take) {
  tb_stream *capturing = nullptr;
  std::string reason;
  {
    Started &all = started();
    const std::lock_guard guard(all.mutex);
    for (Observation *one : all.all)
      if (one->is_observed()) try {
          (one->*take)(function);
        } catch (const std::exception &error) {
          if (one->pool_) capturing = one->stream_;
          const auto *of_pytorch = dynamic_cast<const c10::Error *>(&error);
          const char *what = of_pytorch ? of_pytorch->what_without_backtrace() : error.what();
          reason = std::string("the tensors of ") + function.name() + " cannot be seen: " + what;
        }
  }
  int32_t captures = 0;
  if (capturing) components.stream.capture_interrupt(capturing, reason.c_str(), &captures);
}

void Observation::take_inputs(const at::RecordFunction &function) {
  const auto name = function.operator_name();
  const auto handle = name ? c10::Dispatcher::singleton().findSchema(*name) : std::nullopt;
  const std::lock_guard guard(mutex_);
  const c10::ArrayRef<const c10::IValue> inputs = function.inputs();
  for (size_t i = 0; i < inputs.size(); i++) {
    const bool known = handle && i < handle->schema().arguments().size();
    const c10::AliasInfo *alias = known ? handle->schema().arguments()[i].alias_info() : nullptr;
    take(inputs[i], /*output=*/false, alias && alias->isWrite());
  }
}

void Observation::take_outputs(const at::RecordFunction &function) {
  const std::lock_guard guard(mutex_);
  for (const c10::IValue &output : function.outputs()) take(output, /*output=*/true, false);
}

void Observation::note(const at::Tensor &tensor, bool written) {
  const std::lock_guard guard(mutex_);
  take(tensor, /*output=*/false, written);
}

void Observation::take(const c10::IValue &value, bool output, bool written) {
  if (value.isTensor()) {
    take(value.toTensor(), output, written);
  } else if (value.isTensorList()) {
    for (const at::Tensor &tensor : value.toTensorVector()) take(tensor, output, written);
  } else if (value.isList()) {
    for (const c10::IValue &element : value.toListRef())
      if (!element.isTensor() && !element.isList())
        return;
      else
        take(element, output, written);
  } else if (value.isGenerator()) {
    const at::Generator generator = value.toGenerator();
    if (generator == at::globalContext().defaultGenerator(generator.device())) return;
    if (std::ranges::find(generators_, generator) == generators_.end()) generators_.push_back(generator);
  }
}

void Observation::take(const at::Tensor &tensor, bool output, bool written) {
  if (!has_memory(tensor)) return;
  const bool on_device = tensor.device().type() == device_type;
  if (!on_device && !tensor.is_cpu()) return;
  const c10::StorageImpl *storage = tensor.storage().unsafeGetStorageImpl();
  const auto [found, fresh] = memory_.try_emplace(storage);
  Memory &memory = found->second;
  if (fresh) {
    memory.on_device = on_device;
    memory.type = tensor.scalar_type();
    const bool made = on_device ? pool_ && components.allocator.capture_pool(storage->data()) == pool_ : output;
    if (made)
      memory.made.emplace(tensor.storage().getWeakStorageImpl());
    else
      memory.held = tensor.storage();
  }
  memory.written |= written;
  if (memory.made) return;
  const bool first = seen_.insert(tensor.unsafeGetTensorImpl()).second; // `held` keeps other storages' tensors apart
  if (first && on_device && tensor.requires_grad() && tensor.is_leaf()) leaves_.push_back(tensor);
  if (first && !on_device && !tensor.unsafeGetTensorImpl()->is_wrapped_number()) host_tensors_.push_back(tensor);
  if (written && std::ranges::none_of(written_, [&](const at::Tensor &one) { return one.is_same(tensor); }))
    written_.push_back(tensor);
}

const Observation::Memory *Observation::find(const at::Tensor &tensor) const {
  if (!has_memory(tensor)) return nullptr;
  const auto found = memory_.find(tensor.storage().unsafeGetStorageImpl());
  return found == memory_.end() ? nullptr : &found->second;
}

std::vector<at::Tensor> Observation::leaves() const {
  const std::lock_guard guard(mutex_);
  return leaves_;
}

std::vector<at::Tensor> Observation::host_tensors() const {
  const std::lock_guard guard(mutex_);
  return host_tensors_;
}

std::vector<at::Tensor> Observation::written_host_tensors() const {
  const std::lock_guard guard(mutex_);
  std::vector<at::Tensor> found;
  std::ranges::copy_if(written_, std::back_inserter(found), [](const at::Tensor &one) { return one.is_cpu(); });
  return found;
}

std::vector<at::Tensor> Observation::written_tensors() const {
  const std::lock_guard guard(mutex_);
  std::vector<at::Tensor> found;
  std::ranges::copy_if(written_, std::back_inserter(found), [](const at::Tensor &one) { return !one.is_cpu(); });
  return found;
}

std::vector<at::Generator> Observation::generators() const {
  const std::lock_guard guard(mutex_);
  return generators_;
}

void Observation::release_tensors() {
  const std::lock_guard guard(mutex_);
  leaves_.clear();
  host_tensors_.clear();
  written_.clear();
  generators_.clear();
}

bool Observation::has_used(const at::Tensor &tensor) const {
  const std::lock_guard guard(mutex_);
  const Memory *memory = find(tensor);
  return memory && !memory->made;
}

bool Observation::has_written(const at::Tensor &tensor) const {
  const std::lock_guard guard(mutex_);
  const Memory *memory = find(tensor);
  return memory && memory->written;
}

bool Observation::has_made(const at::Tensor &tensor) const {
  const std::lock_guard guard(mutex_);
  if (const Memory *memory = find(tensor)) return memory->made.has_value();
  return pool_ && has_memory(tensor) && tensor.device().type() == device_type &&
         components.allocator.capture_pool(tensor.storage().data()) == pool_;
}

std::vector<c10::Storage> Observation::storages() const {
  const std::lock_guard guard(mutex_);
  std::vector<c10::Storage> found;
  for (const auto &[storage, memory] : memory_)
    if (memory.on_device && !memory.made) found.push_back(memory.held);
  return found;
}

std::vector<int64_t> Observation::used(const at::Tensor &like) const {
  const std::lock_guard guard(mutex_);
  std::vector<int64_t> found;
  for (const auto &[storage, memory] : memory_)
    if (memory.on_device && !memory.made && memory.type == like.scalar_type())
      found.push_back(reinterpret_cast<int64_t>(storage));
  return found;
}

std::vector<std::pair<int64_t, int64_t>> Observation::alive() const {
  const std::lock_guard guard(mutex_);
  std::vector<std::pair<int64_t, int64_t>> found;
  for (const auto &[storage, memory] : memory_)
    if (memory.on_device && memory.made)
      if (const auto owners = memory.made->use_count())
        found.emplace_back(reinterpret_cast<int64_t>(storage), static_cast<int64_t>(owners));
  return found;
}

void note_use(const at::Tensor &tensor) {
  Started &all = started();
  const std::lock_guard guard(all.mutex);
  for (Observation *one : all.all)
    if (one->is_observed()) one->note(tensor, /*written=*/true);
}

} // namespace tb::compile
