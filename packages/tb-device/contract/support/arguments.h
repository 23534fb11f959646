// Calls any function of the table with valid arguments, one of them spoilt: for promises that every
// function makes (E1, E2, E7). The arguments come from the slot list: by type and by the name that it gives them.
#pragma once

#include <array>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "contract/kit.h"

namespace tb::contract {

enum class Spoil { device, flags, out };

inline bool is_device_name(std::string_view name) {
  return name == "device" || name == "peer" || name == "dst_device" || name == "src_device";
}
inline bool is_out_name(std::string_view name) { return name.starts_with("out") || name == "table"; }

class Arguments;

// A function that the driver has, and the names of its parameters after self.
struct SlotCall {
  std::string name;
  std::vector<std::string> parameters;
  std::optional<tb_status> (*call)(Arguments &arguments, const SlotCall &slot);
};

// What the calls use; made once for a case.
class Arguments {
public:
  explicit Arguments(Kit &kit);

  // The driver's functions in the order of the table, but for close.
  const std::vector<SlotCall> &slots() const { return slots_; }

  // Calls the function with the parameter `place` spoilt (a device that there is not: `bad_device`; an unknown flag; a
  // NULL out-parameter). Nothing when some other argument cannot be made here (a module, a handle from elsewhere) and
  // might be complained about first.
  std::optional<tb_status> call(const SlotCall &slot, Spoil spoil, size_t place, int32_t bad_device = 0);

  // Of the last call: some argument was not valid beside the spoilt one, so another complaint is right too.
  bool all_available() const { return available_; }
  // Of the last call: not a byte of any out-parameter was written.
  bool out_untouched() const;

  // For the calls themselves.
  Kit &kit() const { return kit_; }
  template <class T> T make(const std::string &name, size_t place);
  bool may_call() const { return available_ || spoil_ == Spoil::device; }

private:
  static constexpr size_t out_bytes = 1024;
  static constexpr uint8_t guard_byte = 0xA5;

  void *out(bool null, uint32_t struct_size);

  Kit &kit_;
  std::vector<SlotCall> slots_;
  Block first_, second_;
  std::vector<uint8_t> host_;
  std::optional<Stream> stream_;
  std::optional<Event> event_;
  alignas(64) std::array<uint8_t, out_bytes> out_{};
  uint32_t struct_size_ = 0;
  bool available_ = true;
  Spoil spoil_ = Spoil::device;
  size_t place_ = 0;
  int32_t bad_device_ = 0;
};

} // namespace tb::contract
