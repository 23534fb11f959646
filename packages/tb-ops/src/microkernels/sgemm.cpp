// The kernel packs blocks of the right operand into panels of 32 columns, one term after the other. A tile of up to 14
// rows of the output then reads a panel in order and keeps its 28 vectors of sums in registers.
#include "microkernels/sgemm.h"

#if defined(__x86_64__)

#include <algorithm>
#include <array>
#include <memory>
#include <new>
#include <utility>

#include "microkernels/avx512.h"

namespace tb::ops::microkernels {
namespace {

constexpr int64_t tile_columns = 2 * lanes, tile_rows = 14;
constexpr int64_t block_terms = 192;       // a panel of 24 KB fits the L1 cache
constexpr int64_t block_columns = 512;     // 384 KB of panels fit the L2 cache
constexpr int64_t alias_stride = 4096 / 4; // elements: addresses 4 KB apart share a set of the L1 cache

// The length of the next block of the k terms, as MKL divides them.
int64_t next_terms(int64_t k, int64_t done) {
  if (done == 0 && k > block_terms && k < 2 * block_terms) return (k + 1) / 2;
  return std::min(k - done, block_terms);
}

// Element (i, k) is data[i * row + k * term].
struct Rows {
  const float *data;
  int64_t row, term;
};

// Computes rows x (vectors * 16) elements of the output; `last` masks the elements of the last vector.
template <int rows, int vectors> TB_AVX512 void tile(Rows left, const float *panel, int64_t terms, float *out,
                                                     int64_t stride, __mmask16 last, bool add) {
  __m512 sums[rows][vectors];
#pragma GCC unroll 16
  for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
    for (int j = 0; j < vectors; j++) sums[i][j] = _mm512_setzero_ps();
  constexpr int based = 4; // rows that one base pointer reaches by the addressing modes
  const float *bases[(rows + based - 1) / based];
#pragma GCC unroll 4
  for (int i = 0; i < (rows + based - 1) / based; i++) bases[i] = left.data + i * based * left.row;
  for (int64_t k = 0; k < terms; k++, panel += tile_columns) {
    __m512 right[vectors];
#pragma GCC unroll 2
    for (int j = 0; j < vectors; j++) right[j] = _mm512_load_ps(panel + j * lanes);
#pragma GCC unroll 16
    for (int i = 0; i < rows; i++) {
      const __m512 term = _mm512_set1_ps(bases[i / based][i % based * left.row]);
#pragma GCC unroll 2
      for (int j = 0; j < vectors; j++) sums[i][j] = _mm512_fmadd_ps(term, right[j], sums[i][j]);
    }
#pragma GCC unroll 4
    for (int i = 0; i < (rows + based - 1) / based; i++) bases[i] += left.term;
  }
#pragma GCC unroll 16
  for (int i = 0; i < rows; i++)
#pragma GCC unroll 2
    for (int j = 0; j < vectors; j++) {
      float *to = out + i * stride + j * lanes;
      const __mmask16 mask = j + 1 == vectors ? last : first_lanes(lanes);
      const __m512 sum = add ? _mm512_add_ps(_mm512_maskz_loadu_ps(mask, to), sums[i][j]) : sums[i][j];
      _mm512_mask_storeu_ps(to, mask, sum);
    }
}

using Tile = void (*)(Rows, const float *, int64_t, float *, int64_t, __mmask16, bool);
template <int vectors, int... rows> constexpr auto tiles_of(std::integer_sequence<int, rows...>) {
  return std::array<Tile, sizeof...(rows)>{&tile<rows + 1, vectors>...};
}
// Indexed by the number of rows minus one.
constexpr auto narrow_tiles = tiles_of<1>(std::make_integer_sequence<int, tile_rows>());
constexpr auto wide_tiles = tiles_of<2>(std::make_integer_sequence<int, tile_rows>());

// to[k * step + i] = from[i * stride + k] for each k below `terms` and i below 16; rows from `count` on are read as 0.
// Both are at most 16.
TB_AVX512 void transpose_square(const float *from, int64_t stride, int64_t count, int64_t terms, float *to,
                                int64_t step) {
  __m512 a[lanes], b[lanes];
  for (int i = 0; i < lanes; i++)
    a[i] = i < count ? _mm512_maskz_loadu_ps(first_lanes(terms), from + i * stride) : _mm512_setzero_ps();
  // Three stages exchange elements in pairs, in fours, and by halves of vectors.
#pragma GCC unroll 8
  for (int i = 0; i < 16; i += 2) {
    b[i] = _mm512_unpacklo_ps(a[i], a[i + 1]);
    b[i + 1] = _mm512_unpackhi_ps(a[i], a[i + 1]);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 16; i += 4) {
    a[i] = _mm512_shuffle_ps(b[i], b[i + 2], 0x44);
    a[i + 1] = _mm512_shuffle_ps(b[i], b[i + 2], 0xee);
    a[i + 2] = _mm512_shuffle_ps(b[i + 1], b[i + 3], 0x44);
    a[i + 3] = _mm512_shuffle_ps(b[i + 1], b[i + 3], 0xee);
  }
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) {
    b[i] = _mm512_shuffle_f32x4(a[i], a[i + 4], 0x88);
    b[i + 4] = _mm512_shuffle_f32x4(a[i], a[i + 4], 0xdd);
    b[i + 8] = _mm512_shuffle_f32x4(a[i + 8], a[i + 12], 0x88);
    b[i + 12] = _mm512_shuffle_f32x4(a[i + 8], a[i + 12], 0xdd);
  }
#pragma GCC unroll 8
  for (int i = 0; i < 8; i++) {
    a[i] = _mm512_shuffle_f32x4(b[i], b[i + 8], 0x88);
    a[i + 8] = _mm512_shuffle_f32x4(b[i], b[i + 8], 0xdd);
  }
#pragma GCC unroll 16
  for (int k = 0; k < 16; k++)
    if (k < terms) _mm512_store_ps(to + k * step, a[k]);
}

TB_AVX512 void transpose(const float *from, int64_t stride, int64_t count, int64_t terms, float *to, int64_t step) {
  for (int64_t k = 0; k < terms; k += lanes)
    transpose_square(from + k, stride, count, std::min(lanes, terms - k), to + k * step, step);
}

// Packs `terms` terms of up to 32 columns of the right operand, beginning at `from`.
TB_AVX512 void pack_panel(const Operand<float> &right, const float *from, int64_t columns, int64_t terms, float *to) {
  if (right.transposed) {
    transpose(from, right.stride, std::min(columns, lanes), terms, to, tile_columns);
    if (columns > lanes)
      transpose(from + lanes * right.stride, right.stride, columns - lanes, terms, to + lanes, tile_columns);
    return;
  }
  for (int64_t k = 0; k < terms; k++, from += right.stride, to += tile_columns) {
    _mm512_store_ps(to, _mm512_maskz_loadu_ps(first_lanes(columns), from));
    if (columns > lanes) _mm512_store_ps(to + lanes, _mm512_maskz_loadu_ps(first_lanes(columns - lanes), from + lanes));
  }
}

// Multiplies `rows` rows of the left operand, at most those of a tile, by a panel, and stores `columns` columns.
void multiply_panel(Rows left, int64_t rows, const float *panel, int64_t columns, int64_t terms, float *out,
                    int64_t stride, bool add) {
  const bool wide = columns > lanes;
  (wide ? wide_tiles : narrow_tiles)[static_cast<size_t>(rows - 1)](
      left, panel, terms, out, stride, first_lanes(std::min(columns, tile_columns) - (wide ? lanes : 0)), add);
}

// The number of tiles into which rows are divided as evenly as possible.
int64_t tile_count(int64_t rows) { return (rows + tile_rows - 1) / tile_rows; }

constexpr std::align_val_t alignment{64};

} // namespace

bool has_sgemm() { return __builtin_cpu_supports("avx512f"); }

void sgemm(const Gemm<float> &p) {
  static thread_local AlignedBuffer memory;
  const int64_t width = std::min(block_columns, (p.columns + tile_columns - 1) / tile_columns * tile_columns);
  float *const panels = memory.reserve(block_terms * (width + lanes)), *const copied_rows =
                                                                           panels + block_terms * width;
  const int64_t tiles = tile_count(p.rows);
  for (int64_t done = 0, terms; done < p.k; done += terms) {
    terms = next_terms(p.k, done);
    for (int64_t first = 0; first < p.columns; first += block_columns) {
      const int64_t end = std::min(p.columns, first + block_columns);
      const auto panel = [&](int64_t j) { return panels + (j - first) * block_terms; };
      for (int64_t j = first; j < end; j += tile_columns)
        pack_panel(p.right, p.right.data + (p.right.transposed ? j * p.right.stride + done : done * p.right.stride + j),
                   std::min(tile_columns, end - j), terms, panel(j));
      // Rows of the left operand are packed if they evict each other from the L1 cache or are read many times.
      const bool copy_rows =
          !p.left.transposed && (end - first > block_columns / 2 || p.left.stride % (alias_stride / 4) == 0);
      for (int64_t t = 0; t < tiles; t++) {
        const int64_t i = p.rows * t / tiles, rows = p.rows * (t + 1) / tiles - i;
        Rows left = p.left.transposed ? Rows{p.left.data + done * p.left.stride + i, 1, p.left.stride}
                                      : Rows{p.left.data + i * p.left.stride + done, p.left.stride, 1};
        if (copy_rows) {
          transpose(left.data, left.row, rows, terms, copied_rows, lanes);
          left = {copied_rows, 1, lanes};
        }
        for (int64_t j = first; j < end; j += tile_columns)
          multiply_panel(left, rows, panel(j), end - j, terms, p.out + i * p.stride + j, p.stride, p.add || done > 0);
      }
    }
  }
}

float *AlignedBuffer::reserve(int64_t floats) {
  if (floats > size_) {
    memory_.reset(static_cast<float *>(::operator new[](static_cast<size_t>(floats) * sizeof(float), alignment)));
    size_ = floats;
  }
  return memory_.get();
}

void AlignedBuffer::Delete::operator()(float *memory) const { ::operator delete[](memory, alignment); }

void PackedOperand::begin(const Operand<float> &operand, int64_t k, int64_t columns) {
  operand_ = operand;
  k_ = k;
  columns_ = columns;
  packed_ = memory_.reserve(k * panels() * tile_columns);
}

int64_t PackedOperand::panels() const { return (columns_ + tile_columns - 1) / tile_columns; }

void PackedOperand::pack(int64_t first_panel, int64_t last_panel) {
  for (int64_t done = 0, terms; done < k_; done += terms) {
    terms = next_terms(k_, done);
    for (int64_t i = first_panel; i < last_panel; i++) {
      const int64_t j = i * tile_columns;
      pack_panel(operand_,
                 operand_.data + (operand_.transposed ? j * operand_.stride + done : done * operand_.stride + j),
                 std::min(tile_columns, columns_ - j), terms, packed_ + (done * panels() + i * terms) * tile_columns);
    }
  }
}

TB_AVX512 void PackedOperand::scale(float by) {
  for (int64_t i = 0; i < k_ * panels() * tile_columns; i += lanes)
    _mm512_store_ps(packed_ + i, _mm512_mul_ps(_mm512_load_ps(packed_ + i), _mm512_set1_ps(by)));
}

void PackedOperand::multiply(const Operand<float> &left, int64_t step, int64_t count, int64_t rows, int64_t terms,
                             int64_t columns, const Matrices<float> &out, bool add) const {
  const int64_t tiles = tile_count(rows);
  const Rows from = left.transposed ? Rows{left.data, 1, left.stride} : Rows{left.data, left.stride, 1};
  for (int64_t done = 0, next; done < terms; done += next) {
    next = next_terms(k_, done);
    for (int64_t j = 0; j < columns; j += tile_columns) {
      const float *panel = packed_ + done * panels() * tile_columns + j * next;
      for (int64_t m = 0; m < count; m++)
        for (int64_t t = 0; t < tiles; t++) {
          const int64_t i = rows * t / tiles;
          multiply_panel({from.data + m * step + i * from.row + done * from.term, from.row, from.term},
                         rows * (t + 1) / tiles - i, panel, columns - j, std::min(next, terms - done),
                         out.data + m * out.step + i * out.stride + j, out.stride, add || done > 0);
        }
    }
  }
}

} // namespace tb::ops::microkernels

#else

namespace tb::ops::microkernels {
bool has_sgemm() { return false; }
void sgemm(const Gemm<float> &) {}
float *AlignedBuffer::reserve(int64_t) { return nullptr; }
void AlignedBuffer::Delete::operator()(float *) const {}
void PackedOperand::begin(const Operand<float> &, int64_t, int64_t) {}
int64_t PackedOperand::panels() const { return 0; }
void PackedOperand::pack(int64_t, int64_t) {}
void PackedOperand::scale(float) {}
void PackedOperand::multiply(const Operand<float> &, int64_t, int64_t, int64_t, int64_t, int64_t,
                             const Matrices<float> &, bool) const {}
} // namespace tb::ops::microkernels

#endif
