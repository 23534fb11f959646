// Structured operators. PyTorch's own meta function checks the arguments and asks for outputs here, on the calling
// thread; the CPU kernel runs later on the worker. One class template for each kind of schema replaces generated
// classes.
#pragma once
#include <ATen/TensorIterator.h>
#include <ATen/TensorMeta.h>

#include <array>
#include <concepts>
#include <functional>

#include "launch/launch.h"
#include "structured/pointwise_meta.h"

namespace tb::ops {

// Allocates an output that a meta function asks for.
at::Tensor create_output(c10::IntArrayRef sizes, c10::IntArrayRef strides, const c10::TensorOptions &options);
// Checks an out= argument against the options and resizes it, as PyTorch does.
void resize_output(const at::Tensor &out, c10::IntArrayRef sizes, c10::IntArrayRef strides,
                   const c10::TensorOptions &options);
// Checks an in-place argument, which is never resized.
void check_in_place(const at::Tensor &self, c10::IntArrayRef sizes, const c10::TensorOptions &options);

// Indices of index(): whether one of them is a mask, and the same with positions instead, for which the host waits.
using Indices = c10::List<std::optional<at::Tensor>>;
bool has_masks(const Indices &indices);
Indices without_masks(const at::Tensor &self, const Indices &indices);

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

  // The CPU kernel makes its own proxy if it needs exactly these strides, so an output of another layout is accepted
  // here.
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

// Runs the meta function, which holds an iterator, only if the operands are not uniform.
template <class Meta, Schema schema> class ElementwiseCall {
public:
  ElementwiseCall()
    requires(schema == Schema::functional)
  = default;
  explicit ElementwiseCall(const at::Tensor &self)
    requires(schema == Schema::in_place)
      : outputs{std::cref(self)} {}

  template <class... Arguments> void meta(const Arguments &...arguments) {
    UniformOperands tensors;
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
  // Makes the output of a call on tensors like `first`. Returns false if one of them overlaps an in-place output in
  // part.
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

// Allocates the output of cat if its tensors differ only in their length along `dim`. Returns an undefined tensor
// otherwise.
at::Tensor concatenation(const at::ITensorListRef &tensors, int64_t dim);

// Does the same for cat, whose meta function took a quarter of the caller's time.
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

// Returns the tb device of all defined tensors. Throws if they are on different devices.
c10::DeviceIndex common_device(const char *operation, std::initializer_list<const at::Tensor *> tensors);
// Does the same for a list and the output.
c10::DeviceIndex common_device(const char *operation, const at::ITensorListRef &tensors, const at::Tensor &out);

} // namespace tb::ops
