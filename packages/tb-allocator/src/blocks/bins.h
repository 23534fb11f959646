// bins.h -- free blocks by size: classes of at most 3 % width, found through two levels of bits in constant time.
//
// Classes are exact up to 32 KiB (in units of 512 bytes), then 32 to each power of two. Guarded by the heap's lock.
#pragma once

#include <array>
#include <bit>

#include "blocks/block.h"

namespace tb::allocator {

inline constexpr uint64_t unit = 512;
// The largest size that any bin, and so any request, can have.
inline constexpr uint64_t size_limit = uint64_t{1} << 48;

class Bins {
public:
  static uint32_t class_of(uint64_t size) noexcept {
    uint64_t units = size / unit;
    if (units < 32) return static_cast<uint32_t>(units);
    auto log = static_cast<uint32_t>(std::bit_width(units)) - 1; // 5 and more
    return (log - 4) * 32 + static_cast<uint32_t>((units >> (log - 5)) & 31);
  }

  void insert(tb_block *block) noexcept { insert(block, class_of(block->size)); }

  void remove(tb_block *block) noexcept {
    uint32_t bin = block->bin;
    if (block->bin_next) block->bin_next->bin_previous = block->bin_previous;
    if (block->bin_previous) {
      block->bin_previous->bin_next = block->bin_next;
    } else {
      heads_[bin] = block->bin_next;
      if (!block->bin_next) {
        rows_[bin / 32] &= ~(uint32_t{1} << bin % 32);
        if (!rows_[bin / 32]) row_bits_ &= ~(uint64_t{1} << bin / 32);
      }
    }
    bytes_ -= block->size;
  }

  // Changes the size of a block in place.
  void resize(tb_block *block, uint64_t size) noexcept {
    uint32_t bin = class_of(size);
    if (bin == block->bin) {
      bytes_ += size - block->size;
      block->size = size;
    } else {
      remove(block);
      block->size = size;
      insert(block, bin);
    }
  }

  // The smallest free block of at least `size`: exactly up to 32 KiB, within a class (3 %) above. NULL if there is
  // none.
  tb_block *find(uint64_t size) const noexcept { return find(size, class_of(size)); }
  tb_block *find(uint64_t size, uint32_t bin) const noexcept {
    // Blocks of the size's own class may be too small; those of higher classes never are.
    tb_block *best = nullptr;
    int looked = 0;
    for (tb_block *block = heads_[bin]; block && looked < look_limit; block = block->bin_next, ++looked) {
      if (block->size == size) return block;
      if (block->size > size && (!best || block->size < best->size)) best = block;
    }
    if (best) return best;
    uint32_t row = bin / 32;
    uint32_t bits = rows_[row] & static_cast<uint32_t>(~uint64_t{0} << (bin % 32 + 1));
    if (!bits) {
      uint64_t above = row_bits_ & (~uint64_t{1} << row);
      if (!above) return nullptr;
      row = static_cast<uint32_t>(std::countr_zero(above));
      bits = rows_[row];
    }
    return heads_[row * 32 + static_cast<uint32_t>(std::countr_zero(bits))];
  }

  // Whether there is a block of this class's row or above.
  bool reaches(uint32_t bin) const noexcept { return row_bits_ >> bin / 32; }

  uint64_t bytes() const noexcept { return bytes_; }

  // Calls visit(block) from the largest class down, until it returns true.
  template <class Visit> void descend(Visit visit) const {
    for (uint64_t rows = row_bits_; rows;) {
      auto row = static_cast<uint32_t>(std::bit_width(rows)) - 1;
      rows &= ~(uint64_t{1} << row);
      for (uint32_t bits = rows_[row]; bits;) {
        auto bit = static_cast<uint32_t>(std::bit_width(bits)) - 1;
        bits &= ~(uint32_t{1} << bit);
        for (tb_block *block = heads_[row * 32 + bit]; block;) {
          tb_block *next = block->bin_next; // the visitor may remove the block
          if (visit(block)) return;
          block = next;
        }
      }
    }
  }

  // 0 when empty.
  uint64_t largest() const noexcept {
    if (!row_bits_) return 0;
    auto row = static_cast<uint32_t>(std::bit_width(row_bits_)) - 1;
    uint32_t bin = row * 32 + static_cast<uint32_t>(std::bit_width(rows_[row])) - 1;
    uint64_t size = 0;
    for (tb_block *block = heads_[bin]; block; block = block->bin_next)
      if (block->size > size) size = block->size;
    return size;
  }

private:
  // So many blocks of one class are looked at before the next class: this bounds the time, and costs at most 3 % of
  // fit.
  static constexpr int look_limit = 16;
  static constexpr size_t row_count = 36; // up to size_limit

  void insert(tb_block *block, uint32_t bin) noexcept {
    tb_block *head = heads_[bin];
    block->bin = bin;
    block->bin_previous = nullptr;
    block->bin_next = head;
    if (head) head->bin_previous = block;
    heads_[bin] = block;
    rows_[bin / 32] |= uint32_t{1} << bin % 32;
    row_bits_ |= uint64_t{1} << bin / 32;
    bytes_ += block->size;
  }

  uint64_t row_bits_ = 0;
  uint64_t bytes_ = 0;
  std::array<uint32_t, row_count> rows_{};
  std::array<tb_block *, row_count * 32> heads_{};
};

} // namespace tb::allocator
