// Decides for each call between the function, a capture and a launch.
#include "tb/tensor_caster.h"

#include "graph/graphed_callable.h"

#include <ATen/ops/empty_strided.h>
#include <c10/core/DeviceGuard.h>
#include <c10/core/GradMode.h>

#include <algorithm>
#include <utility>

#include "device/components.h"
#include "device/device_type.h"

namespace nb = nanobind;

namespace tb::compile {
namespace {

// The number of calls before a capture. In them kernels see their types for the first time, and addresses show whether
// they repeat.
constexpr int warm_up = 2;
// After this many failed captures, or graphs that a call did not fit, nothing is captured any more.
constexpr int most_failures = 3, most_drops = 8;

std::vector<at::Tensor> tensors(nb::list list) {
  std::vector<at::Tensor> found;
  found.reserve(nb::len(list));
  for (const nb::handle one : list) found.push_back(tensor_check(one.ptr()) ? tensor_unpack(one.ptr()) : at::Tensor());
  return found;
}

// A view with each element of memory once: dimensions of stride 0 repeat elements.
at::Tensor shown_once(at::Tensor tensor) {
  for (int64_t i = 0; i < tensor.dim(); i++)
    if (tensor.stride(i) == 0 && tensor.size(i) > 1) tensor = tensor.narrow(i, 0, 1);
  return tensor;
}

void copy_memory(const at::Tensor &to, const at::Tensor &from) {
  at::Tensor target = shown_once(to);
  target.copy_(shown_once(from), /*non_blocking=*/true);
}

at::Tensor memory_like(const at::Tensor &tensor) {
  return at::empty_strided(tensor.sizes(), tensor.strides(), tensor.options());
}

// A new tensor over the memory of `base`, in the form of `like`.
at::Tensor over(const at::Tensor &base, const at::Tensor &like, int64_t offset) {
  using c10::DispatchKey;
  constexpr c10::DispatchKeySet plain(
      {DispatchKey::PrivateUse1, DispatchKey::AutogradPrivateUse1, DispatchKey::ADInplaceOrView});
  at::Tensor tensor = at::detail::make_tensor<at::TensorImpl>(c10::Storage(base.storage()), plain, like.dtype());
  tensor.unsafeGetTensorImpl()->set_storage_offset(offset);
  tensor.unsafeGetTensorImpl()->set_sizes_and_strides(like.sizes(), like.strides());
  return tensor;
}

// Why a graph cannot read this tensor; NULL if it can.
const char *unfit(const at::Tensor &tensor) {
  if (tensor.device().type() != device_type) return "an input is not on the device, whose graphs read its memory only";
  if (tensor.layout() != at::kStrided || !tensor.has_storage()) return "an input is no strided tensor";
  if (tensor.is_conj() || tensor.is_neg()) return "an input is a conjugate or negative view";
  if (tensor.key_set().has(c10::DispatchKey::Python)) return "an input is a tensor of a class of its own";
  return nullptr;
}

} // namespace

void GraphedCallable::Form::take(const at::Tensor &tensor) {
  sizes = tensor.sizes().vec();
  strides = tensor.strides().vec();
  type = tensor.scalar_type();
}

bool GraphedCallable::Form::matches(const at::Tensor &tensor) const {
  return tensor.scalar_type() == type && tensor.sizes() == sizes && tensor.strides() == strides;
}

// ---- launches -------------------------------------------------------------------------------------------------------

// Also notes what does not fit, so that the next capture copies it.
bool GraphedCallable::fits(const std::vector<at::Tensor> &given) {
  bool fits = given.size() == inputs_.size();
  for (size_t i = 0; i < given.size() && i < inputs_.size(); i++) {
    Input &input = inputs_[i];
    if (given[i].defined() != input.is_tensor) return false;
    if (!input.is_tensor) continue;
    if (unfit(given[i]) || given[i].device().index() != device_ || !input.form.matches(given[i])) return false;
    if (!input.buffer.defined() && given[i].const_data_ptr() != input.address) {
      input.moves = true;
      fits = false;
    }
  }
  // A result of the last launch that the caller still has would be overwritten.
  for (Result &result : results_)
    if (result.tensor.defined() && !result.view_of && !result.is_kept &&
        result.tensor.storage().use_count() > result.holders) {
      result.is_kept = true;
      fits = false;
    }
  return fits;
}

// The last launch used the same memory, and so does work that reads its results.
void GraphedCallable::follow(tb_stream *stream) {
  tb_stream *before = std::exchange(last_stream_, stream);
  if (!before || before == stream) return;
  if (components.device.is_stream(before)) return wait_stream(device_, stream, before);
  const Driver driver = open_driver();
  check(driver.api->device_synchronize(driver.self, device_), "device_synchronize", device_);
}

nb::object GraphedCallable::launch(nb::list inputs) {
  if (!capture_ || is_capturing(device_)) return nb::none();
  std::vector<at::Tensor> given = tensors(inputs);
  if (!fits(given)) {
    drop();
    calls_ = warm_up - 1; // the next call shows whether addresses repeat
    if (++drops_ == most_drops)
      refusal_ = "forms of inputs, their addresses, or what callers keep change from call to call";
    return nb::none();
  }
  const c10::DeviceGuard guard(c10::Device(device_type, static_cast<c10::DeviceIndex>(device_)));
  const c10::NoGradGuard no_gradients;
  tb_stream *stream = components.stream.current(device_);
  follow(stream);
  for (size_t i = 0; i < given.size(); i++)
    if (inputs_[i].buffer.defined()) copy_memory(inputs_[i].buffer, given[i]);
  check(components.stream.capture_launch(capture_, stream), "graph_launch", device_);
  launches_++;
  for (const size_t i : written_)
    if (inputs_[i].buffer.defined()) copy_memory(given[i], inputs_[i].buffer);
  nb::list found;
  for (const Result &result : results_) {
    if (!result.tensor.defined()) {
      found.append(result.other);
    } else if (result.view_of) {
      const at::Tensor &base = given[*result.view_of];
      found.append(over(base, result.tensor, base.storage_offset() + result.offset));
    } else if (result.is_kept) {
      const at::Tensor kept = memory_like(result.tensor);
      copy_memory(kept, result.tensor);
      found.append(kept);
    } else {
      found.append(over(result.tensor, result.tensor, result.tensor.storage_offset()));
    }
  }
  for (const size_t i : written_) given[i].unsafeGetTensorImpl()->bump_version();
  inputs.clear();
  return found;
}

// ---- captures -------------------------------------------------------------------------------------------------------

void GraphedCallable::observe_addresses(const std::vector<at::Tensor> &given) {
  const bool first = inputs_.size() != given.size();
  if (first) inputs_.assign(given.size(), {});
  for (size_t i = 0; i < given.size(); i++) {
    Input &input = inputs_[i];
    input.is_tensor = given[i].defined();
    if (!input.is_tensor) continue;
    const void *address = given[i].const_data_ptr();
    if (!first && address != input.address) input.moves = true;
    input.address = address;
  }
}

nb::object GraphedCallable::begin(nb::list inputs) {
  if (!refusal_.empty()) return nb::none();
  const std::vector<at::Tensor> given = tensors(inputs);
  device_ = -1;
  for (const at::Tensor &tensor : given) {
    if (!tensor.defined()) continue;
    const char *why = unfit(tensor);
    if (!why && device_ >= 0 && device_ != tensor.device().index()) why = "inputs are on several devices";
    if (why) {
      refusal_ = why;
      return nb::none();
    }
    device_ = tensor.device().index();
  }
  if (device_ < 0) {
    refusal_ = "no input is a tensor, which would say on which device the graph is";
    return nb::none();
  }
  if (is_capturing(device_)) return nb::none();
  observe_addresses(given);
  if (++calls_ <= warm_up) return nb::none();

  const c10::NoGradGuard no_gradients;
  nb::list own;
  for (size_t i = 0; i < given.size(); i++) {
    Input &input = inputs_[i];
    if (!input.is_tensor) {
      own.append(inputs[i]);
      continue;
    }
    input.form.take(given[i]);
    if (input.moves) input.buffer = memory_like(given[i]);
    own.append(input.moves ? nb::cast(input.buffer) : nb::borrow(inputs[i]));
  }
  tb_stream *stream = nullptr, *current = components.stream.current(device_);
  check(components.stream.from_pool(device_, 0, &stream), "from_pool", device_);
  wait_stream(device_, stream, current);
  check(components.stream.capture_begin(device_, stream, 0, &capture_), "capture_begin", device_);
  check(components.stream.set_current(device_, stream), "set_current", device_);
  before_ = current;
  return own;
}

nb::object GraphedCallable::end(nb::list results, nb::list inputs) {
  std::vector<bool> kept;
  for (const Result &result : results_) kept.push_back(result.is_kept);
  kept.resize(nb::len(results));
  results_.clear();
  const std::vector<at::Tensor> given = tensors(inputs);
  for (const nb::handle one : results) {
    Result &result = results_.emplace_back();
    result.is_kept = kept[results_.size() - 1];
    if (!tensor_check(one.ptr())) {
      result.other = nb::borrow(one);
      continue;
    }
    result.tensor = tensor_unpack(one.ptr()).detach();
    TORCH_CHECK(!unfit(result.tensor) && result.tensor.device().index() == device_,
                "a result is no plain tensor of the device, which a graph could fill");
    for (size_t i = 0; i < given.size(); i++) {
      if (!given[i].defined()) continue;
      const at::Tensor &read = inputs_[i].buffer.defined() ? inputs_[i].buffer : given[i];
      if (!read.is_alias_of(result.tensor)) continue;
      result.view_of = i;
      result.offset = result.tensor.storage_offset() - read.storage_offset();
    }
  }
  for (Result &result : results_)
    result.holders = std::count_if(results_.begin(), results_.end(), [&](const Result &other) {
      return result.tensor.defined() && other.tensor.defined() && other.tensor.is_alias_of(result.tensor);
    });
  check(components.stream.set_current(device_, std::exchange(before_, nullptr)), "set_current", device_);
  check(components.stream.capture_end(capture_), "capture_end", device_);
  check(components.stream.capture_instantiate(capture_), "capture_instantiate", device_);
  captures_++;
  results.clear();
  nb::object found = launch(inputs);
  TORCH_CHECK(!found.is_none(), "a result of the capture is still in use outside of it");
  return found;
}

void GraphedCallable::fail(std::string reason) {
  drop();
  calls_ = 0;
  if (++failures_ == most_failures) refusal_ = reason.empty() ? "an error without a text" : std::move(reason);
}

void GraphedCallable::drop() {
  if (before_) components.stream.set_current(device_, std::exchange(before_, nullptr));
  if (capture_) components.stream.capture_destroy(std::exchange(capture_, nullptr));
  for (Input &input : inputs_) input.buffer.reset();
  for (Result &result : results_) {
    result.tensor.reset();
    result.other.reset();
    result.view_of.reset();
  }
}

} // namespace tb::compile
