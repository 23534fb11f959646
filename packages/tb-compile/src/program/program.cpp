// Finds the last use of each value, and runs instructions.
#include "program/program.h"

#include <ATen/core/LegacyTypeDispatch.h>
#include <c10/core/impl/LocalDispatchKeySet.h>

#include <algorithm>
#include <unordered_set>
#include <utility>

namespace tb::compile {

Slot Program::input() { return inputs_.emplace_back(slots_++); }

Slot Program::constant(IValue value) {
  constants_.push_back(std::move(value));
  return ~static_cast<Slot>(constants_.size() - 1);
}

std::vector<Slot> Program::add(Instruction instruction, size_t results) {
  TORCH_INTERNAL_ASSERT(!finished_);
  for (size_t i = 0; i < results; i++) instruction.results.push_back(slots_++);
  return instructions_.emplace_back(std::move(instruction)).results;
}

void Program::finish(std::vector<Slot> outputs) {
  outputs_ = std::move(outputs);
  find_last_uses();
  find_written_inputs();
  finished_ = true;
}

void Program::find_last_uses() {
  std::unordered_set<Slot> used_later(outputs_.begin(), outputs_.end());
  for (auto instruction = instructions_.rbegin(); instruction != instructions_.rend(); ++instruction) {
    for (const Slot slot : instruction->results) instruction->is_dropped.push_back(!used_later.contains(slot));
    instruction->last_use.assign(instruction->operands.size(), false);
    // From the last operand on, so that the last one of several with the same value moves it.
    for (size_t i = instruction->operands.size(); i-- > 0;)
      instruction->last_use[i] = instruction->operands[i] >= 0 && used_later.insert(instruction->operands[i]).second;
  }
}

// Whether two annotations of a schema, as in "Tensor(a!) self", share a set of memory.
static bool share(const c10::AliasInfo *one, const c10::AliasInfo *other) {
  if (!one || !other) return false;
  return std::any_of(one->beforeSets().begin(), one->beforeSets().end(),
                     [&](c10::Symbol set) { return other->beforeSets().contains(set); });
}

void Program::find_written_inputs() {
  using Kind = Instruction::Kind;
  // The slots whose memory each slot's value uses, according to the schemas: several for a list.
  std::vector<std::vector<Slot>> memory(slots_);
  for (Slot slot = 0; slot < slots_; slot++) memory[slot] = {slot};
  std::unordered_set<Slot> written;
  for (const Instruction &instruction : instructions_) {
    const bool assembles = instruction.kind == Kind::list || instruction.kind == Kind::element;
    if (assembles) memory[instruction.results[0]].clear();
    for (size_t i = 0; i < instruction.operands.size(); i++) {
      const Slot operand = instruction.operands[i];
      if (operand < 0) continue;
      const std::vector<Slot> shown = memory[operand];
      if (assembles) {
        std::vector<Slot> &result = memory[instruction.results[0]];
        result.insert(result.end(), shown.begin(), shown.end());
        continue;
      }
      if (!instruction.op) continue;
      const c10::FunctionSchema &schema = instruction.op->schema();
      const c10::AliasInfo *alias = schema.arguments()[i].alias_info();
      if (!alias) continue;
      if (alias->isWrite()) written.insert(shown.begin(), shown.end());
      for (size_t k = 0; k < instruction.results.size(); k++)
        if (share(alias, schema.returns()[k].alias_info())) memory[instruction.results[k]] = shown;
    }
  }
  for (size_t i = 0; i < inputs_.size(); i++)
    if (written.contains(inputs_[i])) written_.push_back(i);
}

void Program::execute(const Instruction &instruction, std::vector<IValue> &slots, torch::jit::Stack &stack) const {
  stack.clear();
  for (size_t i = 0; i < instruction.operands.size(); i++) {
    const Slot slot = instruction.operands[i];
    if (instruction.last_use[i])
      stack.push_back(std::move(slots[slot]));
    else
      stack.push_back(read(slot, slots));
  }
  switch (instruction.kind) {
  case Instruction::Kind::call:
    instruction.op->callBoxed(stack);
    break;
  case Instruction::Kind::function:
    instruction.function(stack);
    break;
  case Instruction::Kind::list: {
    c10::impl::GenericList list(instruction.element);
    list.reserve(stack.size());
    for (IValue &value : stack) list.push_back(std::move(value));
    stack.clear();
    stack.emplace_back(std::move(list));
    break;
  }
  case Instruction::Kind::element: {
    const c10::ArrayRef<IValue> list = stack[0].toListRef();
    const int64_t size = static_cast<int64_t>(list.size()),
                  at = instruction.index < 0 ? instruction.index + size : instruction.index;
    TORCH_CHECK_INDEX(at >= 0 && at < size, "element ", instruction.index, " of a list of ", size);
    IValue value = list[at];
    stack[0] = std::move(value);
    break;
  }
  }
  for (size_t i = 0; i < instruction.results.size(); i++)
    if (!instruction.is_dropped[i]) slots[instruction.results[i]] = std::move(stack[i]);
  stack.clear();
}

std::string Program::described(const Instruction &instruction) const {
  return c10::str("in ", instruction.name, " of ", name_, instruction.source.empty() ? "" : ", made from ",
                  instruction.source);
}

std::vector<IValue> Program::run(std::vector<IValue> inputs, std::string *place) const {
  TORCH_CHECK(inputs.size() == inputs_.size(), name_, ": expected ", inputs_.size(), " inputs, but got ",
              inputs.size());
  runs_.fetch_add(1, std::memory_order_relaxed);
  std::vector<IValue> slots(slots_);
  std::vector<at::Tensor> written;
  for (const size_t i : written_) written.push_back(inputs[i].toTensor());
  for (size_t i = 0; i < inputs.size(); i++) slots[inputs_[i]] = std::move(inputs[i]);
  inputs.clear();
  {
    // Autograd and autocast were applied when the graph was made.
    const at::AutoDispatchBelowADInplaceOrView below;
    const c10::impl::ExcludeDispatchKeyGuard without_autocast(c10::autocast_dispatch_keyset);
    torch::jit::Stack stack;
    for (const Instruction &instruction : instructions_) {
      try {
        execute(instruction, slots, stack);
      } catch (c10::Error &error) {
        if (on_error_) on_error_(instruction, error);
        error.add_context(described(instruction));
        throw;
      } catch (const std::exception &) {
        if (place) *place = described(instruction);
        throw;
      }
    }
  }
  for (const at::Tensor &tensor : written)
    if (!tensor.is_inference()) tensor.unsafeGetTensorImpl()->bump_version();
  std::vector<IValue> outputs;
  outputs.reserve(outputs_.size());
  for (const Slot slot : outputs_) outputs.push_back(read(slot, slots));
  return outputs;
}

} // namespace tb::compile
