// Finds the layers around an open driver, for those that are used at run time.
#pragma once

#include <string>
#include <vector>

#include "layers/framework/layer.h"

namespace tb::layers {

// The names of the layers that apply() put around a driver, outermost first; `outermost` is the self that it gave.
// Empty for a driver without layers.
std::vector<std::string> names(const tb_driver *outermost);

// The layer of this kind, the outermost if there are several; NULL if there is none. It lives until the driver is
// closed: do not close in another thread meanwhile.
Layer *find(const tb_driver *outermost, const std::string &kind);

// Frees the layers without closing the driver, whose own table and self stay valid. Nothing may call through the layers
// any more.
void discard(tb_driver *outermost);

template <class L> L *find(const tb_driver *outermost) { return static_cast<L *>(find(outermost, L::name)); }

} // namespace tb::layers
