// A straight-line graph of operator calls, which runs on the calling thread's current streams. Front ends build it
// once; every run dispatches the same calls without Python and without autograd.
#pragma once
#include <ATen/core/dispatch/Dispatcher.h>
#include <ATen/core/ivalue.h>
#include <ATen/core/jit_type.h>
#include <ATen/core/stack.h>

#include <atomic>
#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

namespace tb::compile {

using c10::IValue;

// Where a run stores a value: 0 and up are inputs and results of instructions, ~0 and down are constants of the
// program.
using Slot = int32_t;

struct Instruction {
  enum class Kind : uint8_t {
    call,     // an operator of the dispatcher
    function, // an operation that only TorchScript has, such as arithmetic of sizes
    list,     // a list of the operands
    element,  // element `index` of a list
  };
  Kind kind = Kind::call;
  std::optional<c10::OperatorHandle> op;
  std::function<void(torch::jit::Stack &)> function;
  c10::TypePtr element; // the type of a list's elements
  int64_t index = 0;
  std::vector<Slot> operands, results;
  std::vector<bool> last_use;   // for each operand, whether its value may be moved
  std::vector<bool> is_dropped; // for each result, whether nothing reads it
  std::string name;             // "aten::add.Tensor", for messages
  std::string source;           // the user's line, for messages
  int64_t debug_handle = -1;    // from TorchScript's backend interface
};

class Program {
public:
  explicit Program(std::string name) : name_(std::move(name)) {}
  Program(const Program &) = delete;
  Program &operator=(const Program &) = delete;

  // ---- to build it -------------------------------------------------------------------------------------------------

  Slot input();
  Slot constant(IValue value);
  // Appends the instruction and returns the slots of its results. Must not be called after finish().
  std::vector<Slot> add(Instruction instruction, size_t results);
  // Called with an instruction's error. It may throw another error; if it returns, the error is thrown on with the
  // instruction and the user's line in its text.
  using OnError = std::function<void(const Instruction &, c10::Error &)>;
  void set_on_error(OnError on_error) { on_error_ = std::move(on_error); }
  std::vector<Instruction> &instructions() { return instructions_; }
  void finish(std::vector<Slot> outputs);

  // ---- to run it, after finish(); thread-safe -----------------------------------------------------------------------

  // Throws an operator's error, or that of the error handler. The text of an exception of Python cannot be extended:
  // `place` then gets the instruction and the user's line.
  std::vector<IValue> run(std::vector<IValue> inputs, std::string *place = nullptr) const;

  const std::string &name() const { return name_; }
  const std::vector<Instruction> &instructions() const { return instructions_; }
  // The numbers of the inputs that an instruction writes to, also through a view.
  const std::vector<size_t> &written_inputs() const { return written_; }
  int64_t runs() const { return runs_.load(std::memory_order_relaxed); }

private:
  std::string described(const Instruction &instruction) const;
  void find_last_uses();
  void find_written_inputs();
  void execute(const Instruction &instruction, std::vector<IValue> &slots, torch::jit::Stack &stack) const;
  const IValue &read(Slot slot, const std::vector<IValue> &slots) const {
    return slot < 0 ? constants_[~slot] : slots[slot];
  }

  const std::string name_;
  std::vector<IValue> constants_;
  std::vector<Instruction> instructions_;
  std::vector<Slot> inputs_, outputs_;
  std::vector<size_t> written_;
  Slot slots_ = 0;
  bool finished_ = false;
  OnError on_error_;
  mutable std::atomic<int64_t> runs_{0};
};

} // namespace tb::compile
