// configuration.h -- the variable TB_ALLOC_CONF, in PyTorch's syntax: key:value,key:value.
#pragma once

#include <string>

namespace tb {

struct Configuration {
  bool expandable_segments = false; // segments of virtual memory that grow
};

// NULL and "" are the defaults. On an unknown key or a bad value returns what is wrong and how it should read;
// "" when all is well.
std::string parse_configuration(const char *text, Configuration *out);

} // namespace tb
