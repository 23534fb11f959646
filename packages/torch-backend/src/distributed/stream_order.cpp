// stream_order.cpp -- see stream_order.h.
#include "stream_order.h"

#include <vector>

namespace tb::distributed {

void tell_call(const void *group, const void *call, EngineTensors &tensors) {
  const tb_races_api &races = runtime.races;
  if (!races.layer) return;
  // The calls of a group are a queue of its own. It follows the caller's stream.
  auto *queue = static_cast<tb_stream *>(const_cast<void *>(group));
  races.mark(races.layer, call, tensors.stream());
  races.follow(races.layer, queue, call);
  std::vector<tb_races_memory> memory;
  for (const auto &[tensor, use] : tensors.uses())
    for (const Use one : {Use::read, Use::write}) {
      if (use != one && use != Use::both) continue;
      memory.push_back({tensor.const_data_ptr(), tensor.sizes().data(), tensor.strides().data(),
                        static_cast<uint32_t>(tensor.dim()), static_cast<uint32_t>(tensor.element_size()),
                        static_cast<uint32_t>(one == Use::write ? TB_RACES_WRITES : 0), 0, "a tensor"});
    }
  const uint64_t number = races.work(races.layer, queue);
  races.use(races.layer, queue, number, tensors.operation().operator_name(), memory.data(),
            static_cast<uint32_t>(memory.size()));
  races.mark(races.layer, call, queue);
}

void tell_wait(tb_stream *stream, const void *call) {
  if (runtime.races.layer) runtime.races.follow(runtime.races.layer, stream, call);
}

void tell_end(const void *call) {
  if (runtime.races.layer) runtime.races.forget(runtime.races.layer, call);
}

} // namespace tb::distributed
