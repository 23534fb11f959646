// Builds a program out of calls as Python's graphs hold them.
#pragma once
#include <nanobind/nanobind.h>

#include <memory>
#include <string>
#include <vector>

#include "program/program.h"

namespace tb {

// A value of the program that is being built, as Python holds it.
struct Value {
  Slot slot;
  bool is_number = false; // known when the program is built: an operator that takes a tensor gets it as one
};

class Builder {
public:
  explicit Builder(std::string name) : program_(std::make_unique<Program>(std::move(name))) {}

  Value input(bool is_number) { return {program().input(), is_number}; }
  // One call of "aten::add.Tensor"; arguments may hold Values, also inside lists. LookupError: there is no such
  // operator. TypeError: arguments that it does not take. NotImplementedError: a value that programs cannot hold.
  std::vector<Value> call(const std::string &name, nanobind::list arguments, nanobind::dict keywords,
                          const std::string &source);
  Value element(Value list, int64_t index);
  // The outputs are Values, constants or None. The builder is of no use afterwards.
  std::unique_ptr<Program> finish(nanobind::list outputs);

private:
  Slot operand(nanobind::handle value, const c10::TypePtr &type, std::optional<int32_t> repeat);
  Slot as_tensor(Slot number);
  Slot list(nanobind::handle value, const c10::TypePtr &element);
  Program &program();

  std::unique_ptr<Program> program_;
};

} // namespace tb
