// Output donation: a CPU operator writes its result into the memory of the tensor that will hold it.
//
// An operator without an out= form allocates its results, which would then have to be copied. While an OutputDonation
// lives, an allocation by its thread of the size of a donated tensor gets that tensor's memory, each once. This is a
// hint: results that the operator allocated elsewhere are copied, and temporaries in donated memory do no harm.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/util/FunctionRef.h>
#include <c10/util/SmallVector.h>

#include <optional>
#include <utility>

namespace tb::ops {

class OutputDonation {
public:
  // The donated tensors are dense, and nothing else uses their memory. Undefined tensors donate nothing. The caller
  // makes the operator's arguments before the donation, because they could be allocated in donated memory otherwise.
  explicit OutputDonation(c10::ArrayRef<at::Tensor> donated);
  ~OutputDonation();
  OutputDonation(const OutputDonation &) = delete;
  OutputDonation &operator=(const OutputDonation &) = delete;

  // Copies each result that was not allocated in its donated tensor, then ends the donation. `results` is in the order
  // of the donated tensors.
  void collect(c10::ArrayRef<at::Tensor> results);

  // Returns donated memory of so many bytes, or NULL. The allocator calls it.
  void *allocate(size_t bytes);

private:
  struct Buffer {
    at::Tensor tensor;
    bool used = false;
  };
  void end();
  bool holds(const at::Tensor &tensor) const;

  c10::SmallVector<Buffer, 4> buffers_;
  OutputDonation *const before_;
  bool active_ = true;
};

// While it lives, tensors that the calling thread makes on the CPU are in the memory that `allocate` gives: the device's.
// A result whose size was not known before can then become a tensor of the device as it is.
class ResultMemory {
public:
  explicit ResultMemory(c10::function_ref<c10::DataPtr(size_t)> allocate);
  ~ResultMemory();
  ResultMemory(const ResultMemory &) = delete;
  ResultMemory &operator=(const ResultMemory &) = delete;

  // Takes what `allocate` gave from a storage that one tensor has alone. Otherwise nothing.
  static std::optional<c10::DataPtr> take(const c10::Storage &storage);

  // The memory as the CPU's. The allocator calls it.
  c10::DataPtr allocate(size_t bytes) const;

private:
  const c10::function_ref<c10::DataPtr(size_t)> allocate_;
  ResultMemory *const before_;
};

// Puts an allocator that knows donations in front of PyTorch's CPU allocator. Call it once, before kernels run.
void install_output_donation();

// Returns the bytes of results so far that were allocated in donated memory, and of those that were copied there.
std::pair<int64_t, int64_t> donated_bytes();

} // namespace tb::ops
