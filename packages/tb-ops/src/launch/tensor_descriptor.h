// Operator arguments on their way from the calling thread to the stream's worker: plain descriptors on the one side,
// CPU tensors over the same bytes on the other. No device tensor is kept alive: its memory is reused in stream order.
#pragma once
#include <ATen/core/IListRef.h>
#include <ATen/core/List.h>
#include <ATen/core/Tensor.h>
#include <c10/util/DimVector.h>
#include <c10/util/SmallVector.h>

#include <cmath>
#include <limits>
#include <optional>
#include <string>
#include <utility>
#include <vector>

namespace tb {

// What was noted for the next launch of this thread, which takes it, of what it captures.
struct Noted {
  uint64_t types = 0; // of the tensors, folded into a number (see FirstUse)
  // The kernel may well refuse it, whatever the types: it writes to a tensor several elements of which are one, or it has
  // a number that the tensors' types cannot hold.
  bool doubtful = false;
};

// In a row of tensors of one type those behind the first few do not count, so that long lists of any length look alike.
// Empty tensors differ: kernels look at no type then.
class LaunchNotes {
public:
  void add(c10::ScalarType type, bool empty) {
    const uint64_t symbol = 2 * static_cast<uint64_t>(type) + empty + 1;
    present_ |= uint64_t{1} << static_cast<unsigned>(type);
    row_ = symbol == last_ ? row_ + 1 : 1;
    last_ = symbol;
    if (row_ > counted_in_a_row) return;
    noted_.types = noted_.types * 131 + symbol;
  }
  void add_overlap() { noted_.doubtful = true; }
  void add(const c10::Scalar &number) {
    if (number.isComplex() || number.isSymbolic()) return;
    const double size = number.isFloatingPoint() ? std::fabs(number.toDouble()) : std::fabs(number.to<double>());
    if (!(size <= held_by_all)) [[unlikely]]
      largest_ = size > largest_ ? size : std::isnan(size) ? std::numeric_limits<double>::infinity() : largest_;
  }
  Noted take() {
    if (largest_ > held_by_all) [[unlikely]]
      noted_.doubtful |= is_too_large();
    last_ = present_ = 0;
    largest_ = 0;
    return std::exchange(noted_, {});
  }

private:
  // Enough for the arguments that are no lists: int, float, float is another call than int, int, float.
  static constexpr uint32_t counted_in_a_row = 3;
  static constexpr double held_by_all = 127;
  bool is_too_large() const;

  Noted noted_;
  uint64_t last_ = 0;
  uint32_t row_ = 0;
  uint64_t present_ = 0; // types, as bits
  double largest_ = 0;   // of the numbers
};
extern thread_local constinit LaunchNotes launch_notes;

// A tensor's address, shape and type. A CPU tensor without dimensions travels by value, with its wrapped-number flag, since
// type promotion depends on it; another CPU tensor is copied, so that the caller may change it at once.
class TensorArgument {
public:
  // What becomes of a CPU tensor: copy it, or share its bytes (the caller promises not to change them).
  enum class Host { copy, share };
  explicit TensorArgument(const at::Tensor &tensor, Host host = Host::copy);
  ~TensorArgument();
  TensorArgument(const TensorArgument &) = delete;
  TensorArgument &operator=(const TensorArgument &) = delete;
  TensorArgument(TensorArgument &&other) noexcept;
  TensorArgument &operator=(TensorArgument &&other) noexcept {
    if (this == &other) return *this;
    this->~TensorArgument();
    return *new (this) TensorArgument(std::move(other));
  }

  // On the worker: a CPU tensor over the bytes, valid until the closure ends. An undefined tensor stays undefined.
  const at::Tensor &alias() { return writable(); }

  // Of a tensor on the device.
  void *data() const { return data_; }
  c10::ScalarType type() const { return type_; }
  int64_t elements() const {
    const int64_t *lengths = dimensions_ > inline_dimensions ? heap_ : inline_;
    int64_t count = 1;
    for (uint32_t i = 0; i < dimensions_; i++) count *= lengths[i];
    return count;
  }

private:
  friend class WrittenArgument;
  friend at::Tensor &restore(TensorArgument &argument);
  static constexpr size_t inline_dimensions = 4;
  at::Tensor &writable();
  [[gnu::noinline]] void take(const at::Tensor &tensor, Host host);
  int64_t *sizes() { return dimensions_ > inline_dimensions ? heap_ : inline_; }

  // What few dimensions need comes first: each line of the queue that is written has to come from the worker's processor.
  void *data_ = nullptr;
  c10::intrusive_ptr<c10::TensorImpl> host_;
  uint32_t dimensions_ = 0;
  c10::ScalarType type_ = c10::ScalarType::Undefined;
  bool by_value_ = false, wrapped_ = false, conjugate_ = false, negative_ = false;
  union {
    int64_t inline_[2 * inline_dimensions]; // sizes, then strides
    int64_t *heap_;
    alignas(16) unsigned char value_[16]; // as complex numbers need it
  };
};

// Whether an element is there twice: some dimension of more than one element has stride 0.
inline bool overlaps_itself(const at::Tensor &tensor) {
  if (!tensor.defined() || tensor.is_non_overlapping_and_dense()) return false;
  const c10::IntArrayRef sizes = tensor.sizes(), strides = tensor.strides();
  for (size_t i = 0; i < sizes.size(); i++)
    if (strides[i] == 0 && sizes[i] > 1) [[unlikely]]
      return true;
  return false;
}

// A tensor that a closure writes to: the only one whose alias it may change. The launch learns whether it overlaps itself.
class WrittenArgument : public TensorArgument {
public:
  explicit WrittenArgument(const at::Tensor &tensor, Host host = Host::copy) : TensorArgument(tensor, host) {
    if (overlaps_itself(tensor)) [[unlikely]]
      launch_notes.add_overlap();
  }
  at::Tensor &alias() { return writable(); }
};

// The worker's stock of CPU tensors: aliases are reused from closure to closure, made anew only when a kernel kept one.
class AliasScope {
public:
  AliasScope() = default;
  ~AliasScope();
  AliasScope(const AliasScope &) = delete;
  AliasScope &operator=(const AliasScope &) = delete;
};

// stored(x): what a closure keeps of an argument; restore(stored): what the CPU kernel gets.
inline TensorArgument stored(const at::Tensor &tensor) { return TensorArgument(tensor); }
inline at::Tensor &restore(TensorArgument &argument) { return argument.writable(); }

struct OptionalTensorArgument {
  explicit OptionalTensorArgument(const std::optional<at::Tensor> &tensor)
      : argument(tensor ? *tensor : at::Tensor()), present(tensor.has_value()) {}
  TensorArgument argument;
  bool present;
};
inline OptionalTensorArgument stored(const std::optional<at::Tensor> &t) { return OptionalTensorArgument(t); }
inline std::optional<at::Tensor> restore(OptionalTensorArgument &a) {
  return a.present ? std::optional<at::Tensor>(restore(a.argument)) : std::nullopt;
}

using TensorArguments = std::vector<TensorArgument>;
using WrittenArguments = std::vector<WrittenArgument>;
// In the closure itself: no allocation for the caller, nothing of another thread's for the worker to free.
using FewTensorArguments = c10::SmallVector<TensorArgument, 4>;
template <class Arguments = TensorArguments, class List> Arguments stored_list(const List &list) {
  Arguments out;
  out.reserve(list.size());
  for (const at::Tensor &tensor : list) out.emplace_back(tensor);
  return out;
}
inline FewTensorArguments stored(const at::ITensorListRef &list) {
  return list.isUnboxed() ? stored_list<FewTensorArguments>(list.toUnboxed()) : stored_list<FewTensorArguments>(list);
}
inline TensorArguments stored(const at::TensorList &list) { return stored_list(list); }
inline TensorArguments stored(const std::vector<at::Tensor> &list) { return stored_list(list); }
template <class Arguments> std::vector<at::Tensor> restore(Arguments &arguments)
  requires std::is_same_v<typename Arguments::value_type, TensorArgument>
{
  std::vector<at::Tensor> out;
  out.reserve(arguments.size());
  for (TensorArgument &argument : arguments) out.push_back(restore(argument));
  return out;
}

struct OptionalTensorArguments {
  std::vector<OptionalTensorArgument> list;
};
OptionalTensorArguments stored(const c10::List<std::optional<at::Tensor>> &list);
OptionalTensorArguments stored(const at::IOptTensorListRef &list);
c10::List<std::optional<at::Tensor>> restore(OptionalTensorArguments &arguments);

inline c10::DimVector stored(c10::IntArrayRef list) { return c10::DimVector(list); }
inline c10::IntArrayRef restore(const c10::DimVector &list) { return list; }

struct OptionalIntegers {
  std::optional<c10::DimVector> list;
};
inline OptionalIntegers stored(const c10::OptionalIntArrayRef &list) {
  return {list ? std::optional(c10::DimVector(*list)) : std::nullopt};
}
inline c10::OptionalIntArrayRef restore(const OptionalIntegers &stored) {
  return stored.list ? c10::OptionalIntArrayRef(*stored.list) : c10::OptionalIntArrayRef();
}

struct OptionalDoubles {
  std::optional<std::vector<double>> list;
};
inline OptionalDoubles stored(const std::optional<c10::ArrayRef<double>> &list) {
  return {list ? std::optional(list->vec()) : std::nullopt};
}
inline std::optional<c10::ArrayRef<double>> restore(const OptionalDoubles &stored) {
  return stored.list ? std::optional<c10::ArrayRef<double>>(*stored.list) : std::nullopt;
}

inline std::string stored(std::string_view text) { return std::string(text); }
inline std::string_view restore(const std::string &text) { return text; }

struct OptionalText {
  std::optional<std::string> text;
};
inline OptionalText stored(const std::optional<std::string_view> &text) {
  return {text ? std::optional<std::string>(*text) : std::nullopt};
}
inline std::optional<std::string_view> restore(const OptionalText &stored) {
  return stored.text ? std::optional<std::string_view>(*stored.text) : std::nullopt;
}

// Numbers, scalars, types and other plain values.
template <class T> T stored(const T &value)
  requires(std::is_arithmetic_v<T> || std::is_enum_v<T> || std::is_same_v<T, c10::Scalar>)
{
  if constexpr (std::is_same_v<T, c10::Scalar>) launch_notes.add(value);
  return value;
}
template <class T> std::optional<T> stored(const std::optional<T> &value)
  requires(std::is_arithmetic_v<T> || std::is_enum_v<T> || std::is_same_v<T, c10::Scalar>)
{
  if constexpr (std::is_same_v<T, c10::Scalar>)
    if (value) launch_notes.add(*value);
  return value;
}
template <class T, size_t N> std::array<T, N> stored(const std::array<T, N> &value) { return value; }
template <class T> const T &restore(const T &value) { return value; }

} // namespace tb
