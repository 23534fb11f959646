// Writes arguments as words.
#include "dispatch/layout_cache/call_key.h"

#include <ATen/Context.h>
#include <ATen/core/grad_mode.h>

#include <algorithm>
#include <bit>

#include "runtime/runtime.h"

namespace tb::ops {
namespace {

enum Kind : int64_t { none, undefined, tensor, integer, real, complex, boolean, text, device, generator, list };

class Writer {
public:
  bool add(const c10::IValue &value) {
    if (value.isNone()) return words(none);
    if (value.isTensor()) return add(value.toTensor());
    if (value.isInt()) return words(integer, value.toInt());
    if (value.isDouble()) return words(real, std::bit_cast<int64_t>(value.toDouble()));
    if (value.isBool()) return words(boolean, value.toBool());
    if (value.isComplexDouble()) {
      const c10::complex<double> number = value.toComplexDouble();
      return words(complex, std::bit_cast<int64_t>(number.real()), std::bit_cast<int64_t>(number.imag()));
    }
    if (value.isDevice()) return add(value.toDevice());
    if (value.isGenerator())
      return value.toGenerator().device().type() == device_type && words(generator) &&
             add(value.toGenerator().device());
    if (value.isString()) {
      const std::string &string = value.toStringRef();
      key.insert(key.end(), string.begin(), string.end());
      return words(text, static_cast<int64_t>(string.size()));
    }
    if (!value.isList()) return false;
    const c10::ArrayRef<c10::IValue> items = value.toListRef();
    words(list, static_cast<int64_t>(items.size()));
    return std::all_of(items.begin(), items.end(), [&](const c10::IValue &item) { return add(item); });
  }

  CallKey key;

private:
  template <class... Words> bool words(Words... word) {
    (key.push_back(static_cast<int64_t>(word)), ...);
    return true;
  }

  bool add(c10::Device where) { return words(device, where.type(), where.index()); }

  bool add(const at::Tensor &given) {
    if (!given.defined()) return words(undefined);
    if (given.layout() != c10::kStrided || given.is_quantized() || given._is_zerotensor()) return false;
    const bool wrapped = given.unsafeGetTensorImpl()->is_wrapped_number();
    words(tensor, given.scalar_type(), given.is_conj(), given.is_neg(), wrapped, given.dim());
    add(given.device());
    key.insert(key.end(), given.sizes().begin(), given.sizes().end());
    key.insert(key.end(), given.strides().begin(), given.strides().end());
    return true;
  }
};

} // namespace

std::optional<CallKey> call_key(c10::ArrayRef<c10::IValue> arguments) {
  Writer writer;
  writer.key.reserve(64);
  writer.key.push_back(
      static_cast<int64_t>(at::get_default_dtype_as_scalartype())); // factories use it if no dtype is given
  writer.key.push_back(
      at::GradMode::is_enabled()); // recurrent layers return a workspace for the backward pass, or none
  for (const c10::IValue &argument : arguments)
    if (!writer.add(argument)) return std::nullopt;
  return std::move(writer.key);
}

} // namespace tb::ops
