// Rows of the input are copied by their phase within the stride and padded with -inf, which never replaces a maximum.
// Neighbouring windows then read neighbouring elements, and every window is complete. Several rows of windows are processed
// as one line. The elements of a window are visited in PyTorch's order, so that the same one of equal elements is found; a
// NaN counts as larger than any number.
#include "microkernels/max_pool.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <type_traits>
#include <vector>

namespace tb::ops::microkernels {
namespace {

// An integer of the size of T, so that elements and indices fit vectors of equal length.
template <class T> using IndexBeside = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>;

constexpr int64_t lanes = 16; // loops are rounded up to a multiple of this; the buffers have room for it

// Updates the maximum of `count` windows, and its index, with one more element of each. The selection is by bit masks,
// because GCC compiles a conditional to a branch.
template <class T, class Index = IndexBeside<T>>
[[gnu::always_inline]] inline void update_maxima(const T *__restrict elements, const Index *__restrict begins,
                                                 Index shift, int64_t count, T *__restrict maxima,
                                                 Index *__restrict indices) {
  for (int64_t i = 0; i < count / lanes * lanes; i++) {
    const T element = elements[i], before = maxima[i];
    const Index taken = -static_cast<Index>((element > before) | (element != element));
    const auto bits = std::bit_cast<Index>(before);
    maxima[i] = std::bit_cast<T>(bits ^ ((bits ^ std::bit_cast<Index>(element)) & taken));
    indices[i] ^= (indices[i] ^ (begins[i] + shift)) & taken;
  }
}

template <class T> using UpdateMaxima = decltype(&update_maxima<T>);
template <class... Arguments> void by_any(Arguments... arguments) { update_maxima(arguments...); }
#if defined(__x86_64__)
template <class... Arguments> [[gnu::target("avx2")]] void by_avx2(Arguments... arguments) {
  update_maxima(arguments...);
}
template <class... Arguments> [[gnu::target("avx512f")]] void by_avx512(Arguments... arguments) {
  update_maxima(arguments...);
}
template <class T> UpdateMaxima<T> fastest() {
  if (__builtin_cpu_supports("avx512f")) return &by_avx512;
  if (__builtin_cpu_supports("avx2")) return &by_avx2;
  return &by_any;
}
#else
template <class T> UpdateMaxima<T> fastest() { return &by_any; }
#endif

// Pools planes of rows x columns windows, one after the other.
template <class T> class Pool {
public:
  using Index = IndexBeside<T>;

  Pool(const PoolWindows &rows, const PoolWindows &columns) : rows_(rows), columns_(columns) {
    const int64_t reach = (columns.kernel - 1) * columns.dilation;
    phases_ = std::min(columns.stride, reach + 1);
    phase_elements_ = reach / columns.stride + columns.output;
    line_rows_ = std::clamp(line / phase_elements_, int64_t{1}, rows.output);
    const int64_t windows = whole_lanes(line_rows_);
    phase_stride_ = windows + phase_elements_;
    by_phase_.resize(static_cast<size_t>(phases_ * phase_stride_), outside);
    maxima_.resize(static_cast<size_t>(windows));
    indices_.resize(static_cast<size_t>(windows));
    begins_.resize(static_cast<size_t>(windows));
    for (int64_t i = 0; i < phase_elements_; i++) {
      firsts_.push_back(static_cast<Index>(columns.first(i)));
      for (int64_t row = 0; row < line_rows_; row++)
        begins_[static_cast<size_t>(row * phase_elements_ + i)] =
            static_cast<Index>(row * rows.stride * columns.input + columns.begin(i));
    }
  }

  void plane(const T *from, T *to, int64_t *indices) {
    for (int64_t row = 0; row < rows_.output; row += line_rows_) {
      const int64_t count = std::min(line_rows_, rows_.output - row);
      find(from, row, count);
      for (int64_t i = 0; i < count; i++, to += columns_.output, indices += columns_.output) {
        std::copy_n(maxima_.data() + i * phase_elements_, columns_.output, to);
        std::copy_n(indices_.data() + i * phase_elements_, columns_.output, indices);
      }
    }
  }

private:
  static constexpr int64_t line = 256; // windows that are processed together, if a plane has so many
  static constexpr T outside = -std::numeric_limits<T>::infinity();

  int64_t whole_lanes(int64_t rows) const { return (rows * phase_elements_ + lanes - 1) / lanes * lanes; }

  // Finds the maxima of `count` rows of windows, from `row` on.
  void find(const T *from, int64_t row, int64_t count) {
    static const UpdateMaxima<T> update = fastest<T>();
    std::fill(maxima_.begin(), maxima_.end(), outside);
    for (int64_t i = 0; i < count; i++) {
      const auto first = static_cast<Index>(rows_.first(row + i) * columns_.input);
      Index *to = indices_.data() + i * phase_elements_;
      for (size_t j = 0; j < firsts_.size(); j++) to[j] = first + firsts_[j];
    }
    for (int64_t down = 0; down < rows_.kernel; down++) {
      const int64_t begin = rows_.begin(row) + down * rows_.dilation;
      for (int64_t i = 0; i < count; i++) copy_row(from, begin + i * rows_.stride, i);
      for (int64_t right = 0; right < columns_.kernel; right++) {
        const int64_t offset = right * columns_.dilation;
        const T *elements = by_phase_.data() + offset % columns_.stride * phase_stride_ + offset / columns_.stride;
        update(elements, begins_.data(), static_cast<Index>(begin * columns_.input + offset), whole_lanes(count),
               maxima_.data(), indices_.data());
      }
    }
  }

  // Copies row `row` of the input as part i of the line. The row may be outside of the input.
  void copy_row(const T *input, int64_t row, int64_t i) {
    const int64_t stride = columns_.stride;
    for (int64_t phase = 0; phase < phases_; phase++) {
      T *to = by_phase_.data() + phase * phase_stride_ + i * phase_elements_;
      const int64_t ahead = phase - columns_.padding;
      const int64_t from = ahead >= 0 ? 0 : (-ahead + stride - 1) / stride;
      const int64_t until = std::clamp((columns_.input - ahead + stride - 1) / stride, from, phase_elements_);
      const T *elements = input + row * columns_.input + ahead;
      if (row < 0 || row >= rows_.input)
        std::fill(to + from, to + until, outside);
      else if (stride == 1)
        std::copy(elements + from, elements + until, to + from);
      else if (stride == 2)
        for (int64_t j = from; j < until; j++) to[j] = elements[j * 2];
      else
        for (int64_t j = from; j < until; j++) to[j] = elements[j * stride];
    }
  }

  PoolWindows rows_, columns_;
  int64_t phases_;         // phases within the stride that windows read
  int64_t phase_elements_; // elements of a row with one phase: a row of windows and some more
  int64_t line_rows_;      // rows of windows in a line
  int64_t phase_stride_;   // from the elements of one phase to those of the next
  std::vector<T> by_phase_, maxima_;
  std::vector<Index> begins_, firsts_, indices_;
};

} // namespace

template <class T> void max_pool(const PoolWindows &rows, const PoolWindows &columns, int64_t planes, const T *from,
                                 T *to, int64_t *indices) {
  Pool<T> pool(rows, columns);
  const int64_t inputs = rows.input * columns.input, outputs = rows.output * columns.output;
  for (int64_t i = 0; i < planes; i++) pool.plane(from + i * inputs, to + i * outputs, indices + i * outputs);
}

template void max_pool(const PoolWindows &, const PoolWindows &, int64_t, const float *, float *, int64_t *);
template void max_pool(const PoolWindows &, const PoolWindows &, int64_t, const double *, double *, int64_t *);

} // namespace tb::ops::microkernels
