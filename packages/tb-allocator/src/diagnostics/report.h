// report.h -- sizes as texts show them.
#pragma once

#include <cstdint>
#include <string>

namespace tb::allocator {

std::string bytes_text(uint64_t bytes); // "1.50 GiB"

} // namespace tb::allocator
