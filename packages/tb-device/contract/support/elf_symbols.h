// The names that a shared library exports.
#pragma once

#include <string>
#include <vector>

namespace tb::contract {

// Throws Failed for a file that is no ELF library of 64 bits.
std::vector<std::string> exported_symbols(const std::string &path);

} // namespace tb::contract
