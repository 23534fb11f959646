// rows.cpp -- softmax and layer norm, forward and backward.
#include <algorithm>
#include <cmath>

#include "split.h"

namespace sim {
namespace {

// Computes each row by F::row(values, count) or F::row(first, second, count), which write the result to their last row.
template <class F> Plan by_row(In self, int64_t dim, Out out) {
  must(is_floating(self.type), "a tensor that is not floating");
  must_be_same_type(self, out);
  must_have(out, self.dims);
  const Split split(self.dims, {dim});
  return {[=](const Run &run) {
            with_floating_kind(self.type, [&]<class C>() {
              Array<C> values = load<C>(self.in(run).permuted(split.order));
              for (int64_t row = 0; row < split.rows; ++row) F::row(values.data() + row * split.length, split.length);
              store(out.in(run).permuted(split.order), values.data());
            });
          },
          row_workspace(split)};
}
template <class F> Plan by_row_backward(In grad, In output, int64_t dim, Out out) {
  must(is_floating(output.type), "a tensor that is not floating");
  must_be_same_type(grad, output);
  must_be_same_type(grad, out);
  must_have(grad, output.dims);
  must_have(out, output.dims);
  const Split split(output.dims, {dim});
  return {[=](const Run &run) {
            with_floating_kind(output.type, [&]<class C>() {
              const Array<C> slopes = load<C>(grad.in(run).permuted(split.order));
              Array<C> values = load<C>(output.in(run).permuted(split.order));
              for (int64_t row = 0; row < split.rows; ++row)
                F::row(slopes.data() + row * split.length, values.data() + row * split.length, split.length);
              store(out.in(run).permuted(split.order), values.data());
            });
          },
          row_workspace(split)};
}

struct Softmax {
  template <class C> static void row(C *values, int64_t count) {
    const C largest = count ? *std::max_element(values, values + count) : C(0);
    double total = 0;
    for (int64_t i = 0; i < count; ++i) total += values[i] = std::exp(values[i] - largest);
    for (int64_t i = 0; i < count; ++i) values[i] = static_cast<C>(values[i] / total);
  }
};
struct LogSoftmax {
  template <class C> static void row(C *values, int64_t count) {
    const C largest = count ? *std::max_element(values, values + count) : C(0);
    double total = 0;
    for (int64_t i = 0; i < count; ++i) total += std::exp(values[i] - largest);
    const double more = std::log(total);
    for (int64_t i = 0; i < count; ++i) values[i] = static_cast<C>(values[i] - largest - more);
  }
};
struct SoftmaxSlope {
  template <class C> static void row(const C *grad, C *values, int64_t count) {
    double total = 0;
    for (int64_t i = 0; i < count; ++i) total += double(grad[i]) * values[i];
    for (int64_t i = 0; i < count; ++i) values[i] = static_cast<C>((grad[i] - total) * values[i]);
  }
};
struct LogSoftmaxSlope {
  template <class C> static void row(const C *grad, C *values, int64_t count) {
    double total = 0;
    for (int64_t i = 0; i < count; ++i) total += grad[i];
    for (int64_t i = 0; i < count; ++i) values[i] = static_cast<C>(grad[i] - std::exp(values[i]) * total);
  }
};

// The last dimensions as rows.
struct Norm {
  int64_t rows = 1, length = 1;
  Norm(const In &input, const Dims &shape) {
    must(is_floating(input.type), "a tensor that is not floating");
    must(shape.size() <= input.dims.size() && std::equal(shape.rbegin(), shape.rend(), input.dims.rbegin()),
         "a shape that is not the tensor's last dimensions");
    length = count_of(shape);
    rows = length ? count_of(input.dims) / length : 0;
  }
  void check_rows(const In &tensor) const {
    must(!tensor || (is_floating(tensor.type) && count_of(tensor.dims) == rows), "mean or rstd of the wrong shape");
  }
  void check_row(const In &tensor, const Dims &shape) const {
    must(!tensor || (is_floating(tensor.type) && tensor.dims == shape), "a weight or bias of the wrong shape");
  }
};

Plan layer_norm(In input, Dims shape, MaybeIn weight, MaybeIn bias, double epsilon, Out out, MaybeOut mean,
                MaybeOut rstd) {
  const Norm norm(input, shape);
  norm.check_row(weight, shape);
  norm.check_row(bias, shape);
  norm.check_rows(mean);
  norm.check_rows(rstd);
  must_be_same_type(input, out);
  must_have(out, input.dims);
  const Work work = [=](const Run &run) {
    with_floating_kind(input.type, [&]<class C>() {
      Array<C> values = load<C>(input.in(run));
      Array<double> means(norm.rows), scales(norm.rows);
      Array<C> by(0), more(0);
      if (weight) by = load<C>(weight.in(run));
      if (bias) more = load<C>(bias.in(run));
      for (int64_t row = 0; row < norm.rows; ++row) {
        C *const first = values.data() + row * norm.length, *const end = first + norm.length;
        double total = 0, squares = 0;
        for (const C *each = first; each < end; ++each) total += *each;
        const double middle = means[row] = total / static_cast<double>(norm.length);
        for (const C *each = first; each < end; ++each) squares += (*each - middle) * (*each - middle);
        const double scale = scales[row] = 1 / std::sqrt(squares / static_cast<double>(norm.length) + epsilon);
        for (int64_t i = 0; i < norm.length; ++i)
          first[i] = static_cast<C>((first[i] - middle) * scale * (weight ? by[i] : C(1)) + (bias ? more[i] : C(0)));
      }
      store(out.in(run), values.data());
      if (mean) store(mean.in(run), means.data());
      if (rstd) store(rstd.in(run), scales.data());
    });
  };
  return {work, 1024 + static_cast<uint64_t>(norm.rows) * 8};
}

Plan layer_norm_backward(In grad, In input, Dims shape, In mean, In rstd, MaybeIn weight, MaybeIn bias, Flags wanted,
                         MaybeOut grad_input, MaybeOut grad_weight, MaybeOut grad_bias) {
  const Norm norm(input, shape);
  must_have(grad, input.dims);
  norm.check_rows(mean);
  norm.check_rows(rstd);
  norm.check_row(weight, shape);
  norm.check_row(bias, shape);
  must(wanted.size() == 3, "a mask that is not of three");
  const MaybeOut *const outs[] = {&grad_input, &grad_weight, &grad_bias};
  for (size_t i = 0; i < 3; ++i) must(!wanted[i] || *outs[i], "an output that is asked for and NULL");
  if (wanted[0]) must_have(grad_input, input.dims);
  if (wanted[1]) must_have(grad_weight, shape);
  if (wanted[2]) must_have(grad_bias, shape);
  const Work work = [=](const Run &run) {
    with_floating_kind(input.type, [&]<class C>() {
      const Array<C> slopes = load<C>(grad.in(run));
      Array<C> values = load<C>(input.in(run));
      const Array<double> means = load<double>(mean.in(run)), scales = load<double>(rstd.in(run));
      Array<C> by(0);
      if (weight) by = load<C>(weight.in(run));
      std::vector<double> weights(static_cast<size_t>(norm.length)), biases(static_cast<size_t>(norm.length));
      for (int64_t row = 0; row < norm.rows; ++row) {
        C *const first = values.data() + row * norm.length;
        const C *const slope = slopes.data() + row * norm.length;
        double total = 0, product = 0;
        for (int64_t i = 0; i < norm.length; ++i) {
          const double normal = (first[i] - means[row]) * scales[row], its = double(slope[i]) * (weight ? by[i] : C(1));
          total += its;
          product += its * normal;
          weights[static_cast<size_t>(i)] += slope[i] * normal;
          biases[static_cast<size_t>(i)] += slope[i];
        }
        total /= static_cast<double>(norm.length);
        product /= static_cast<double>(norm.length);
        for (int64_t i = 0; i < norm.length; ++i) {
          const double normal = (first[i] - means[row]) * scales[row], its = double(slope[i]) * (weight ? by[i] : C(1));
          first[i] = static_cast<C>((its - total - normal * product) * scales[row]);
        }
      }
      if (wanted[0]) store(grad_input.in(run), values.data());
      if (wanted[1]) store(grad_weight.in(run), weights.data());
      if (wanted[2]) store(grad_bias.in(run), biases.data());
    });
  };
  return {work, 1024 + static_cast<uint64_t>(norm.length) * 16};
}

} // namespace
} // namespace sim

using namespace sim;

SIM_OPERATOR(Softmax, &by_row<Softmax>)
SIM_OPERATOR(LogSoftmax, &by_row<LogSoftmax>)
SIM_OPERATOR(SoftmaxBackward, &by_row_backward<SoftmaxSlope>)
SIM_OPERATOR(LogSoftmaxBackward, &by_row_backward<LogSoftmaxSlope>)
SIM_OPERATOR(LayerNorm, &layer_norm)
SIM_OPERATOR(LayerNormBackward, &layer_norm_backward)
