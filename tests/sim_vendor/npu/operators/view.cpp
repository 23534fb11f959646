// view.cpp -- copies between strided device memory and dense arrays.
#include "view.h"

#include <cstdarg>
#include <cstdio>
#include <cstring>

#include "../src/machine.h"

namespace sim {
namespace {

// A view as rows of elements with a constant stride. Dimensions that are contiguous to each other are merged.
struct Rows {
  Dims dims, strides; // of all dimensions except the last
  int64_t length = 1, stride = 1;

  explicit Rows(const View &view) {
    for (size_t i = 0; i < view.dims.size(); ++i) {
      if (view.dims[i] == 1) continue;
      if (!dims.empty() && strides.back() == view.strides[i] * view.dims[i]) {
        dims.back() *= view.dims[i];
        strides.back() = view.strides[i];
      } else {
        dims.push_back(view.dims[i]);
        strides.push_back(view.strides[i]);
      }
    }
    if (dims.empty()) return;
    length = dims.back(), stride = strides.back();
    dims.pop_back(), strides.pop_back();
  }

  // Calls row(element offset) for each, in order.
  template <class F> void each(int64_t offset, F row) const {
    Dims at(dims.size(), 0);
    for (;;) {
      row(offset);
      size_t dim = dims.size();
      for (; dim > 0; --dim) {
        offset += strides[dim - 1];
        if (++at[dim - 1] < dims[dim - 1]) break;
        offset -= at[dim - 1] * strides[dim - 1];
        at[dim - 1] = 0;
      }
      if (dim == 0) return;
    }
  }
};

// The bytes from a view's first element to its last.
struct Bytes {
  std::vector<Memory::Piece> pieces;
  int64_t first; // the offset of the first element

  explicit Bytes(const View &view) : first(view.offset) {
    int64_t last = view.offset;
    for (size_t i = 0; i < view.dims.size(); ++i) last += (view.dims[i] - 1) * view.strides[i];
    const uint64_t size = size_of(view.type);
    uint8_t *start = static_cast<uint8_t *>(view.address) + static_cast<uint64_t>(first) * size;
    if (!Machine::get().memory().locate(view.device, start, static_cast<uint64_t>(last - first + 1) * size, &pieces))
      refuse(kCoreException, "EZ9999: AI core exception: %p is no memory of device %d that is alive", view.address,
             view.device);
  }
  bool whole() const { return pieces.size() == 1; }
};

template <class E, class C> void load_rows(const View &view, const uint8_t *bytes, C *out) {
  const Rows rows(view);
  const E *elements = reinterpret_cast<const E *>(bytes);
  rows.each(0, [&](int64_t offset) {
    const E *row = elements + offset;
    if (rows.stride == 1)
      for (int64_t i = 0; i < rows.length; ++i) out[i] = from_element<C>(row[i]);
    else if (rows.stride == 0)
      std::fill(out, out + rows.length, from_element<C>(*row));
    else
      for (int64_t i = 0; i < rows.length; ++i) out[i] = from_element<C>(row[i * rows.stride]);
    out += rows.length;
  });
}

template <class E, class C> void store_rows(const View &view, uint8_t *bytes, const C *values) {
  const Rows rows(view);
  E *elements = reinterpret_cast<E *>(bytes);
  rows.each(0, [&](int64_t offset) {
    E *row = elements + offset;
    if (rows.stride == 1)
      for (int64_t i = 0; i < rows.length; ++i) row[i] = to_element<E>(values[i]);
    else
      for (int64_t i = 0; i < rows.length; ++i) row[i * rows.stride] = to_element<E>(values[i]);
    values += rows.length;
  });
}

// Writes to memory in several pieces, element by element, because bytes between the elements must not be written.
template <class E, class C> void store_scattered(const View &view, const Bytes &bytes, const C *values) {
  const Rows rows(view);
  rows.each(0, [&](int64_t offset) {
    for (int64_t i = 0; i < rows.length; ++i) {
      const E element = to_element<E>(*values++);
      uint64_t at = static_cast<uint64_t>(offset + i * rows.stride) * sizeof(E);
      size_t piece = 0;
      for (; at >= bytes.pieces[piece].size; ++piece) at -= bytes.pieces[piece].size;
      std::memcpy(bytes.pieces[piece].bytes + at, &element, sizeof(E)); // pieces are whole pages
    }
  });
}

} // namespace

void refuse(Error code, const char *format, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  std::vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  throw Refusal{code, text};
}

void View::check(const char *name) const {
  std::vector<Memory::Piece> pieces;
  if (reinterpret_cast<uintptr_t>(address) % 32)
    refuse(kCoreException, "EZ9999: AI core exception in %s: %p is no multiple of 32", name, address);
  if (!Machine::get().memory().locate(device, address, storage, &pieces))
    refuse(kCoreException, "EZ9999: AI core exception in %s: %llu bytes at %p are no memory of device %d that is alive",
           name, static_cast<unsigned long long>(storage), address, device);
}

View View::permuted(const Dims &order) const {
  View out = *this;
  for (size_t i = 0; i < order.size(); ++i) {
    out.dims[i] = dims[static_cast<size_t>(order[i])];
    out.strides[i] = strides[static_cast<size_t>(order[i])];
  }
  return out;
}

View View::narrowed(size_t dim, int64_t start, int64_t size) const {
  View out = *this;
  out.offset += start * strides[dim];
  out.dims[dim] = size;
  return out;
}

View View::expanded(const Dims &to) const {
  View out = *this;
  out.dims = to;
  out.strides.assign(to.size(), 0);
  const size_t more = to.size() - dims.size();
  for (size_t i = 0; i < dims.size(); ++i)
    if (dims[i] == to[more + i]) out.strides[more + i] = strides[i];
  return out;
}

template <class C> Array<C> load(const View &view) {
  Array<C> out(view.count());
  if (out.count() == 0) return out;
  const Bytes bytes(view);
  std::vector<uint8_t> gathered;
  const uint8_t *start = bytes.pieces[0].bytes;
  if (!bytes.whole()) {
    for (const Memory::Piece &piece : bytes.pieces)
      gathered.insert(gathered.end(), piece.bytes, piece.bytes + piece.size);
    start = gathered.data();
  }
  with_element(view.type, [&]<class E>() { load_rows<E>(view, start, out.data()); });
  return out;
}

template <class C> void store(const View &view, const C *values) {
  if (view.count() == 0) return;
  const Bytes bytes(view);
  with_element(view.type, [&]<class E>() {
    if (bytes.whole())
      store_rows<E>(view, bytes.pieces[0].bytes, values);
    else
      store_scattered<E>(view, bytes, values);
  });
}

template Array<float> load(const View &);
template Array<double> load(const View &);
template Array<int64_t> load(const View &);
template void store(const View &, const float *);
template void store(const View &, const double *);
template void store(const View &, const int64_t *);

} // namespace sim
