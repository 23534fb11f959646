// Maximum pooling of images in rows, without a branch that depends on the data, at which PyTorch's kernel stalls.
//
// A row of the input is laid out by its place within the stride, with -inf around it, which is never more than the
// greatest so far: then neighbouring windows read neighbouring elements, and all windows are whole. Elements of a window
// come in PyTorch's order, so that of equal ones the same is found; a NaN counts as greater than anything.
#include <ATen/ops/max_pool2d_with_indices_cpu_dispatch.h>

#include <algorithm>
#include <bit>
#include <climits>
#include <cstdint>
#include <limits>
#include <type_traits>
#include <vector>

#include "structured.h"
#include "team.h"

namespace tb {
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
  int64_t end(int64_t i) const { return std::min(input, begin(i) + (kernel - 1) * dilation + 1); }
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
    const int64_t outputs = (columns.output + lanes - 1) / lanes * lanes;
    places_ = (columns.kernel - 1) * columns.dilation / columns.stride + outputs;
    by_place_.resize(static_cast<size_t>(columns.stride * places_), -std::numeric_limits<T>::infinity());
    greatest_.resize(static_cast<size_t>(outputs));
    for (int64_t i = 0; i < outputs; i++) {
      begins_.push_back(static_cast<Index>(columns.begin(i)));
      firsts_.push_back(static_cast<Index>(columns.first(i)));
    }
    indices_ = firsts_;
  }

  void plane(const T *from, T *to, int64_t *indices) {
    static const TakeGreater<T> take_greater = best_for_this_processor<T>();
    for (int64_t i = 0; i < rows_.output; i++, to += columns_.output, indices += columns_.output) {
      const auto first = static_cast<Index>(rows_.first(i) * columns_.input);
      std::fill(greatest_.begin(), greatest_.end(), -std::numeric_limits<T>::infinity());
      for (size_t j = 0; j < indices_.size(); j++) indices_[j] = first + firsts_[j];
      for (int64_t row = rows_.first(i); row < rows_.end(i); row += rows_.dilation) {
        arrange(from + row * columns_.input);
        for (int64_t k = 0; k < columns_.kernel; k++) {
          const int64_t offset = k * columns_.dilation;
          const T *elements = by_place_.data() + offset % columns_.stride * places_ + offset / columns_.stride;
          take_greater(elements, begins_.data(), static_cast<Index>(row * columns_.input + offset),
                       static_cast<int64_t>(greatest_.size()), greatest_.data(), indices_.data());
        }
      }
      std::copy_n(greatest_.begin(), columns_.output, to);
      std::copy_n(indices_.begin(), columns_.output, indices);
    }
  }

private:
  void arrange(const T *row) {
    for (int64_t place = 0; place < columns_.stride; place++) {
      // Window begin + place, of as many windows as there are.
      T *to = by_place_.data() + place * places_;
      const int64_t ahead = place - columns_.padding;
      const int64_t from = ahead >= 0 ? 0 : (-ahead + columns_.stride - 1) / columns_.stride;
      const int64_t until = std::clamp((columns_.input - ahead + columns_.stride - 1) / columns_.stride, from, places_);
      if (columns_.stride == 1)
        std::copy(row + ahead + from, row + ahead + until, to + from);
      else if (columns_.stride == 2)
        for (int64_t i = from; i < until; i++) to[i] = row[ahead + i * 2];
      else
        for (int64_t i = from; i < until; i++) to[i] = row[ahead + i * columns_.stride];
    }
  }

  Windows rows_, columns_;
  int64_t places_; // elements of a row that have one place within the stride
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
  if (!floats || height * width > INT_MAX / 2 || out.numel() == 0 || !self.is_contiguous() || !out.is_contiguous() ||
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
} // namespace tb
