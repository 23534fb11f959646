// Reads the buffer protocol and DLPack.
#include "python/host_array.h"

#include <algorithm>
#include <cstring>
#include <string>

#include "processor/parallel.h"
#include "tb/dlpack.h"

namespace nb = nanobind;

namespace tb::generator {
namespace {

constexpr const char *names = "float32, float64, float16, bfloat16, int64, int32, int16, int8, uint8 and bool";

[[noreturn]] void refuse(const std::string &text) { throw nb::value_error(text.c_str()); }

// The element type of a format letter of the buffer protocol; 0 if no fill makes it. bfloat16 has no letter: its bits
// are stored as unsigned 16-bit integers, "H".
int32_t type_of_letter(char letter) {
  constexpr const char *letters = "fdeHqihbB?";
  if (letter == 'l') return sizeof(long) == 8 ? TB_INT64 : TB_INT32;
  const char *found = letter ? std::strchr(letters, letter) : nullptr;
  return found ? static_cast<int32_t>(found - letters) + 1 : 0;
}

int32_t type_of_code(uint8_t code, uint8_t bits) {
  const int key = code * 256 + bits;
  switch (key) {
  case dlpack::floating * 256 + 32:
    return TB_FLOAT32;
  case dlpack::floating * 256 + 64:
    return TB_FLOAT64;
  case dlpack::floating * 256 + 16:
    return TB_FLOAT16;
  case dlpack::brain_floating * 256 + 16:
    return TB_BFLOAT16;
  case dlpack::integer * 256 + 64:
    return TB_INT64;
  case dlpack::integer * 256 + 32:
    return TB_INT32;
  case dlpack::integer * 256 + 16:
    return TB_INT16;
  case dlpack::integer * 256 + 8:
    return TB_INT8;
  case dlpack::unsigned_integer * 256 + 8:
    return TB_UINT8;
  case dlpack::boolean * 256 + 8:
    return TB_BOOL;
  default:
    return 0;
  }
}

std::string type_of(nb::handle object) { return nb::cast<std::string>(object.type().attr("__name__")); }

} // namespace

HostArray::HostArray(nb::handle object, int32_t type, bool writable) {
  if (PyObject_CheckBuffer(object.ptr())) {
    take_buffer(object, type, writable);
  } else if (nb::hasattr(object, "__dlpack__")) {
    take_tensor(object, type);
  } else {
    throw nb::type_error(("out is a " + type_of(object) +
                          ". Give a writable buffer, a DLPack tensor in host memory, a number of elements or a shape")
                             .c_str());
  }
}

HostArray::~HostArray() { release_(); }

void HostArray::take_buffer(nb::handle object, int32_t asked, bool writable) {
  auto *view = new Py_buffer{};
  if (PyObject_GetBuffer(object.ptr(), view, PyBUF_STRIDES | PyBUF_FORMAT) != 0) {
    delete view;
    throw nb::python_error();
  }
  const auto release = [view] {
    PyBuffer_Release(view);
    delete view;
  };
  try {
    const std::string format = view->format ? view->format : "B";
    const bool native = format.size() == 2 && std::strchr("<=@", format[0]); // little-endian machines only
    const char letter = format.size() == 1 ? format[0] : native ? format[1] : '\0';
    const int32_t own = type_of_letter(letter);
    const bool bytes = letter == 'b' || letter == 'B' || letter == 'c';
    type_ = asked ? asked : own;
    if (!asked && (own == 0 || own == TB_BFLOAT16))
      refuse("out has elements of format '" + format +
             "', which no fill makes. Say with dtype what its bytes shall be: " + "one of " + names);
    // Other formats of the same size are refused. Otherwise a float32 fill of int32 memory would go unnoticed.
    if (asked && asked != own && !bytes)
      refuse("out has elements of format '" + format +
             "', not of the dtype asked for. Leave dtype out, or view it as bytes");
    data_ = static_cast<char *>(view->buf);
    const uint32_t size = element_size(type_);
    if (size == static_cast<uint64_t>(view->itemsize)) {
      for (int i = 0; i < view->ndim; i++) axes_.push_back({view->shape[i], view->strides[i]});
    } else {
      if (!PyBuffer_IsContiguous(view, 'C'))
        refuse("out is not contiguous, so its bytes cannot be given another dtype");
      if (view->len % size)
        refuse("out has " + std::to_string(view->len) + " bytes, not a multiple of the dtype's " +
               std::to_string(size));
      axes_.push_back({view->len / size, size});
    }
    measure();
    if (writable && view->readonly)
      refuse("out is read-only. Give a writable buffer, for example a bytearray instead of bytes");
  } catch (...) {
    release();
    throw;
  }
  release_ = release;
}

void HostArray::take_tensor(nb::handle object, int32_t asked) {
  const nb::object capsule = object.attr("__dlpack__")();
  auto *managed = static_cast<dlpack::Managed *>(PyCapsule_GetPointer(capsule.ptr(), "dltensor"));
  if (!managed) throw nb::python_error();
  const dlpack::Tensor &tensor = managed->tensor;
  if (tensor.device.type != dlpack::type_cpu && tensor.device.type != dlpack::type_cuda_host)
    refuse("out is not in host memory. Fill a tensor on the CPU and copy it");
  type_ = tensor.dtype.lanes == 1 ? type_of_code(tensor.dtype.code, tensor.dtype.bits) : 0;
  if (!type_) refuse(std::string("out has elements that no fill makes. Give a tensor of ") + names);
  if (asked && asked != type_) refuse("out's elements are not of the dtype asked for. Leave dtype out");
  const int64_t size = element_size(type_);
  data_ = static_cast<char *>(tensor.data) + tensor.byte_offset;
  int64_t packed = size;
  for (int i = tensor.ndim - 1; i >= 0; packed *= tensor.shape[i--])
    axes_.insert(axes_.begin(), {tensor.shape[i], tensor.strides ? tensor.strides[i] * size : packed});
  measure();
  // After this rename the capsule does not call the deleter: release_ does.
  PyCapsule_SetName(capsule.ptr(), "used_dltensor");
  release_ = [managed] {
    if (managed->deleter) managed->deleter(managed);
  };
}

void HostArray::measure() {
  for (const Axis &axis : axes_) count_ *= static_cast<uint64_t>(axis.size);
  if (count_ == 0) return;
  int64_t packed = element_size(type_);
  for (size_t i = axes_.size(); i-- > 0; packed *= axes_[i].size) {
    const auto [size, stride] = axes_[i];
    if (size > 1 && stride == 0) refuse("out has several elements in the same place (stride 0). Fill a copy instead");
    if (size > 1 && stride != packed) contiguous_ = false;
  }
}

void HostArray::scatter(const char *from, uint64_t first, uint64_t count) const {
  const uint32_t size = element_size(type_);
  std::vector<int64_t> place(axes_.size());
  char *to = data_;
  for (size_t i = axes_.size(); i-- > 0;) {
    place[i] = static_cast<int64_t>(first % static_cast<uint64_t>(axes_[i].size));
    first /= static_cast<uint64_t>(axes_[i].size);
    to += place[i] * axes_[i].stride;
  }
  for (; count > 0; count--, from += size) {
    std::memcpy(to, from, size);
    for (size_t i = axes_.size(); i-- > 0;) {
      to += axes_[i].stride;
      if (++place[i] < axes_[i].size) break;
      to -= axes_[i].stride * axes_[i].size;
      place[i] = 0;
    }
  }
}

void HostArray::run(uint64_t first, uint32_t threads, const std::function<void(void *, Range)> &fill) const {
  fill(data_, Range{first, 0}); // throws for invalid arguments now: in a thread nothing could catch the exception
  const uint64_t size = element_size(type_);
  in_parallel(count_, threads, [&](uint64_t start, uint64_t part) {
    if (contiguous_) return fill(data_ + start * size, Range{first + start, part});
    constexpr uint64_t piece = 2048;
    std::vector<uint64_t> memory(piece);
    for (const uint64_t end = start + part; start < end; start += piece) {
      const uint64_t count = std::min(piece, end - start);
      fill(memory.data(), Range{first + start, count});
      scatter(reinterpret_cast<const char *>(memory.data()), start, count);
    }
  });
}

} // namespace tb::generator
