// Maximum pooling of images in rows, without the branch on data at which PyTorch's kernel stalls.
//
// Rows of the input are arranged by their place within the stride, with -inf around them, which is never more than the
// greatest element so far. So neighbouring windows read neighbouring elements, and all windows are whole. Several rows of
// windows form one long line. The elements of a window come in PyTorch's order, so that of equal ones the same one is found;
// a NaN counts as greater than anything.
#include <ATen/ops/max_pool2d_with_indices_cpu_dispatch.h>

#include <algorithm>
#include <bit>
#include <climits>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include "backends/host/overrides.h"
#include "intraop/thread_policy.h"
#include "structured/structured.h"

namespace tb::ops::host {
namespace {

using at::Tensor;

// One dimension: windows on an input.
struct Windows {
  int64_t input, output, kernel, stride, padding, dilation;

  // Where window i begins, and its first element inside the input.
  int64_t begin(int64_t i) const { return i * stride - padding; }
  int64_t first(int64_t i) const {
    const int64_t at = begin(i);
    return at >= 0 ? at : at + (-at + dilation - 1) / dilation * dilation;
  }
};

template <class T> using IndexBeside = std::conditional_t<sizeof(T) == 4, int32_t, int64_t>; // of T's size, for vectors

constexpr int64_t lanes = 16; // loops go on to a multiple of these, in memory of their own

// The greatest so far and its index, of `count` windows, with one more element of each. Selected by bits: GCC makes a
// branch of anything else.
template <class T, class Index = IndexBeside<T>>
[[gnu::always_inline]] inline void take_greater(const T *__restrict elements, const Index *__restrict begins,
                                                Index shift, int64_t count, T *__restrict greatest,
                                                Index *__restrict indices) {
  for (int64_t i = 0; i < count / lanes * lanes; i++) {
    const T element = elements[i], before = greatest[i];
    const Index taken = -static_cast<Index>((element > before) | (element != element));
    const auto bits = std::bit_cast<Index>(before);
    greatest[i] = std::bit_cast<T>(bits ^ ((bits ^ std::bit_cast<Index>(element)) & taken));
    indices[i] ^= (indices[i] ^ (begins[i] + shift)) & taken;
  }
}

template <class T> using TakeGreater = decltype(&take_greater<T>);
template <class... Arguments> void by_any(Arguments... arguments) { take_greater(arguments...); }
#if defined(__x86_64__)
template <class... Arguments> [[gnu::target("avx2")]] void by_avx2(Arguments... arguments) {
  take_greater(arguments...);
}
template <class... Arguments> [[gnu::target("avx512f")]] void by_avx512(Arguments... arguments) {
  take_greater(arguments...);
}
template <class T> TakeGreater<T> best_for_this_processor() {
  if (__builtin_cpu_supports("avx512f")) return &by_avx512;
  if (__builtin_cpu_supports("avx2")) return &by_avx2;
  return &by_any;
}
#else
template <class T> TakeGreater<T> best_for_this_processor() { return &by_any; }
#endif

// Planes of rows x columns windows.
template <class T> class Pool {
public:
  using Index = IndexBeside<T>;

  Pool(const Windows &rows, const Windows &columns) : rows_(rows), columns_(columns) {
    const int64_t reach = (columns.kernel - 1) * columns.dilation;
    offsets_ = std::min(columns.stride, reach + 1);
    places_ = reach / columns.stride + columns.output;
    together_ = std::clamp(line / places_, int64_t{1}, rows.output);
    const int64_t windows = whole_lanes(together_);
    line_ = windows + places_;
    by_place_.resize(static_cast<size_t>(offsets_ * line_), outside);
    greatest_.resize(static_cast<size_t>(windows));
    indices_.resize(static_cast<size_t>(windows));
    begins_.resize(static_cast<size_t>(windows));
    for (int64_t i = 0; i < places_; i++) {
      firsts_.push_back(static_cast<Index>(columns.first(i)));
      for (int64_t row = 0; row < together_; row++)
        begins_[static_cast<size_t>(row * places_ + i)] =
            static_cast<Index>(row * rows.stride * columns.input + columns.begin(i));
    }
  }

  void plane(const T *from, T *to, int64_t *indices) {
    for (int64_t row = 0; row < rows_.output; row += together_) {
      const int64_t count = std::min(together_, rows_.output - row);
      find(from, row, count);
      for (int64_t i = 0; i < count; i++, to += columns_.output, indices += columns_.output) {
        std::copy_n(greatest_.data() + i * places_, columns_.output, to);
        std::copy_n(indices_.data() + i * places_, columns_.output, indices);
      }
    }
  }

private:
  static constexpr int64_t line = 256; // windows, as far as a plane has so many
  static constexpr T outside = -std::numeric_limits<T>::infinity();

  int64_t whole_lanes(int64_t rows) const { return (rows * places_ + lanes - 1) / lanes * lanes; }

  // `count` rows of windows, from `row` on.
  void find(const T *from, int64_t row, int64_t count) {
    static const TakeGreater<T> take = best_for_this_processor<T>();
    std::fill(greatest_.begin(), greatest_.end(), outside);
    for (int64_t i = 0; i < count; i++) {
      const auto first = static_cast<Index>(rows_.first(row + i) * columns_.input);
      Index *to = indices_.data() + i * places_;
      for (size_t j = 0; j < firsts_.size(); j++) to[j] = first + firsts_[j];
    }
    for (int64_t down = 0; down < rows_.kernel; down++) {
      const int64_t begin = rows_.begin(row) + down * rows_.dilation;
      for (int64_t i = 0; i < count; i++) arrange(from, begin + i * rows_.stride, i);
      for (int64_t right = 0; right < columns_.kernel; right++) {
        const int64_t offset = right * columns_.dilation;
        const T *elements = by_place_.data() + offset % columns_.stride * line_ + offset / columns_.stride;
        take(elements, begins_.data(), static_cast<Index>(begin * columns_.input + offset), whole_lanes(count),
             greatest_.data(), indices_.data());
      }
    }
  }

  // Row `row` of the input as the line's part i; it may be outside.
  void arrange(const T *input, int64_t row, int64_t i) {
    const int64_t stride = columns_.stride;
    for (int64_t place = 0; place < offsets_; place++) {
      T *to = by_place_.data() + place * line_ + i * places_;
      const int64_t ahead = place - columns_.padding;
      const int64_t from = ahead >= 0 ? 0 : (-ahead + stride - 1) / stride;
      const int64_t until = std::clamp((columns_.input - ahead + stride - 1) / stride, from, places_);
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

  Windows rows_, columns_;
  int64_t offsets_;  // places within the stride that windows read
  int64_t places_;   // elements of a row that have one place within the stride, thus windows and some more
  int64_t together_; // rows of windows in a line
  int64_t line_;     // from the elements of one place to those of the next
  std::vector<T> by_place_, greatest_;
  std::vector<Index> begins_, firsts_, indices_;
};

template <class T>
void pool(const Tensor &self, const Windows &rows, const Windows &columns, Tensor &out, Tensor &indices) {
  const T *from = self.const_data_ptr<T>();
  T *to = out.mutable_data_ptr<T>();
  int64_t *index = indices.mutable_data_ptr<int64_t>();
  const int64_t inputs = rows.input * columns.input, outputs = rows.output * columns.output;
  parallel_for(0, out.numel() / outputs, 1, [&](int64_t begin, int64_t end) {
    Pool<T> pool(rows, columns);
    for (int64_t i = begin; i < end; i++) pool.plane(from + i * inputs, to + i * outputs, index + i * outputs);
  });
}

} // namespace

namespace cpu {

void max_pool2d_with_indices_outf(const Tensor &self, c10::IntArrayRef kernel_size, c10::IntArrayRef stride,
                                  c10::IntArrayRef padding, c10::IntArrayRef dilation, bool ceil_mode, Tensor &out,
                                  Tensor &indices) {
  const bool floats = self.scalar_type() == c10::kFloat || self.scalar_type() == c10::kDouble;
  const int64_t height = self.size(-2), width = self.size(-1);
  const auto windows = [&](size_t dim, int64_t input, int64_t output) {
    const auto of = [dim](c10::IntArrayRef pair) { return pair[pair.size() == 1 ? 0 : dim]; };
    return Windows{input,       output,      of(kernel_size), of(stride.empty() ? kernel_size : stride),
                   of(padding), of(dilation)};
  };
  if (!floats || height * width > INT_MAX / 8 || out.numel() == 0 || !self.is_contiguous() || !out.is_contiguous() ||
      !indices.is_contiguous()) {
    at::cpu::max_pool2d_with_indices_outf(self, kernel_size, stride, padding, dilation, ceil_mode, out, indices);
    return;
  }
  const Windows rows = windows(0, height, out.size(-2)), columns = windows(1, width, out.size(-1));
  if (self.scalar_type() == c10::kFloat)
    pool<float>(self, rows, columns, out, indices);
  else
    pool<double>(self, rows, columns, out, indices);
}

} // namespace cpu
} // namespace tb::ops::host
