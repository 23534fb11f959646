// stream_order.h -- tells the layer `races` (tb/races.h) what the driver does not see of a call of a process group: that it
// comes after the stream of its caller, which memory it uses, and who waits for it. Without the layer these do nothing.
#pragma once
#include "engine_tensors.h"

namespace tb::distributed {

// A call was given to the group's queue, in the order of the current stream. `call`: any address, which names it.
void tell_call(const void *group, const void *call, EngineTensors &tensors);
// What `stream` (NULL: the host) is given from now on comes after the call.
void tell_wait(tb_stream *stream, const void *call);
// The address names nothing any more.
void tell_end(const void *call);

} // namespace tb::distributed
