// engine_tensors.h -- what the engine gets for the tensors of a call: tensors of its own device over the same bytes. For an
// engine of the CPU, where the host may not touch them, copies in pinned memory, which are filled in stream order before the
// call and brought back by who waits.
#pragma once
#include <ATen/core/Tensor.h>

#include <utility>
#include <vector>

#include "operation.h"

namespace tb::distributed {

bool engine_computes(c10::ScalarType type); // whether the engine has arithmetic for the type

enum class Use { read, write, both };

// A copy that is to be brought back to the tensor it stands for.
struct StagedCopy {
  at::Tensor tensor, staged;
  tb_block *block; // of the pinned memory; nullptr: `staged` is a dense tensor on the device
};

class EngineTensors {
public:
  // The driver opens here. Elements of types that the engine does not know go as bytes, in one dimension more, where the
  // operation only moves them.
  // of_engine: the device that the engine takes tensors of.
  EngineTensors(const Operation &operation, int32_t device, c10::DeviceType of_engine);
  at::Tensor of(const at::Tensor &tensor, Use use);
  std::vector<at::Tensor> of(const std::vector<at::Tensor> &tensors, Use use);
  std::vector<std::vector<at::Tensor>> of(const std::vector<std::vector<at::Tensor>> &tensors, Use use);

  // Takes over what another call keeps, whose engine does both as one.
  void join(EngineTensors &other);

  const Operation &operation() const { return operation_; }
  int32_t device() const { return device_; }
  c10::DeviceType of_engine() const { return of_engine_; }
  tb_stream *stream() const { return stream_; } // of the caller
  // What the engine does to memory of the device; known only under the layer races.
  const std::vector<std::pair<at::Tensor, Use>> &uses() const { return uses_; }
  // The memory that the engine uses until the call is done.
  std::vector<c10::Storage> take_storages() { return std::move(storages_); }
  std::vector<StagedCopy> take_copies() { return std::move(copies_); }

private:
  at::Tensor pinned_copy(const at::Tensor &tensor, Use use, bool as_bytes);

  const Operation &operation_;
  const int32_t device_;
  const c10::DeviceType of_engine_;
  tb_stream *stream_ = nullptr;
  std::vector<c10::Storage> storages_;
  std::vector<std::pair<at::Tensor, Use>> uses_;
  std::vector<StagedCopy> copies_;
};

// Queues the way back on the current stream of the device.
void bring_back(const std::vector<StagedCopy> &copies, int32_t device);

} // namespace tb::distributed
