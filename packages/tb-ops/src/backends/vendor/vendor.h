// A vendor's own kernels, from tables in C (tb/kernels.h) or of images, in front of the kernels of the other backends.
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>
#include <torch/library.h>

#include <memory>
#include <optional>
#include <string>

#include "backends/vendor/table.h"
#include "runtime/runtime.h"

namespace tb::ops::vendor {

// Serves every driver, since entries may be added at any time.
bool serves(const Runtime &runtime);
// Registers the kernels of the operators that the entries serve. Their other calls run by the kernels that are registered
// before. An entry that serves nothing says why (Entry::problem), and a warning names it.
void install(torch::Library &aten, torch::Library &autograd);

// Adds an entry, and registers its kernel if install() has run. Throws c10::Error, and adds nothing, if it cannot serve
// its operator. The caller must not hold Python's lock.
void serve(std::unique_ptr<Entry> entry);
// Registers the kernels of the entries of an operator whose declaration names one, if install() has run. Throws c10::Error,
// here or in install(), if the name is of an entry of another operation.
void serve_defined(const std::string &operation, const std::string &name);

// "aten::gelu.out".
std::optional<c10::OperatorHandle> find_operation(const std::string &operation);
// The number of arguments at the end of a schema that are written to, which are the outputs.
size_t count_outputs(const c10::FunctionSchema &schema);

} // namespace tb::ops::vendor
