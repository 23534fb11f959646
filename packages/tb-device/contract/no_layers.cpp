// no_layers.cpp -- stands in for layers/ where tb-device is built without them: asking for one fails.
#include "layers.h"

namespace tb::layers {

tb_status apply(const std::string &, const tb_host *, tb_driver_api *, tb_driver **, std::string *problem) {
  *problem = "this tb-device was built without layers. Leave the option away";
  return TB_UNSUPPORTED;
}

} // namespace tb::layers
