// Batch normalisation and group normalisation, forward and backward.
#pragma once
#include "block.cuh"

namespace tb::kernels {

// The type of weight, bias and running statistics: that of the input, or float for a 16-bit input if they are `wide`.
// Mean, rstd and sums have the type Math<Stored>.
template <class Stored, bool wide> struct ParameterOf {
  using Type = Stored;
};
template <class Stored> struct ParameterOf<Stored, true> {
  using Type = Math<Stored>;
};
template <class Stored, bool wide> using Parameter = typename ParameterOf<Stored, wide>::Type;

// The elements that a sum or a mean is over: a channel of all samples, or a group of channels of one sample.
struct Region {
  Long sample, samples, channel, channels;
};
__device__ inline Long region_count(const ChannelNormArguments &a, bool grouped) {
  return grouped ? a.batch * (a.channels / a.group) : a.channels;
}
__device__ inline Region region_of(const ChannelNormArguments &a, bool grouped, Long i) {
  if (!grouped) return {0, a.batch, i, 1};
  const Long groups = a.channels / a.group;
  return {i / groups, 1, i % groups * a.group, a.group};
}
__device__ inline Long region_size(const ChannelNormArguments &a, const Region &region) {
  return region.samples * region.channels * a.space;
}

// The offset of a place in a channel of a sample.
__device__ inline Long row_offset(const ChannelRows &rows, Long sample, Long channel, Long place) {
  return sample * rows.batch_stride + channel * rows.channel_stride + place * rows.stride;
}

template <class Index, class Visit>
__device__ inline void visit_elements(const ChannelNormArguments &a, const Region &region, const Visit &visit) {
  const bool channels_last = a.input.channel_stride == 1;
  const Index inner = static_cast<Index>(channels_last ? region.channels : a.space),
              outer = static_cast<Index>(channels_last ? a.space : region.channels),
              size = static_cast<Index>(region_size(a, region));
  for (Index i = threadIdx.x; i < size; i += blockDim.x) {
    const Index row = i / inner, sample = row / outer;
    const Long low = static_cast<Long>(i - row * inner), high = static_cast<Long>(row - sample * outer);
    visit(region.sample + static_cast<Long>(sample), region.channel + (channels_last ? low : high),
          channels_last ? high : low);
  }
}

// Calls visit(sample, channel, place) for this thread's elements of the region. Neighbouring threads get neighbours in
// memory.
template <class Visit>
__device__ inline void visit_region(const ChannelNormArguments &a, const Region &region, const Visit &visit) {
  if (region_size(a, region) <= 0x7FFFFFFF) // 64-bit divisions cost a GPU several times as much as 32-bit ones
    visit_elements<unsigned>(a, region, visit);
  else
    visit_elements<Unsigned>(a, region, visit);
}

// Which mean and rstd belong to a channel of a sample.
__device__ inline Long moments_of(const ChannelNormArguments &a, Long sample, Long channel) {
  return a.group ? (sample * a.channels + channel) / a.group : channel;
}

template <class Stored, bool wide>
__device__ inline Math<Stored> channel_weight(const ChannelNormArguments &a, Long channel) {
  return a.weight ? at<Parameter<Stored, wide>>(a.weight, channel) : Math<Stored>(1);
}

template <class Stored, bool wide>
__device__ inline void move_running(const ChannelNormArguments &a, void *running, Long channel, Sum<Stored> now) {
  if (!running) return;
  const Sum<Stored> before = at<Parameter<Stored, wide>>(running, channel), share = number_of<Sum<Stored>>(a.momentum);
  put<Parameter<Stored, wide>>(running, channel, share * now + (Sum<Stored>(1) - share) * before);
}

// Computes the mean and the reciprocal of the standard deviation of each region, in one block, and moves the running
// statistics towards them.
template <class Stored, bool wide> __device__ inline void channel_moments(const ChannelNormArguments &a) {
  using Total = Sum<Stored>;
  for (Long i = blockIdx.x; i < region_count(a, a.group > 0); i += gridDim.x) {
    const Region region = region_of(a, a.group > 0, i);
    const Total size = static_cast<Total>(region_size(a, region));
    const auto element = [&](Long sample, Long channel, Long place) {
      return static_cast<Total>(at<Stored>(a.input.data, row_offset(a.input, sample, channel, place)));
    };
    Total total = 0;
    visit_region(a, region, [&](Long n, Long c, Long place) { total += element(n, c, place); });
    const Total mean = sum_across_block(total) / size;
    Total squares = 0;
    visit_region(a, region, [&](Long n, Long c, Long place) {
      const Total apart = element(n, c, place) - mean;
      squares += apart * apart;
    });
    squares = sum_across_block(squares);
    if (threadIdx.x > 0) continue;
    put<Math<Stored>>(a.mean, i, mean);
    put<Math<Stored>>(a.rstd, i, Total(1) / number::sqrt(squares / size + number_of<Total>(a.epsilon)));
    move_running<Stored, wide>(a, a.running_mean, i, mean);
    move_running<Stored, wide>(a, a.running_variance, i, squares / (size - Total(1)));
  }
}

template <class Number> struct MeanAndRstd {
  Number mean, rstd;
};
template <class Stored, bool wide>
__device__ inline MeanAndRstd<Math<Stored>> statistics_of(const ChannelNormArguments &a, Long sample, Long channel) {
  using Number = Math<Stored>;
  if (a.from_running) {
    const Number variance = at<Parameter<Stored, wide>>(a.running_variance, channel);
    return {at<Parameter<Stored, wide>>(a.running_mean, channel),
            Number(1) / number::sqrt(variance + number_of<Number>(a.epsilon))};
  }
  const Long i = moments_of(a, sample, channel);
  return {at<Math<Stored>>(a.mean, i), at<Math<Stored>>(a.rstd, i)};
}

// The sample, the channel and the place of element i, in an order in which neighbours are near each other in memory.
struct ChannelPlace {
  Long sample, channel, place;
};
template <class Index> __device__ inline ChannelPlace find_channel_place(const ChannelNormArguments &a, Index i) {
  const bool channels_last = a.output.channel_stride == 1;
  const Index inner = static_cast<Index>(channels_last ? a.channels : a.space),
              outer = static_cast<Index>(channels_last ? a.space : a.channels);
  const Index row = i / inner, sample = row / outer;
  const Long low = static_cast<Long>(i - row * inner), high = static_cast<Long>(row - sample * outer);
  return {static_cast<Long>(sample), channels_last ? low : high, channels_last ? high : low};
}
__device__ inline ChannelPlace channel_place(const ChannelNormArguments &a, Long i) {
  if (a.batch * a.channels * a.space <= 0x7FFFFFFF) return find_channel_place<unsigned>(a, static_cast<unsigned>(i));
  return find_channel_place<Unsigned>(a, static_cast<Unsigned>(i));
}

template <class Stored, bool wide> __device__ inline void channel_norm(const ChannelNormArguments &a) {
  using Number = Math<Stored>;
  const Long count = a.batch * a.channels * a.space;
  for (Long i = first_element(); i < count; i += all_threads()) {
    const auto [sample, channel, place] = channel_place(a, i);
    const MeanAndRstd<Number> moments = statistics_of<Stored, wide>(a, sample, channel);
    const Number x = at<Stored>(a.input.data, row_offset(a.input, sample, channel, place));
    const Number shift = a.bias ? at<Parameter<Stored, wide>>(a.bias, channel) : Number(0);
    const Number scale = moments.rstd * channel_weight<Stored, wide>(a, channel);
    put<Stored>(a.output.data, row_offset(a.output, sample, channel, place), (x - moments.mean) * scale + shift);
  }
}

// Sums the gradients, and their products with the normalised input, of each channel or group, in one block. The
// gradients of a group are multiplied by the weight.
template <class Stored, bool wide> __device__ inline void channel_norm_sums(const ChannelNormArguments &a) {
  using Number = Math<Stored>;
  for (Long i = blockIdx.x; i < region_count(a, a.by_group); i += gridDim.x) {
    Sum<Stored> total = 0, product = 0;
    visit_region(a, region_of(a, a.by_group, i), [&](Long sample, Long channel, Long place) {
      const MeanAndRstd<Number> moments = statistics_of<Stored, wide>(a, sample, channel);
      const Number scale = a.by_group ? channel_weight<Stored, wide>(a, channel) : Number(1);
      const Number grad = at<Stored>(a.grad.data, row_offset(a.grad, sample, channel, place)) * scale;
      const Number x = at<Stored>(a.input.data, row_offset(a.input, sample, channel, place));
      total += grad;
      product += grad * (x - moments.mean) * moments.rstd;
    });
    total = sum_across_block(total);
    product = sum_across_block(product);
    if (threadIdx.x > 0) continue;
    if (a.sums) put<Math<Stored>>(a.sums, i, total);
    if (a.products) put<Math<Stored>>(a.products, i, product);
  }
}

// Computes the gradient of the input from those sums. With running statistics, which do not depend on
// the input, there are none.
template <class Stored, bool wide> __device__ inline void channel_norm_backward(const ChannelNormArguments &a) {
  using Number = Math<Stored>;
  const Long count = a.batch * a.channels * a.space;
  const Number size = static_cast<Number>(a.space * (a.group ? a.group : a.batch));
  for (Long i = first_element(); i < count; i += all_threads()) {
    const auto [sample, channel, place] = channel_place(a, i);
    const MeanAndRstd<Number> moments = statistics_of<Stored, wide>(a, sample, channel);
    const Number weight = channel_weight<Stored, wide>(a, channel);
    Number grad = at<Stored>(a.grad.data, row_offset(a.grad, sample, channel, place)) * weight;
    if (a.sums) {
      const Long region = moments_of(a, sample, channel);
      const Number x = at<Stored>(a.input.data, row_offset(a.input, sample, channel, place));
      const Number normed = (x - moments.mean) * moments.rstd;
      const Number common = at<Math<Stored>>(a.sums, region) + normed * at<Math<Stored>>(a.products, region);
      grad -= (a.group ? common : common * weight) / size;
    }
    put<Stored>(a.output.data, row_offset(a.output, sample, channel, place), grad * moments.rstd);
  }
}

} // namespace tb::kernels
