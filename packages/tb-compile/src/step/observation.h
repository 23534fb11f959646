// What the operators of a step read and write, seen by PyTorch's record functions.
#pragma once
#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>
#include <ATen/record_function.h>
#include <c10/util/intrusive_ptr.h>

#include <cstdint>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <unordered_set>
#include <utility>
#include <vector>

#include "tb/component.h"

namespace tb::compile {

// From start() to stop() it notes the tensors and generators of all operators that are called while `stream` is the current
// stream of its device on the calling thread, autograd's threads included. Thread-safe.
class Observation {
public:
  // pool: the number of the capture's memory pool; 0: nothing is captured.
  Observation(int32_t device, tb_stream *stream, uint64_t pool) : device_(device), stream_(stream), pool_(pool) {}
  ~Observation() { stop(); }
  Observation(const Observation &) = delete;
  Observation &operator=(const Observation &) = delete;

  void start();
  void stop();
  // Whether this thread's operators are noted.
  bool is_observed() const;
  // The tensor's memory is used by code that no operator calls.
  void note(const at::Tensor &tensor, bool written);

  // Tensors that require a gradient and are no results of operators, in the order of their first use.
  std::vector<at::Tensor> leaves() const;
  // Tensors on the host that existed before; of these, those that were written to.
  std::vector<at::Tensor> host_tensors() const;
  std::vector<at::Tensor> written_host_tensors() const;
  // Tensors on the device that existed before and were written to.
  std::vector<at::Tensor> written_tensors() const;
  // Without the default ones of the devices.
  std::vector<at::Generator> generators() const;
  // Forgets tensors and generators, which the program may want to be their only owner of. Storages stay.
  void release_tensors();
  // Whether memory of the device that existed before was used, or written to.
  bool has_used(const at::Tensor &tensor) const;
  bool has_written(const at::Tensor &tensor) const;
  // Whether memory was allocated in the capture.
  bool has_made(const at::Tensor &tensor) const;
  // The storages of the device that existed before. They are held as long as this object exists.
  std::vector<c10::Storage> storages() const;
  // The addresses of their StorageImpl, of those that a tensor of the type of `like` showed first.
  std::vector<int64_t> used(const at::Tensor &like) const;
  // What was allocated in the capture and is in use: addresses of StorageImpl, each with the number of its owners.
  std::vector<std::pair<int64_t, int64_t>> alive() const;

private:
  struct Memory {
    c10::Storage held;                                             // of what existed before
    std::optional<c10::weak_intrusive_ptr<c10::StorageImpl>> made; // of what was made inside
    bool on_device = false, written = false;
    c10::ScalarType type = c10::ScalarType::Undefined; // of the first tensor
  };
  using Take = void (Observation::*)(const at::RecordFunction &function);
  static void observe(const at::RecordFunction &function, Take take);
  static std::unique_ptr<at::ObserverContext> begin(const at::RecordFunction &function);
  static void end(const at::RecordFunction &function, at::ObserverContext *context);
  void take_inputs(const at::RecordFunction &function);
  void take_outputs(const at::RecordFunction &function);
  void take(const c10::IValue &value, bool output, bool written);
  void take(const at::Tensor &tensor, bool output, bool written);
  const Memory *find(const at::Tensor &tensor) const;

  const int32_t device_;
  tb_stream *const stream_;
  const uint64_t pool_;
  mutable std::mutex mutex_; // guards what follows
  std::unordered_map<const c10::StorageImpl *, Memory> memory_;
  std::unordered_set<const c10::TensorImpl *> seen_;
  std::vector<at::Tensor> leaves_, host_tensors_, written_;
  std::vector<at::Generator> generators_;
  bool started_ = false;
};

// Tells the observations of this thread's current streams that code which no operator calls uses a tensor's memory.
void note_use(const at::Tensor &tensor);

} // namespace tb::compile
