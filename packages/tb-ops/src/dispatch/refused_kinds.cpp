// Refuses tensors that are not dense.
#include "dispatch/refused_kinds.h"

#include <ATen/ops/_nested_tensor_from_tensor_list_native.h>
#include <torch/library.h>

#include <string_view>
#include <utility>
#include <vector>

#include "runtime/format.h"
#include "runtime/runtime.h"

namespace tb::ops {
namespace {

// A kind of tensor that PyTorch can make for any device, but that no operator here accepts.
struct Kind {
  c10::DispatchKey key;
  const char *name, *remedy;
};
constexpr Kind refused_kinds[] = {
    {c10::DispatchKey::SparsePrivateUse1, "sparse (COO)", "make it dense: tensor.to_dense()"},
    {c10::DispatchKey::SparseCsrPrivateUse1, "sparse (compressed)", "make it dense: tensor.to_dense()"},
    {c10::DispatchKey::QuantizedPrivateUse1, "quantized", "make it dense: tensor.dequantize()"},
    {c10::DispatchKey::NestedTensorPrivateUse1, "nested (strided layout)", "nest it with layout=torch.jagged"},
};

constexpr size_t compressed = 1, nested = 3; // indices in refused_kinds

[[noreturn]] void refuse_kind(std::string_view name, size_t place) {
  const Kind &kind = refused_kinds[place];
  C10_THROW_ERROR(NotImplementedError,
                  c10::str(name, ": tb has no ", kind.name, " tensors. Keep the tensor on the CPU, or ", kind.remedy,
                           " before it is moved to tb"));
}

template <size_t i> void refuse(const c10::OperatorHandle &op, c10::DispatchKeySet, torch::jit::Stack *) {
  refuse_kind(name_of(op), i);
}

// PyTorch's own functions make such tensors for any device, so without these refusals the error would come at the first
// use. The members may be dense tensors on tb, or tensors on another device if the call asks for device tb.
constexpr const char *makers_of_compressed[] = {"sparse_compressed_tensor.comp_plain_value_size",
                                                "sparse_compressed_tensor.comp_plain_value",
                                                "_sparse_compressed_tensor_unsafe",
                                                "_sparse_compressed_tensor_with_dims",
                                                "_sparse_csr_tensor_unsafe",
                                                "_sparse_csc_tensor_unsafe",
                                                "_sparse_bsr_tensor_unsafe",
                                                "_sparse_bsc_tensor_unsafe"};
constexpr char maker_of_nested[] = "_nested_tensor_from_tensor_list";

// empty_like of a tensor on the CPU makes a compressed tensor and calls none of these functions. So the operators that
// PyTorch has for compressed tensors of any device refuse too.
constexpr const char *uses_of_compressed[] = {"values", "crow_indices", "ccol_indices", "col_indices", "row_indices",
                                              "_nnz",   "sparse_dim",   "dense_dim",    "_to_copy",    "_to_dense",
                                              "clone",  "copy_",        "zero_",        "abs",         "sum"};

// Refuses to make a nested tensor on tb out of tensors on the CPU.
at::Tensor nested_from_list(at::TensorList list, std::optional<at::ScalarType> dtype, std::optional<at::Layout> layout,
                            std::optional<at::Device> device, std::optional<bool> pin_memory) {
  if (device && device->type() == device_type) refuse_kind(maker_of_nested, nested);
  return at::native::_nested_tensor_from_tensor_list(list, dtype, layout, device, pin_memory);
}

void register_refused_makers() {
  static std::vector<torch::Library> *libraries = new std::vector<torch::Library>();
  for (const auto key : {c10::DispatchKey::PrivateUse1, refused_kinds[compressed].key}) {
    torch::Library &aten = libraries->emplace_back(torch::Library::IMPL, "aten", key, __FILE__, __LINE__);
    for (const char *name : makers_of_compressed)
      aten.impl(name, torch::CppFunction::makeFromBoxedFunction<&refuse<compressed>>());
    aten.impl(maker_of_nested, torch::CppFunction::makeFromBoxedFunction<&refuse<nested>>());
  }
  for (const char *name : uses_of_compressed)
    libraries->back().impl(name, torch::CppFunction::makeFromBoxedFunction<&refuse<compressed>>());
  libraries->emplace_back(torch::Library::IMPL, "aten", c10::DispatchKey::CPU, __FILE__, __LINE__)
      .impl(maker_of_nested, TORCH_FN(nested_from_list));
}

template <size_t... i> void register_refusals(std::index_sequence<i...>) {
  static std::vector<torch::Library> *libraries = new std::vector<torch::Library>();
  (libraries->emplace_back(torch::Library::IMPL, "_", refused_kinds[i].key, __FILE__, __LINE__)
       .fallback(torch::CppFunction::makeFromBoxedFunction<&refuse<i>>()),
   ...);
}

} // namespace

void register_refused_kinds() {
  register_refusals(std::make_index_sequence<std::size(refused_kinds)>());
  register_refused_makers();
}

} // namespace tb::ops
