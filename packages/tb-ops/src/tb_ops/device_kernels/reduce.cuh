// Reductions of any dimensions. A block computes each output; if there are many short reductions, a thread does.
//
// A reducer has a State with init, add(element, place), merge(state) and finish(scalars).
#pragma once
#include "block.cuh"

namespace tb::kernels {

// ---- reducers: Stored is the type that elements are converted to ---------------------------------------------------

template <class Stored> struct SumOf { // scalars[0] divides the sum: the count for a mean, else 1
  Sum<Stored> total;
  __device__ static SumOf init(const Scalar *) { return {0}; }
  __device__ void add(Math<Stored> x, Long) { total += static_cast<Sum<Stored>>(x); }
  __device__ void merge(const SumOf &other) { total += other.total; }
  __device__ Sum<Stored> finish(const Scalar *s) const {
    if constexpr (Traits<Stored>::floating)
      return total / number_of<Sum<Stored>>(s[0]);
    else
      return total;
  }
};

template <class Stored> struct ProductOf {
  Sum<Stored> total;
  __device__ static ProductOf init(const Scalar *) { return {1}; }
  __device__ void add(Math<Stored> x, Long) { total *= static_cast<Sum<Stored>>(x); }
  __device__ void merge(const ProductOf &other) { total *= other.total; }
  __device__ Sum<Stored> finish(const Scalar *) const { return total; }
};

template <class Stored> struct AnyOf {
  bool found;
  __device__ static AnyOf init(const Scalar *) { return {false}; }
  __device__ void add(Math<Stored> x, Long) { found = found || x != Math<Stored>(0); }
  __device__ void merge(const AnyOf &other) { found = found || other.found; }
  __device__ bool finish(const Scalar *) const { return found; }
};

template <class Stored> struct AllOf {
  bool good;
  __device__ static AllOf init(const Scalar *) { return {true}; }
  __device__ void add(Math<Stored> x, Long) { good = good && x != Math<Stored>(0); }
  __device__ void merge(const AllOf &other) { good = good && other.good; }
  __device__ bool finish(const Scalar *) const { return good; }
};

// The extremum and its first place. A NaN is more extreme than any number.
template <class Stored, bool highest> struct Extremum {
  using Number = Math<Stored>;
  Number value;
  Long place; // -1 before the first element
  __device__ static Extremum init(const Scalar *) { return {Number(0), -1}; }
  __device__ void add(Number x, Long where) { merge({x, where}); }
  __device__ void merge(const Extremum &other) {
    if (other.place < 0) return;
    const bool nan = is_nan(value), other_nan = is_nan(other.value);
    const bool beyond = highest ? value < other.value : other.value < value;
    const bool equal = (nan && other_nan) || value == other.value;
    if (place < 0 || (!nan && (other_nan || beyond)) || (equal && other.place < place)) *this = other;
  }
  __device__ Number finish(const Scalar *) const { return value; }
};
template <class Stored> struct MaximumOf : Extremum<Stored, true> {
  using Base = Extremum<Stored, true>;
  __device__ static MaximumOf init(const Scalar *s) { return {Base::init(s)}; }
};
template <class Stored> struct MinimumOf : Extremum<Stored, false> {
  using Base = Extremum<Stored, false>;
  __device__ static MinimumOf init(const Scalar *s) { return {Base::init(s)}; }
};

// scalars[0] is the order of the norm. Powers are those of the elements' type, so that they overflow as on the CPU.
template <class Stored> struct NormOf {
  using Number = Sum<Stored>;
  Number total, order;
  __device__ static NormOf init(const Scalar *s) {
    const Number order = number_of<Number>(s[0]);
    return {order == -Limits<Number>::highest() ? Limits<Number>::highest() : Number(0), order};
  }
  __device__ void add(Math<Stored> given, Long) {
    const Number x = number::fabs(static_cast<Number>(given));
    if (order == Number(2))
      total += x * x;
    else if (order == Number(1))
      total += x;
    else if (order == Number(0))
      total += x != Number(0) ? Number(1) : Number(0);
    else if (order == Limits<Number>::highest())
      total = is_nan(x) || total < x ? x : total;
    else if (order == -Limits<Number>::highest())
      total = is_nan(x) || x < total ? x : total;
    else
      total += static_cast<Number>(number::pow(number::fabs(given), static_cast<Math<Stored>>(order)));
  }
  __device__ void merge(const NormOf &other) {
    if (order == Limits<Number>::highest())
      total = is_nan(other.total) || total < other.total ? other.total : total;
    else if (order == -Limits<Number>::highest())
      total = is_nan(other.total) || other.total < total ? other.total : total;
    else
      total += other.total;
  }
  __device__ Number finish(const Scalar *) const {
    if (order == Number(2)) return number::sqrt(total);
    const bool plain = order == Number(0) || order == Number(1) || order == Limits<Number>::highest() ||
                       order == -Limits<Number>::highest();
    if (plain) return total;
    return static_cast<Number>(
        number::pow(static_cast<Math<Stored>>(total), Math<Stored>(1) / static_cast<Math<Stored>>(order)));
  }
};

// The variance by Welford's moments. scalars[0] is the correction; scalars[1] is 1 for the standard deviation.
template <class Stored> struct VarianceOf {
  using Number = Sum<Stored>;
  Number mean, squares, count;
  __device__ static VarianceOf init(const Scalar *) { return {0, 0, 0}; }
  __device__ void add(Math<Stored> given, Long) {
    const Number x = static_cast<Number>(given), before = x - mean;
    count += Number(1);
    mean += before / count;
    squares += before * (x - mean);
  }
  __device__ void merge(const VarianceOf &other) {
    if (other.count == Number(0)) return;
    const Number all = count + other.count, apart = other.mean - mean;
    squares += other.squares + apart * apart * count * other.count / all;
    mean += apart * other.count / all;
    count = all;
  }
  __device__ Number finish(const Scalar *s) const {
    const Number freedom = count - number_of<Number>(s[0]);
    const Number variance = squares / (freedom > Number(0) ? freedom : Number(0));
    return s[1].integer ? number::sqrt(variance) : variance;
  }
};

// ---- the kernels ------------------------------------------------------------------------------------------------

__device__ inline Long strided_offset(Long i, int dims, const Long *sizes, const Long *strides) {
  Long offset = 0;
  for (int d = 0; d < dims; d++) {
    const Long next = i / sizes[d];
    offset += (i - next * sizes[d]) * strides[d];
    i = next;
  }
  return offset;
}

// Writes the result, and the place of an extremum, if they are wanted.
template <class Reducer> __device__ inline void give(const ReduceArguments &a, Long output, const Reducer &state) {
  if (a.output.data) {
    const auto value = state.finish(a.scalars);
    visit_type(a.output.type, [&]<class Type>(Type *) { put<Type>(a.output.data, output, value); });
  }
  if constexpr (requires { state.place; })
    if (a.second.data) static_cast<Long *>(a.second.data)[output] = state.place;
}

template <class Reducer, class Stored>
__device__ inline Reducer reduce_some(const ReduceArguments &a, Long output, Long first, Long step) {
  Reducer state = Reducer::init(a.scalars);
  const Long base = strided_offset(output, a.kept_dims, a.kept_sizes, a.kept_strides);
  for (Long i = first; i < a.reduced; i += step) {
    const Long offset = base + strided_offset(i, a.reduced_dims, a.reduced_sizes, a.reduced_strides);
    state.add(wide(load<Stored>(a.input.data, offset, a.input.type)), i);
  }
  return state;
}

template <class Reducer, class Stored> __device__ inline void reduce_short(const ReduceArguments &a) {
  for (Long output = first_element(); output < a.outputs; output += all_threads())
    give(a, output, reduce_some<Reducer, Stored>(a, output, 0, 1));
}

template <class Reducer, class Stored> __device__ inline void reduce_long(const ReduceArguments &a) {
  for (Long output = blockIdx.x; output < a.outputs; output += gridDim.x) {
    const Reducer mine = reduce_some<Reducer, Stored>(a, output, threadIdx.x, blockDim.x);
    const Reducer all = across_block(mine, [](Reducer &into, const Reducer &from) { into.merge(from); });
    if (threadIdx.x == 0) give(a, output, all);
  }
}

} // namespace tb::kernels
