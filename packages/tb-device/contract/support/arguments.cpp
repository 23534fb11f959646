// Makes the arguments of calls from the slot list.
#include "contract/support/arguments.h"

#include <cstring>
#include <tuple>
#include <utility>

namespace tb::contract {
namespace {

// "(device, size, flags, out)" as names.
std::vector<std::string> split_names(std::string_view text) {
  std::vector<std::string> names(1);
  for (const char c : text) {
    if (c == ',') names.emplace_back();
    if (c != ',' && c != ' ' && c != '(' && c != ')') names.back() += c;
  }
  return names;
}

// Info structs say how much may be written.
template <class T> constexpr uint32_t info_size() {
  if constexpr (std::is_same_v<T, tb_driver_info> || std::is_same_v<T, tb_device_info> ||
                std::is_same_v<T, tb_pointer_info> || std::is_same_v<T, tb_function_info> ||
                std::is_same_v<T, tb_ipc_handle>)
    return sizeof(T);
  else
    return 0;
}

template <auto Member, class... A> std::optional<tb_status> call_made(Arguments &arguments, const SlotCall &slot) {
  const std::tuple<A...> values = [&]<size_t... I>(std::index_sequence<I...>) {
    return std::tuple<A...>{arguments.make<A>(slot.parameters[I], I)...};
  }(std::index_sequence_for<A...>());
  if (!arguments.may_call()) return std::nullopt;
  const Kit &kit = arguments.kit();
  return std::apply([&](A... each) { return (kit.api().*Member)(kit.self(), each...); }, values);
}

template <auto Member, class... A> auto caller(tb_status (*)(tb_driver *, A...)) { return call_made<Member, A...>; }

std::vector<SlotCall> slots_of(const tb_driver_api &api) {
  std::vector<SlotCall> slots;
#define TB_SLOT(group, need, name, parameters, arguments)                                                              \
  if (api.name) slots.push_back({#name, split_names(#arguments), caller<&tb_driver_api::name>(api.name)});
#define TB_SLOT0(group, need, name)
#include "tb/driver_slots.inc"
#undef TB_SLOT
#undef TB_SLOT0
  return slots;
}

} // namespace

Arguments::Arguments(Kit &kit)
    : kit_(kit), slots_(slots_of(kit.api())), first_(kit, 4096), second_(kit, 4096), host_(4096) {
  if (!kit.has_async()) return;
  stream_.emplace(kit);
  event_.emplace(kit, kit.offers(TB_GROUP_TIMING) ? uint64_t(TB_EVENT_TIMING) : 0);
  CHECK_OK(kit.api().event_record(kit.self(), *event_, *stream_));
  stream_->synchronize();
}

std::optional<tb_status> Arguments::call(const SlotCall &slot, Spoil spoil, size_t place, int32_t bad_device) {
  spoil_ = spoil;
  place_ = place;
  bad_device_ = bad_device;
  struct_size_ = 0;
  available_ = true;
  out_.fill(guard_byte);
  kit_.take_error();
  return slot.call(*this, slot);
}

bool Arguments::out_untouched() const {
  std::array<uint8_t, out_bytes> want;
  want.fill(guard_byte);
  if (struct_size_) memcpy(want.data(), &struct_size_, sizeof struct_size_);
  return out_ == want;
}

void *Arguments::out(bool null, uint32_t struct_size) {
  struct_size_ = struct_size;
  if (struct_size) memcpy(out_.data(), &struct_size, sizeof struct_size);
  return null ? nullptr : out_.data();
}

template <class T> T Arguments::make(const std::string &name, size_t place) {
  const bool spoilt = place == place_;
  if constexpr (std::is_same_v<T, int32_t>) {
    if (spoilt && spoil_ == Spoil::device) return bad_device_;
    return name == "kind" ? TB_COPY_DEVICE_TO_DEVICE : 0;
  } else if constexpr (std::is_same_v<T, uint32_t>) {
    if (name == "size") return out_bytes;
    return name == "pattern_size" || name == "version" || name == "device_count" ? 1 : 0;
  } else if constexpr (std::is_same_v<T, uint64_t>) {
    if (spoilt && spoil_ == Spoil::flags) return uint64_t(1) << 63;
    return name == "size" || name == "count" ? 64 : 0;
  } else if constexpr (std::is_same_v<T, const char *>) {
    return "tb.no_such_name";
  } else if constexpr (std::is_same_v<T, tb_stream *>) {
    return stream_ ? static_cast<tb_stream *>(*stream_) : nullptr;
  } else if constexpr (std::is_same_v<T, tb_event *>) {
    return event_ ? static_cast<tb_event *>(*event_) : nullptr;
  } else if constexpr (std::is_same_v<T, const void *>) {
    return second_.data();
  } else {
    using Pointed = std::remove_pointer_t<T>;
    if (is_out_name(name)) {
      if constexpr (!std::is_const_v<Pointed> && !std::is_function_v<Pointed>)
        return static_cast<T>(out(spoilt && spoil_ == Spoil::out, info_size<Pointed>()));
    }
    if constexpr (std::is_same_v<T, void *>) return name == "ptr" ? static_cast<void *>(host_.data()) : first_.data();
    available_ = false;
    return nullptr;
  }
}

} // namespace tb::contract
