// Structured operators: PyTorch's own meta function checks the arguments and asks for outputs here, on the calling
// thread; the CPU kernel runs later on the worker. One class template per kind of schema instead of generated classes.
#pragma once
#include <ATen/TensorIterator.h>
#include <ATen/TensorMeta.h>

#include <array>
#include <concepts>
#include <functional>

#include "structured/pointwise_meta.h"
#include "launch/launch.h"

namespace at::cpu {}

namespace tb {

// A new output as a meta function wants it.
at::Tensor create_output(c10::IntArrayRef sizes, c10::IntArrayRef strides, const c10::TensorOptions &options);
// An out= argument: checked against the options and resized as PyTorch does.
void resize_output(const at::Tensor &out, c10::IntArrayRef sizes, c10::IntArrayRef strides,
                   const c10::TensorOptions &options);
// An in-place argument: checked, never resized.
void check_in_place(const at::Tensor &self, c10::IntArrayRef sizes, const c10::TensorOptions &options);

enum class Schema { functional, in_place, out };

template <Schema schema> using StructuredOutput =
    std::conditional_t<schema == Schema::functional, at::Tensor, std::reference_wrapper<const at::Tensor>>;

template <class Meta, Schema schema, size_t count> class MetaCall final : public Meta {
public:
  MetaCall()
    requires(schema == Schema::functional)
  = default;
  template <class... Tensors> explicit MetaCall(const Tensors &...tensors)
    requires(schema != Schema::functional)
      : outputs{std::cref(tensors)...} {}

  // The CPU kernel makes its own proxy where it needs these very strides; an output of another layout is fine here.
  void set_output_strided(int64_t i, c10::IntArrayRef sizes, c10::IntArrayRef strides,
                          c10::TensorOptions options) override {
    set_output_raw_strided(i, sizes, strides, options);
  }
  void set_output_raw_strided(int64_t i, c10::IntArrayRef sizes, c10::IntArrayRef strides,
                              c10::TensorOptions options) override {
    if constexpr (schema == Schema::functional) outputs[i] = create_output(sizes, strides, options);
    if constexpr (schema == Schema::in_place) check_in_place(outputs[i], sizes, options);
    if constexpr (schema == Schema::out) resize_output(outputs[i], sizes, strides, options);
    if constexpr (std::derived_from<Meta, at::TensorIteratorBase>)
      Meta::set_output_raw_strided(i, sizes, strides, options);
  }
  const at::Tensor &maybe_get_output(int64_t i) override { return outputs[i]; }
  const at::Tensor &output(size_t i) const { return outputs[i]; }

  std::array<StructuredOutput<schema>, count> outputs;
};

// Makes the meta function, which holds an iterator, only where it has something to find out.
template <class Meta, Schema schema> class ElementwiseCall {
public:
  ElementwiseCall()
    requires(schema == Schema::functional)
  = default;
  explicit ElementwiseCall(const at::Tensor &self)
    requires(schema == Schema::in_place)
      : outputs{std::cref(self)} {}

  template <class... Arguments> void meta(const Arguments &...arguments) {
    Alike tensors;
    (tensors.add(arguments), ...);
    if (tensors.good && take(*tensors.first, arguments...)) return;
    if constexpr (schema == Schema::functional) {
      MetaCall<Meta, schema, 1> call;
      call.meta(arguments...);
      outputs = std::move(call.outputs);
    } else {
      MetaCall<Meta, schema, 1>(output(0)).meta(arguments...);
    }
  }
  const at::Tensor &output(size_t i) const { return outputs[i]; }

  std::array<StructuredOutput<schema>, 1> outputs;

private:
  // The output of a call on tensors like `first`; false: some of them is a piece of the output.
  template <class... Arguments> bool take(const at::Tensor &first, const Arguments &...arguments) {
    if constexpr (schema == Schema::functional) {
      outputs[0] = empty_like_contiguous(first);
    } else {
      const auto apart = [this]<class Argument>(const Argument &argument) {
        if constexpr (std::is_same_v<Argument, at::Tensor>) return !partly_overlap(output(0), argument);
        return true;
      };
      return (apart(arguments) && ...);
    }
    return true;
  }
};

// The output of cat, if its tensors are alike but for their length in one dimension; undefined otherwise.
at::Tensor concatenation(const at::ITensorListRef &tensors, int64_t dim);

// The same for cat, whose meta function was a quarter of its cost to the caller.
template <class Meta> class ConcatenationCall {
public:
  void meta(const at::ITensorListRef &tensors, int64_t dim) {
    outputs[0] = concatenation(tensors, dim);
    if (outputs[0].defined()) return;
    MetaCall<Meta, Schema::functional, 1> call;
    call.meta(tensors, dim);
    outputs = std::move(call.outputs);
  }
  const at::Tensor &output(size_t i) const { return outputs[i]; }

  std::array<at::Tensor, 1> outputs;
};

template <class Meta, Schema schema, size_t count> using Structured = std::conditional_t<
    elementwise<Meta> && schema != Schema::out, ElementwiseCall<Meta, schema>,
    std::conditional_t<std::is_same_v<Meta, at::meta::structured_cat> && schema == Schema::functional,
                       ConcatenationCall<Meta>, MetaCall<Meta, schema, count>>>;

// PyTorch's CPU kernels, which those that are declared here hide: ours with the same bits.
namespace cpu {
using namespace at::cpu;
void mm_outf(const at::Tensor &self, const at::Tensor &mat2, at::Tensor &out);
void addmm_outf(const at::Tensor &self, const at::Tensor &mat1, const at::Tensor &mat2, const at::Scalar &beta,
                const at::Scalar &alpha, at::Tensor &out);
void bmm_outf(const at::Tensor &self, const at::Tensor &mat2, at::Tensor &out);
void baddbmm_outf(const at::Tensor &self, const at::Tensor &batch1, const at::Tensor &batch2, const at::Scalar &beta,
                  const at::Scalar &alpha, at::Tensor &out);
void max_pool2d_with_indices_outf(const at::Tensor &self, c10::IntArrayRef kernel_size, c10::IntArrayRef stride,
                                  c10::IntArrayRef padding, c10::IntArrayRef dilation, bool ceil_mode, at::Tensor &out,
                                  at::Tensor &indices);
void gelu_outf(const at::Tensor &self, c10::string_view approximate, at::Tensor &out);
void gelu_backward_outf(const at::Tensor &grad, const at::Tensor &self, c10::string_view approximate, at::Tensor &out);
void sigmoid_outf(const at::Tensor &self, at::Tensor &out);
void silu_outf(const at::Tensor &self, at::Tensor &out);
void silu_backward_outf(const at::Tensor &grad, const at::Tensor &self, at::Tensor &out);
} // namespace cpu

// Raises unless every defined tensor is on one tb device; returns it.
c10::DeviceIndex common_device(const char *operation, std::initializer_list<const at::Tensor *> tensors);
// The same for a list and the output.
c10::DeviceIndex common_device(const char *operation, const at::ITensorListRef &tensors, const at::Tensor &out);

} // namespace tb
