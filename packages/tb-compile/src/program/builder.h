// Builds a program of calls from Python's graphs.
#pragma once
#include <nanobind/nanobind.h>

#include <memory>
#include <string>
#include <vector>

#include "program/program.h"

namespace tb::compile {

// A value of the program that is being built, for Python.
struct Value {
  Slot slot;
  bool is_number = false; // then an operator that takes a tensor gets a 0-dimensional one
};

class Builder {
public:
  explicit Builder(std::string name) : program_(std::make_unique<Program>(std::move(name))) {}

  Value input(bool is_number) { return {program().input(), is_number}; }
  // Adds a call of an operator such as "aten::add.Tensor"; arguments may be Values, also inside lists. KeyError: there
  // is no such operator. TypeError: it does not take these arguments. NotImplementedError: programs cannot hold a
  // value.
  std::vector<Value> call(const std::string &name, nanobind::list arguments, nanobind::dict keywords,
                          const std::string &source);
  Value element(Value list, int64_t index);
  // The outputs are Values, constants or None. The builder cannot be used afterwards.
  std::unique_ptr<Program> finish(nanobind::list outputs);

private:
  Slot operand(nanobind::handle value, const c10::TypePtr &type, std::optional<int32_t> repeat);
  Slot as_tensor(Slot number);
  Slot list(nanobind::handle value, const c10::TypePtr &element);
  Program &program();

  std::unique_ptr<Program> program_;
};

} // namespace tb::compile
