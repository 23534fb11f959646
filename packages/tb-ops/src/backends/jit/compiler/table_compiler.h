// The compiler of a vendor's table (tb/kernels.h): a function of the vendor's library, or a command.
#pragma once
#include "backends/jit/compiler/compiler.h"
#include "backends/vendor/table.h"

namespace tb::ops::jit {

// Returns the first table that has a compiler, the driver's own before those of libraries; null if none has.
const vendor::Table *find_table_with_compiler();
// The shim of the first table that has one.
std::optional<Shim> table_shim();
// Throws c10::Error if the table has a compiler without an identity, or a command that is not there.
std::unique_ptr<Compiler> make_table_compiler(const vendor::Table &table, int32_t device);

} // namespace tb::ops::jit
