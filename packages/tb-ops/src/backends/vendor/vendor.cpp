// Finds the forms of the operators that tables name, and registers kernels for them.
#include "backends/vendor/vendor.h"

#include <algorithm>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "backends/vendor/kernel.h"
#include "backends/vendor/table.h"
#include "dispatch/replacing_kernels.h"
#include "runtime/format.h"

namespace tb::ops::vendor {
namespace {

using c10::OperatorHandle;

bool is_written(const c10::Argument &argument) { return argument.alias_info() && argument.alias_info()->isWrite(); }

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

void enter(const OperatorHandle &op, Form form, const OperatorHandle &functional, size_t outputs,
           const std::vector<Entry *> &entries) {
  static auto &libraries = *new std::map<std::string, std::unique_ptr<torch::Library>>;
  const std::string &name = op.operator_name().name, space = name.substr(0, name.find("::"));
  std::unique_ptr<torch::Library> &library = libraries[space];
  if (!library)
    library = std::make_unique<torch::Library>(torch::Library::IMPL, space, c10::DispatchKey::PrivateUse1,
                                               "vendor (tb-ops)", 0); // as backends.cpp names places
  torch::CppFunction kernel = vendor_kernel(op, form, functional, outputs, entries);
  const ReplacingKernels replacing;
  library->impl(name_of(op).c_str(), std::move(kernel));
}

// The forms of an operation that its entries serve.
struct Forms {
  std::optional<OperatorHandle> out, functional, in_place;
  size_t outputs = 0;
};

constexpr char unknown[] = "there is no such operator";

// Returns why the operation cannot be served; empty if it can.
std::string find_forms(const std::string &operation, Forms &forms) {
  forms.out = find_operation(operation);
  if (!forms.out) return unknown;
  const std::string &name = forms.out->operator_name().name;
  forms.outputs = count_outputs(forms.out->schema());
  const c10::ArrayRef<c10::Argument> arguments = forms.out->schema().arguments();
  if (forms.outputs == 0 || forms.out->schema().returns().size() != forms.outputs)
    return "it has no outputs as arguments: name the overload with out=";
  const c10::ArrayRef<c10::Argument> inputs = arguments.slice(0, arguments.size() - forms.outputs);
  const Overloads all = overloads();
  forms.functional = find_form(all, name, inputs, false);
  if (!forms.functional) return "it has no form that returns new tensors";
  if (forms.functional->hasKernelForDispatchKey(c10::DispatchKey::CompositeImplicitAutograd))
    return "PyTorch composes it of other operators: serve those";
  if (forms.outputs == 1) forms.in_place = find_form(all, name + "_", inputs, true);
  return "";
}

void enter(const Forms &forms, const std::vector<Entry *> &entries) {
  enter(*forms.out, Form::out, *forms.functional, forms.outputs, entries);
  enter(*forms.functional, Form::functional, *forms.functional, forms.outputs, entries);
  if (forms.in_place) enter(*forms.in_place, Form::in_place, *forms.functional, forms.outputs, entries);
}

std::mutex entering;
bool installed = false;
std::map<std::string, std::string> declared; // operations, and the entries that their declarations name

// Throws c10::Error if the name is an entry's of other operations only. Tables that lack the name may be of other drivers.
void check_declared(const std::string &operation, const std::string &name) {
  const Entry *other = nullptr;
  for (const Entry *entry : entries())
    if (entry->kernel.name == name) {
      if (entry->kernel.operation == operation) return;
      other = entry;
    }
  TORCH_CHECK(!other, "The declaration of ", operation, " names the entry ", name, " of ", other->source,
              ", which serves ", other->kernel.operation, ". Name an entry whose operation is ", operation);
}

} // namespace

std::optional<OperatorHandle> find_operation(const std::string &operation) {
  const size_t dot = operation.find('.');
  return c10::Dispatcher::singleton().findSchema(
      {operation.substr(0, dot), dot == std::string::npos ? "" : operation.substr(dot + 1)});
}

size_t count_outputs(const c10::FunctionSchema &schema) {
  const auto &arguments = schema.arguments();
  return std::find_if_not(arguments.rbegin(), arguments.rend(), &is_written) - arguments.rbegin();
}

bool serves(const Runtime &) { return true; }

void install(torch::Library &, torch::Library &) {
  const std::lock_guard guard(entering);
  for (const auto &[operation, name] : declared) check_declared(operation, name);
  std::map<std::string, std::vector<Entry *>> operations;
  for (Entry *entry : entries()) operations[entry->kernel.operation].push_back(entry);
  for (const auto &[operation, of_operation] : operations) {
    Forms forms;
    const std::string problem = find_forms(operation, forms);
    if (problem.empty()) enter(forms, of_operation);
    for (Entry *entry : of_operation) {
      entry->problem = problem;
      // The library of another operator may be imported later.
      if (!problem.empty() && (problem != unknown || operation.starts_with("aten::")))
        TORCH_WARN("The kernel ", entry->kernel.name, " of ", entry->source, " serves nothing: ", operation, ": ",
                   problem);
    }
  }
  installed = true;
}

void serve(std::unique_ptr<Entry> entry) {
  const std::lock_guard guard(entering);
  const std::string operation = entry->kernel.operation;
  Forms forms;
  const std::string problem = find_forms(operation, forms);
  TORCH_CHECK(problem.empty(), "The kernel ", entry->kernel.name, " of ", entry->source, " cannot serve ", operation,
              ": ", problem);
  Entry *added = entry.get();
  add_entry(std::move(entry));
  if (installed) enter(forms, {added});
}

void serve_defined(const std::string &operation, const std::string &name) {
  const std::lock_guard guard(entering);
  if (installed) check_declared(operation, name);
  declared[operation] = name;
  if (!installed) return;
  std::vector<Entry *> waiting;
  for (Entry *entry : entries())
    if (entry->problem == unknown && entry->kernel.operation == operation) waiting.push_back(entry);
  if (waiting.empty()) return;
  Forms forms;
  const std::string problem = find_forms(operation, forms);
  if (problem.empty()) enter(forms, waiting);
  for (Entry *entry : waiting) entry->problem = problem;
}

} // namespace tb::ops::vendor
