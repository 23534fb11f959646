// Running totals and extrema along one dimension. A thread scans a row if there are many rows or they are short; blocks
// scan longer rows, several of them each row if there are few.
//
// A scanner has a State with init, add(element, place), merge(what comes later) and value.
#pragma once
#include "block.cuh"

namespace tb::kernels {

// ---- scanners: Stored is the type of the elements -------------------------------------------------------------------

template <class Stored> struct RunningSum {
  Sum<Stored> value;
  __device__ static RunningSum init() { return {0}; }
  __device__ void add(Math<Stored> x, Long) { value += static_cast<Sum<Stored>>(x); }
  __device__ void merge(const RunningSum &later) { value += later.value; }
};

template <class Stored> struct RunningProduct {
  Sum<Stored> value;
  __device__ static RunningProduct init() { return {1}; }
  __device__ void add(Math<Stored> x, Long) { value *= static_cast<Sum<Stored>>(x); }
  __device__ void merge(const RunningProduct &later) { value *= later.value; }
};

// The extremum and its last place. A NaN is more extreme than any number.
template <class Stored, bool highest> struct RunningExtremum {
  Math<Stored> value;
  Long place; // -1 before the first element
  __device__ void take(Math<Stored> x, Long where) {
    const bool less_extreme = highest ? x < value : value < x;
    if (place < 0 || is_nan(x) || (!is_nan(value) && !less_extreme)) value = x, place = where;
  }
};
template <class Stored> struct RunningMaximum : RunningExtremum<Stored, true> {
  __device__ static RunningMaximum init() { return {{Math<Stored>(0), -1}}; }
  __device__ void add(Math<Stored> x, Long where) { this->take(x, where); }
  __device__ void merge(const RunningMaximum &later) {
    if (later.place >= 0) this->take(later.value, later.place);
  }
};
template <class Stored> struct RunningMinimum : RunningExtremum<Stored, false> {
  __device__ static RunningMinimum init() { return {{Math<Stored>(0), -1}}; }
  __device__ void add(Math<Stored> x, Long where) { this->take(x, where); }
  __device__ void merge(const RunningMinimum &later) {
    if (later.place >= 0) this->take(later.value, later.place);
  }
};

// The logarithm of the sum of the exponentials.
template <class Stored> struct RunningLogarithm {
  Math<Stored> value;
  __device__ static RunningLogarithm init() { return {Limits<Math<Stored>>::lowest()}; }
  __device__ void add(Math<Stored> x, Long) {
    const Math<Stored> high = is_nan(x) || value < x ? x : value, low = value < x ? value : x;
    // Equal infinities have no difference.
    if (is_nan(value) || (high == low && high - low != Math<Stored>(0))) return;
    value = is_nan(x) ? x : high + number::log1p(number::exp(low - high));
  }
  __device__ void merge(const RunningLogarithm &later) { add(later.value, 0); }
};

// ---- the kernels ------------------------------------------------------------------------------------------------

template <class Stored, class Scanner>
__device__ inline void scan_element(const ScanArguments &a, Long start, Long i, Scanner *state) {
  state->add(at<Stored>(a.input, start + i * a.inner), i);
}
template <class Stored, class Scanner>
__device__ inline void give(const ScanArguments &a, Long at, const Scanner &state) {
  put<Stored>(a.output, at, state.value);
  if constexpr (requires { state.place; }) a.places[at] = state.place;
}
__device__ inline Long row_begin(const ScanArguments &a, Long row) {
  return row / a.inner * a.size * a.inner + row % a.inner;
}

template <class Scanner, class Stored> __device__ inline void scan_short(const ScanArguments &a) {
  for (Long row = first_element(); row < a.outer * a.inner; row += all_threads()) {
    const Long start = row_begin(a, row);
    Scanner state = Scanner::init();
    for (Long i = 0; i < a.size; i++) {
      scan_element<Stored>(a, start, i, &state);
      give<Stored>(a, start + i * a.inner, state);
    }
  }
}

// Returns the state of the elements from `first` to before `last`.
template <class Scanner, class Stored>
__device__ inline Scanner scan_part(const ScanArguments &a, Long start, Long first, Long last) {
  Scanner state = Scanner::init();
  for (Long i = first; i < last; i++) scan_element<Stored>(a, start, i, &state);
  return state;
}

__device__ inline Long least(Long a, Long b) { return a < b ? a : b; }

// Computes the state of each chunk of each row.
template <class Scanner, class Stored> __device__ inline void scan_chunks(const ScanArguments &a) {
  for (Long chunk = blockIdx.x; chunk < a.outer * a.inner * a.chunks; chunk += gridDim.x) {
    const Long start = row_begin(a, chunk / a.chunks), begin = chunk % a.chunks * a.chunk;
    const Long end = least(begin + a.chunk, a.size), each = (a.chunk + blockDim.x - 1) / blockDim.x;
    const Long first = least(begin + each * threadIdx.x, end), last = least(first + each, end);
    const Scanner state = across_block(scan_part<Scanner, Stored>(a, start, first, last),
                                       [](Scanner &into, const Scanner &from) { into.merge(from); });
    if (threadIdx.x == 0) static_cast<Scanner *>(a.carries)[chunk] = state;
  }
}

// Replaces each chunk's state by that of all chunks of the row before it.
template <class Scanner, class Stored> __device__ inline void scan_carries(const ScanArguments &a) {
  for (Long row = blockIdx.x; row < a.outer * a.inner; row += gridDim.x) {
    Scanner *states = static_cast<Scanner *>(a.carries) + row * a.chunks;
    const Long each = (a.chunks + blockDim.x - 1) / blockDim.x;
    const Long first = least(each * threadIdx.x, a.chunks), last = least(first + each, a.chunks);
    Scanner mine = Scanner::init();
    for (Long i = first; i < last; i++) mine.merge(states[i]);
    Scanner before = before_in_block(mine, Scanner::init()).before;
    for (Long i = first; i < last; i++) {
      const Scanner own = states[i];
      states[i] = before;
      before.merge(own);
    }
  }
}

// Scans each chunk, after the state in a.carries if there is one.
template <class Scanner, class Stored> __device__ inline void scan_long(const ScanArguments &a) {
  constexpr Long each = 8; // elements that a thread scans between two barriers
  for (Long chunk = blockIdx.x; chunk < a.outer * a.inner * a.chunks; chunk += gridDim.x) {
    const Long start = row_begin(a, chunk / a.chunks), begin = chunk % a.chunks * a.chunk;
    const Long end = least(begin + a.chunk, a.size);
    Scanner carry = a.carries ? static_cast<const Scanner *>(a.carries)[chunk] : Scanner::init();
    for (Long part = begin; part < end; part += each * blockDim.x) {
      const Long first = least(part + each * threadIdx.x, end), last = least(first + each, end);
      const auto sums = before_in_block(scan_part<Scanner, Stored>(a, start, first, last), Scanner::init());
      Scanner state = carry;
      state.merge(sums.before);
      for (Long i = first; i < last; i++) {
        scan_element<Stored>(a, start, i, &state);
        give<Stored>(a, start + i * a.inner, state);
      }
      carry.merge(sums.all);
    }
  }
}

} // namespace tb::kernels
