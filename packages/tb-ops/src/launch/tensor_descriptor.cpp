// Descriptors to CPU tensors: the worker's stock of reusable aliases.
#include "launch/tensor_descriptor.h"

#include <ATen/EmptyTensor.h>
#include <ATen/ops/clone.h>
#include <ATen/ops/conj_physical_ops.h>
#include <c10/core/CPUAllocator.h>

#include <algorithm>
#include <array>
#include <cstring>
#include <memory>

#include "worker/worker_tensors.h"
#include "random/philox_state.h"
#include "runtime/format.h"
#include "intraop/thread_policy.h"

namespace tb {
namespace {

constexpr size_t type_count = static_cast<size_t>(c10::ScalarType::NumOptions);

// Tensors by type, handed out in order. Their storages own nothing.
struct Aliases {
  struct Shelf {
    std::vector<std::unique_ptr<at::Tensor>> tensors; // references stay valid while it grows
    size_t used = 0;
  };
  std::array<Shelf, type_count> shelves;
  c10::SmallVector<std::pair<at::Tensor *, bool>, 4> complex; // with their conjugate bits
  c10::SmallVector<uint8_t, 8> touched;

  at::Tensor &take(c10::ScalarType type) {
    Shelf &shelf = shelves[static_cast<size_t>(type)];
    if (shelf.used == 0) touched.push_back(static_cast<uint8_t>(type));
    if (shelf.used == shelf.tensors.size()) [[unlikely]]
      shelf.tensors.push_back(std::make_unique<at::Tensor>(fresh(type)));
    return *shelf.tensors[shelf.used++];
  }

  static at::Tensor fresh(c10::ScalarType type) {
    auto storage = c10::make_intrusive<c10::StorageImpl>(c10::StorageImpl::use_byte_size_t(), 0,
                                                         c10::DataPtr(nullptr, c10::kCPU), nullptr, false);
    return at::detail::make_tensor<c10::TensorImpl>(
        c10::Storage(std::move(storage)), c10::DispatchKeySet(c10::DispatchKey::CPU), c10::scalarTypeToTypeMeta(type));
  }

  std::string described() const {
    std::string text;
    for (uint8_t type : touched)
      for (size_t i = 0; i < shelves[type].used; i++) {
        const at::Tensor &tensor = *shelves[type].tensors[i];
        text +=
            (text.empty() ? "" : ", ") + c10::str(c10::getDtypeNames(tensor.scalar_type()).first, " ", tensor.sizes());
      }
    return text;
  }

  // A kernel may leave its output conjugated by the bit alone (linalg_lu_solve does), of which the device's tensor would
  // never learn: then the numbers are conjugated.
  void keep_conjugate_bits() {
    for (const auto &[tensor, bit] : complex) {
      if (tensor->is_conj() == bit) continue;
      tensor->_set_conj(false);
      at::_ops::conj_physical_::call(*tensor);
      tensor->_set_conj(bit);
    }
    complex.clear();
  }

  void give_back() {
    keep_conjugate_bits();
    for (uint8_t type : touched) {
      Shelf &shelf = shelves[type];
      for (size_t i = 0; i < shelf.used; i++) {
        at::Tensor &tensor = *shelf.tensors[i];
        // A kernel that kept the tensor or its storage owns it now.
        if (tensor.use_count() != 1 || tensor.storage().use_count() != 1) [[unlikely]]
          tensor = fresh(c10::ScalarType(type));
      }
      shelf.used = 0;
    }
    touched.clear();
  }
};

// A plain pointer, where a thread's object with a constructor would be guarded at every use. On the heap: a module with
// much memory per thread may not fit beside others that need theirs at a fixed place.
thread_local constinit Aliases *thread_aliases = nullptr;

[[gnu::noinline]] Aliases &make_aliases() {
  static thread_local const auto own = std::make_unique<Aliases>();
  return *(thread_aliases = own.get());
}
Aliases &aliases() { return thread_aliases ? *thread_aliases : make_aliases(); }

// From the first byte to the last that elements can be at.
size_t span(const int64_t *sizes, const int64_t *strides, uint32_t dimensions, size_t item) {
  int64_t last = 0;
  for (uint32_t i = 0; i < dimensions; i++) {
    if (sizes[i] == 0) return 0;
    last += (sizes[i] - 1) * strides[i];
  }
  return static_cast<size_t>(last + 1) * item;
}

} // namespace

thread_local constinit LaunchNotes launch_notes;

// Where there are floating tensors the integers are indices.
bool LaunchNotes::is_too_large() const {
  if (any_capture()) return false; // nothing can be waited for
  double holds = std::numeric_limits<double>::infinity();
  bool floating = false;
  const auto look = [&]<class Number>(c10::ScalarType type, Number largest) {
    if (!(present_ >> static_cast<unsigned>(type) & 1)) return;
    floating |= c10::isFloatingType(type) || c10::isComplexType(type);
    if (c10::isIntegralType(type, false) && floating) return;
    holds = std::min(holds, static_cast<double>(largest));
  };
  look(c10::kDouble, std::numeric_limits<double>::infinity());
  look(c10::kComplexDouble, std::numeric_limits<double>::infinity());
  look(c10::kFloat, std::numeric_limits<float>::max());
  look(c10::kComplexFloat, std::numeric_limits<float>::max());
  look(c10::kBFloat16, std::numeric_limits<c10::BFloat16>::max());
  look(c10::kHalf, std::numeric_limits<c10::Half>::max());
  look(c10::kLong, std::numeric_limits<int64_t>::max());
  look(c10::kInt, std::numeric_limits<int32_t>::max());
  look(c10::kShort, std::numeric_limits<int16_t>::max());
  look(c10::kChar, std::numeric_limits<int8_t>::max());
  look(c10::kByte, std::numeric_limits<uint8_t>::max());
  if (floating && std::isinf(largest_)) return false;
  return largest_ > holds;
}

std::string describe_aliases() { return aliases().described(); }

AliasScope::~AliasScope() { aliases().give_back(); }

TensorArgument::TensorArgument(const at::Tensor &tensor, Host host_tensor) {
  if (!tensor.defined()) return;
  const c10::TensorImpl *impl = tensor.unsafeGetTensorImpl();
  type_ = c10::typeMetaToScalarType(impl->dtype());
  wrapped_ = impl->is_wrapped_number();
  conjugate_ = impl->is_conj();
  negative_ = impl->is_neg();
  const c10::IntArrayRef sizes = impl->sizes(), strides = impl->strides();
  const c10::Storage &storage = impl->unsafe_storage();
  if (impl->numel() == 0 || impl->device_type() == c10::DeviceType::CPU || sizes.size() > inline_dimensions ||
      !storage) {
    take(tensor, host_tensor);
    return;
  }
  // As mutable_data() of the tensor does, which asks more than once whether there is a storage.
  data_ =
      static_cast<std::byte *>(storage.mutable_data()) + static_cast<size_t>(impl->storage_offset()) * impl->itemsize();
  const size_t count = sizes.size();
  dimensions_ = static_cast<uint32_t>(count);
  for (size_t i = 0; i < count; i++) { // a call of memcpy would take longer
    inline_[i] = sizes[i];
    inline_[count + i] = strides[i];
  }
  launch_notes.add(type_, false);
}

// What few tensors are: of the host, empty, of many dimensions. Apart, since the rest needs no registers of the caller's.
void TensorArgument::take(const at::Tensor &tensor, Host host_tensor) {
  c10::TensorImpl *impl = tensor.unsafeGetTensorImpl();
  launch_notes.add(type_, impl->numel() == 0);
  if (impl->device_type() == c10::DeviceType::CPU) {
    if (host_tensor == Host::copy && impl->numel() == 1 && impl->itemsize() <= sizeof value_ && impl->dim() == 0) {
      by_value_ = true;
      std::memcpy(value_, impl->data(), impl->itemsize());
      return;
    }
    // Shared: another TensorImpl over the same storage, since one that Python knows must not die on the worker.
    if (host_tensor == Host::copy)
      host_ = tensor.clone().unsafeReleaseIntrusivePtr();
    else
      host_ = impl->shallow_copy_and_detach(c10::VariableVersion(0), false);
    impl = host_.get();
  }
  data_ = impl->mutable_data();
  const c10::IntArrayRef sizes = impl->sizes(), strides = impl->strides();
  int64_t *to = inline_;
  if (sizes.size() > inline_dimensions) to = heap_ = new int64_t[2 * sizes.size()];
  dimensions_ = static_cast<uint32_t>(sizes.size());
  std::copy(sizes.begin(), sizes.end(), to);
  std::copy(strides.begin(), strides.end(), to + sizes.size());
}

TensorArgument::TensorArgument(TensorArgument &&other) noexcept
    : data_(other.data_), host_(std::move(other.host_)), dimensions_(other.dimensions_), type_(other.type_),
      by_value_(other.by_value_), wrapped_(other.wrapped_), conjugate_(other.conjugate_), negative_(other.negative_) {
  std::memcpy(inline_, other.inline_, sizeof inline_);
  other.dimensions_ = 0; // the heap array, if any, is ours
}

TensorArgument::~TensorArgument() {
  if (dimensions_ > inline_dimensions) delete[] heap_;
}

at::Tensor &TensorArgument::writable() {
  static thread_local at::Tensor undefined;
  if (type_ == c10::ScalarType::Undefined) return undefined;
  at::Tensor &tensor = aliases().take(type_);
  c10::TensorImpl *impl = tensor.unsafeGetTensorImpl();
  if (impl->is_wrapped_number()) impl->set_wrapped_number(false); // before the shape changes
  const int64_t *lengths = sizes(), *strides = lengths + dimensions_;
  c10::StorageImpl *storage = impl->unsafe_storage().unsafeGetStorageImpl();
  void *data = by_value_ ? value_ : data_;
  if (!storage->_mutable_data_ptr_no_checks().unsafe_reset_data_and_ctx(data)) [[unlikely]]
    storage->set_data_ptr_noswap(c10::DataPtr(data, c10::kCPU));
  // Stock's linalg_vector_norm reads sizes[0] of a scalar: it finds zero there, as in a tensor that never had a size.
  if (dimensions_ == 0 && impl->dim() != 0) impl->set_sizes_contiguous(c10::IntArrayRef{int64_t{0}});
  impl->set_sizes_and_strides({lengths, dimensions_}, {strides, dimensions_}, 0);
  storage->set_nbytes(span(lengths, strides, dimensions_, impl->itemsize()));
  if (type_ != c10::ScalarType::Float && !c10::isIntegralType(type_, true) && !by_value_) team.depend();
  team.add(impl->numel());
  if (wrapped_) impl->set_wrapped_number(true);
  if (conjugate_ != impl->is_conj()) impl->_set_conj(conjugate_);
  if (negative_ != impl->is_neg()) impl->_set_neg(negative_);
  if (c10::isComplexType(type_)) aliases().complex.emplace_back(&tensor, conjugate_);
  return tensor;
}

at::Tensor &slice(const at::Tensor &alias, int64_t begin, int64_t count) {
  return flat(static_cast<std::byte *>(alias.mutable_data_ptr()) + static_cast<size_t>(begin) * alias.itemsize(),
              alias.scalar_type(), count);
}

at::Tensor &flat(void *data, c10::ScalarType type, int64_t count) {
  at::Tensor &tensor = aliases().take(type);
  c10::TensorImpl *impl = tensor.unsafeGetTensorImpl();
  if (impl->is_wrapped_number()) impl->set_wrapped_number(false);
  set_flat(tensor, data, count);
  return tensor;
}

void set_flat(at::Tensor &flat, void *data, int64_t count) {
  c10::TensorImpl *impl = flat.unsafeGetTensorImpl();
  move_flat(flat, data);
  impl->set_sizes_contiguous(count);
  impl->unsafe_storage().unsafeGetStorageImpl()->set_nbytes(static_cast<size_t>(count) * impl->itemsize());
}

void move_flat(at::Tensor &flat, void *data) {
  c10::StorageImpl *storage = flat.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
  if (!storage->_mutable_data_ptr_no_checks().unsafe_reset_data_and_ctx(data)) [[unlikely]]
    storage->set_data_ptr_noswap(c10::DataPtr(data, c10::kCPU));
}

OptionalTensorArguments stored(const c10::List<std::optional<at::Tensor>> &list) {
  OptionalTensorArguments out;
  out.list.reserve(list.size());
  for (size_t i = 0; i < list.size(); i++) out.list.emplace_back(list.get(i));
  return out;
}

OptionalTensorArguments stored(const at::IOptTensorListRef &list) {
  OptionalTensorArguments out;
  out.list.reserve(list.size());
  for (const at::OptionalTensorRef tensor : list)
    out.list.emplace_back(tensor.has_value() ? std::optional<at::Tensor>(*tensor) : std::nullopt);
  return out;
}

c10::List<std::optional<at::Tensor>> restore(OptionalTensorArguments &arguments) {
  c10::List<std::optional<at::Tensor>> out;
  out.reserve(arguments.list.size());
  for (OptionalTensorArgument &argument : arguments.list) out.push_back(restore(argument));
  return out;
}

} // namespace tb
