// Finds the forms of the operators that tables name, and registers kernels for them.
#include "backends/vendor/vendor.h"

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "backends/vendor/kernel.h"
#include "backends/vendor/table.h"
#include "runtime/format.h"

namespace tb::ops::vendor {
namespace {

using c10::OperatorHandle;

bool is_written(const c10::Argument &argument) { return argument.alias_info() && argument.alias_info()->isWrite(); }

// The number of arguments at the end of a schema that are written to, which are the outputs.
size_t count_outputs(const c10::FunctionSchema &schema) {
  const auto &arguments = schema.arguments();
  return std::find_if_not(arguments.rbegin(), arguments.rend(), &is_written) - arguments.rbegin();
}

// Whether a schema has the inputs of another one, and writes to its first argument, or to none.
bool has_inputs(const c10::FunctionSchema &schema, c10::ArrayRef<c10::Argument> inputs, bool in_place) {
  const auto &arguments = schema.arguments();
  if (arguments.size() != inputs.size()) return false;
  for (size_t i = 0; i < inputs.size(); i++)
    if (arguments[i].name() != inputs[i].name() || *arguments[i].real_type() != *inputs[i].real_type() ||
        is_written(arguments[i]) != (in_place && i == 0))
      return false;
  return true;
}

// All operators by their name without the overload.
using Overloads = std::multimap<std::string, c10::OperatorName>;
Overloads overloads() {
  Overloads out;
  for (const c10::OperatorName &name : c10::Dispatcher::singleton().getAllOpNames()) out.emplace(name.name, name);
  return out;
}

std::optional<OperatorHandle> find_form(const Overloads &all, const std::string &name,
                                        c10::ArrayRef<c10::Argument> inputs, bool in_place) {
  const auto [begin, end] = all.equal_range(name);
  for (auto each = begin; each != end; ++each) {
    std::optional<OperatorHandle> op = c10::Dispatcher::singleton().findSchema(each->second);
    if (op && has_inputs(op->schema(), inputs, in_place)) return op;
  }
  return std::nullopt;
}

class Silence : public c10::WarningHandler { // PyTorch warns that a kernel is replaced, which is the purpose here
  void process(const c10::Warning &) override {}
};

void enter(const OperatorHandle &op, Form form, const OperatorHandle &functional, size_t outputs,
           const std::vector<Entry *> &entries) {
  static auto &libraries = *new std::map<std::string, std::unique_ptr<torch::Library>>;
  const std::string &name = op.operator_name().name, space = name.substr(0, name.find("::"));
  std::unique_ptr<torch::Library> &library = libraries[space];
  if (!library)
    library = std::make_unique<torch::Library>(torch::Library::IMPL, space, c10::DispatchKey::PrivateUse1,
                                               "vendor (tb-ops)", 0); // as backends.cpp names places
  torch::CppFunction kernel = vendor_kernel(op, form, functional, outputs, entries);
  Silence silence;
  const c10::WarningUtils::WarningHandlerGuard quiet(&silence);
  library->impl(name_of(op).c_str(), std::move(kernel));
}

// Registers the entries of one operation. Returns why they serve nothing; empty if they do.
std::string enter(const Overloads &all, const std::string &operation, const std::vector<Entry *> &entries) {
  const size_t dot = operation.find('.');
  const auto op = c10::Dispatcher::singleton().findSchema(
      {operation.substr(0, dot), dot == std::string::npos ? "" : operation.substr(dot + 1)});
  if (!op) return "this PyTorch has no such operator";
  const std::string &name = op->operator_name().name;
  const size_t outputs = count_outputs(op->schema());
  const c10::ArrayRef<c10::Argument> arguments = op->schema().arguments();
  if (outputs == 0 || op->schema().returns().size() != outputs)
    return "it has no outputs as arguments: name the overload with out=";
  const c10::ArrayRef<c10::Argument> inputs = arguments.slice(0, arguments.size() - outputs);
  const std::optional<OperatorHandle> functional = find_form(all, name, inputs, false);
  if (!functional) return "it has no form that returns new tensors";
  if (functional->hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd))
    return "PyTorch composes it of other operators: serve those";
  enter(*op, Form::out, *functional, outputs, entries);
  enter(*functional, Form::functional, *functional, outputs, entries);
  if (const auto in_place = find_form(all, name + "_", inputs, true); in_place && outputs == 1)
    enter(*in_place, Form::in_place, *functional, outputs, entries);
  return "";
}

} // namespace

bool serves(const Runtime &) {
  read_tables();
  return !entries().empty();
}

void install(torch::Library &, torch::Library &) {
  const Overloads all = overloads();
  std::map<std::string, std::vector<Entry *>> operations;
  for (const std::unique_ptr<Entry> &entry : entries()) operations[entry->kernel.operation].push_back(entry.get());
  for (const auto &[operation, of_operation] : operations) {
    const std::string problem = enter(all, operation, of_operation);
    if (problem.empty()) continue;
    for (Entry *entry : of_operation) {
      entry->problem = problem;
      TORCH_WARN("The kernel ", entry->kernel.name, " of ", entry->source, " serves nothing: ", operation, ": ",
                 problem);
    }
  }
}

} // namespace tb::ops::vendor
