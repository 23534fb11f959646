// Layers around a driver: tables that look like the driver's own and check, count, record or break calls.
//
// A layer takes a driver's (api, self) and gives another (api, self) that forwards to it. The host puts the layers
// named by TB_LAYERS or by the option `layers` between the driver and its own emulation; with none, the table is the
// driver's own and costs nothing. Forwarders are generated from tb/driver_slots.inc and tb/graph_slots.inc: a
// function that the driver lacks stays NULL, and the table of an extension is wrapped too (an unknown one:
// TB_NOT_FOUND, since a layer could not see its calls).
//
// Spec: names separated by commas, the first one outermost; options after a colon, `key=value`, more after commas:
//   "validate,leak"   "fault:nth=7,status=8"   "trace:file=calls.jsonl,validate"
#pragma once

#include <string>

#include "tb/driver.h"

namespace tb::layers {

// Puts the layers of `spec` around the driver: *api and *self are then the outermost layer's. Closing the outermost
// self closes the driver and frees the layers when that succeeds. On failure (an unknown name or option, a file that
// cannot be written) nothing has changed, and `problem` says what is wrong and what to do.
tb_status apply(const std::string &spec, const tb_host *host, tb_driver_api *api, tb_driver **self,
                std::string *problem);

} // namespace tb::layers
