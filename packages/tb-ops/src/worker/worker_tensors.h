// The CPU tensors over device memory that a thread gives to a kernel. Each thread that runs a kernel or a part of one has a
// stock of them, which it reuses from closure to closure.
#pragma once
#include <ATen/core/Tensor.h>
#include <c10/util/SmallVector.h>

#include <array>
#include <memory>
#include <string>
#include <utility>
#include <vector>

namespace tb::ops {

class WorkerTensors {
public:
  // A tensor of that dtype, valid until the scope ends. The caller sets its data, sizes and flags; its storage owns nothing.
  at::Tensor &take(c10::ScalarType type) {
    Shelf &shelf = shelves_[static_cast<size_t>(type)];
    if (shelf.used == 0) touched_.push_back(static_cast<uint8_t>(type));
    if (shelf.used == shelf.tensors.size()) [[unlikely]]
      shelf.tensors.push_back(std::make_unique<at::Tensor>(make(type)));
    return *shelf.tensors[shelf.used++];
  }
  // When the scope ends, the tensor's elements are conjugated if its conjugate bit is no longer `bit`.
  void keep_conjugate_bit(at::Tensor &tensor, bool bit) { complex_.emplace_back(&tensor, bit); }
  // The tensors taken so far, by dtype: "float32 [2, 3], int64 [2]".
  std::string describe() const;
  void end_scope();

private:
  struct Shelf {
    std::vector<std::unique_ptr<at::Tensor>> tensors; // references stay valid while it grows
    size_t used = 0;
  };
  static at::Tensor make(c10::ScalarType type);
  void restore_conjugate_bits();

  std::array<Shelf, static_cast<size_t>(c10::ScalarType::NumOptions)> shelves_;
  c10::SmallVector<std::pair<at::Tensor *, bool>, 4> complex_; // with their conjugate bits
  c10::SmallVector<uint8_t, 8> touched_;
};

// The calling thread's. A plain pointer: a thread's object with a constructor would be guarded at every use.
extern thread_local constinit WorkerTensors *thread_worker_tensors;
WorkerTensors &make_worker_tensors();
inline WorkerTensors &worker_tensors() {
  return thread_worker_tensors ? *thread_worker_tensors : make_worker_tensors();
}

// Ends the tensors that the calling thread took while it lived.
class WorkerTensorScope {
public:
  WorkerTensorScope() = default;
  ~WorkerTensorScope() { worker_tensors().end_scope(); }
  WorkerTensorScope(const WorkerTensorScope &) = delete;
  WorkerTensorScope &operator=(const WorkerTensorScope &) = delete;
};

// The bytes of such a tensor start at `data` from now on.
inline void set_data(at::Tensor &tensor, void *data) {
  c10::StorageImpl *storage = tensor.unsafeGetTensorImpl()->unsafe_storage().unsafeGetStorageImpl();
  if (!storage->_mutable_data_ptr_no_checks().unsafe_reset_data_and_ctx(data)) [[unlikely]]
    storage->set_data_ptr_noswap(c10::DataPtr(data, c10::kCPU));
}

// A new one-dimensional tensor over `count` elements from `begin` on of a contiguous one. On any thread of the kernel.
at::Tensor &slice(const at::Tensor &tensor, int64_t begin, int64_t count);

// A new one-dimensional tensor over `count` elements at an address.
at::Tensor &flat(void *data, c10::ScalarType type, int64_t count);
// The same tensor over other elements.
void set_flat(at::Tensor &flat, void *data, int64_t count);

} // namespace tb::ops
