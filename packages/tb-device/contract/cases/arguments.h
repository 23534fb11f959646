// arguments.h -- calls any function of the table with valid arguments, one of them spoilt: for promises that every
// function makes (E1, E2, E7). The arguments come from the slot list: by type and by the name that it gives them.
#pragma once

#include <array>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include "kit.h"

namespace tb::contract {

enum class Spoil { device, flags, out };

// "(device, size, flags, out)" as names.
inline std::vector<std::string> split_names(std::string_view text) {
  std::vector<std::string> names(1);
  for (const char c : text) {
    if (c == ',') names.emplace_back();
    if (c != ',' && c != ' ' && c != '(' && c != ')') names.back() += c;
  }
  return names;
}

inline bool is_device_name(std::string_view name) {
  return name == "device" || name == "peer" || name == "dst_device" || name == "src_device";
}
inline bool is_out_name(std::string_view name) { return name.starts_with("out") || name == "table"; }

// What the calls use; made once for a case.
class Arguments {
public:
  explicit Arguments(Kit &kit) : kit_(kit), first_(kit, 4096), second_(kit, 4096), host_(4096) {
    if (!kit.has_async()) return;
    stream_.emplace(kit);
    event_.emplace(kit, kit.offers(TB_GROUP_TIMING) ? uint64_t(TB_EVENT_TIMING) : 0);
    CHECK_OK(kit.api().event_record(kit.self(), *event_, *stream_));
    stream_->synchronize();
  }

  // Calls `function` with the parameter `place` spoilt (a device that there is not: `bad_device`; an unknown flag; a
  // NULL out-parameter). False when some argument cannot be made here (a module, a handle from elsewhere).
  template <class... A> bool call(tb_status (*function)(tb_driver *, A...), const std::vector<std::string> &names,
                                  Spoil spoil, size_t place, int32_t bad_device, tb_status *status) {
    available_ = true;
    struct_size_ = 0;
    const std::tuple<A...> values = [&]<size_t... I>(std::index_sequence<I...>) {
      return std::tuple<A...>{make<A>(names[I], I == place, spoil, bad_device)...};
    }(std::index_sequence_for<A...>());
    if (!available_ && spoil != Spoil::device) return false;
    out_.fill(kGuard);
    if (struct_size_) memcpy(out_.data(), &struct_size_, sizeof struct_size_);
    kit_.take_error();
    *status = std::apply([&](A... arguments) { return function(kit_.self(), arguments...); }, values);
    return true;
  }

  // Some argument was not valid beside the spoilt one: another complaint than the expected one is right too.
  bool all_available() const { return available_; }

  // Not a byte of any out-parameter was written by the last call; info structs keep their struct_size.
  bool out_untouched() const {
    std::array<uint8_t, kOutBytes> want;
    want.fill(kGuard);
    if (struct_size_) memcpy(want.data(), &struct_size_, sizeof struct_size_);
    return out_ == want;
  }

private:
  static constexpr size_t kOutBytes = 1024;
  static constexpr uint8_t kGuard = 0xA5;

  template <class T> T make(const std::string &name, bool spoilt, Spoil spoil, int32_t bad_device) {
    if constexpr (std::is_same_v<T, int32_t>) {
      if (spoilt && spoil == Spoil::device) return bad_device;
      return name == "kind" ? TB_COPY_DEVICE_TO_DEVICE : 0;
    } else if constexpr (std::is_same_v<T, uint32_t>) {
      return name == "pattern_size" || name == "version" || name == "device_count" ? 1u
             : name == "size"                                                      ? uint32_t(kOutBytes)
                                                                                   : 0u;
    } else if constexpr (std::is_same_v<T, uint64_t>) {
      if (spoilt && spoil == Spoil::flags) return uint64_t(1) << 63;
      return name == "size" || name == "count" ? 64u : 0u;
    } else if constexpr (std::is_same_v<T, const char *>) {
      return "tb.no_such_name";
    } else if constexpr (std::is_same_v<T, tb_stream *>) {
      return stream_ ? static_cast<tb_stream *>(*stream_) : nullptr;
    } else if constexpr (std::is_same_v<T, tb_event *>) {
      return event_ ? static_cast<tb_event *>(*event_) : nullptr;
    } else if constexpr (std::is_same_v<T, const void *>) {
      return second_.data();
    } else if constexpr (std::is_pointer_v<T>) {
      if (is_out_name(name)) return make_out<T>(spoilt && spoil == Spoil::out);
      if constexpr (std::is_same_v<T, void *>) return name == "ptr" ? static_cast<void *>(host_.data()) : first_.data();
      available_ = false;
      return nullptr;
    } else {
      available_ = false;
      return T{};
    }
  }

  template <class T> T make_out(bool null) {
    // Info structs say how much may be written.
    if constexpr (std::is_same_v<T, tb_driver_info *> || std::is_same_v<T, tb_device_info *> ||
                  std::is_same_v<T, tb_pointer_info *> || std::is_same_v<T, tb_function_info *> ||
                  std::is_same_v<T, tb_ipc_handle *>)
      struct_size_ = sizeof(std::remove_pointer_t<T>);
    return null ? nullptr : reinterpret_cast<T>(out_.data());
  }

  Kit &kit_;
  Block first_, second_;
  std::vector<uint8_t> host_;
  std::optional<Stream> stream_;
  std::optional<Event> event_;
  alignas(64) std::array<uint8_t, kOutBytes> out_{};
  uint32_t struct_size_ = 0;
  bool available_ = true;
};

// Calls visit(name, group bit, function, names of its parameters) for each function that the driver has.
template <class Visit> void for_each_slot(const tb_driver_api &api, Visit visit) {
#define TB_SLOT(group, need, name, parameters, arguments)                                                              \
  if (api.name) visit(#name, static_cast<uint64_t>(TB_GROUP_##group), api.name, split_names(#arguments));
#define TB_SLOT0(group, need, name)
#include "tb/driver_slots.inc"
#undef TB_SLOT
#undef TB_SLOT0
}

} // namespace tb::contract
