// One call as text: its arguments, and what it gave. Written by the layer trace, compared by the replay
// driver.
#pragma once

#include <algorithm>
#include <type_traits>

#include "layers/framework/objects.h"
#include "layers/trace/names.h"

namespace tb::layers {

// Facts that never change are asked at any time: not part of what a replay compares.
constexpr bool is_fact(Slot slot) {
  return slot == Slot::get_info || slot == Slot::device_count || slot == Slot::device_get_info ||
         slot == Slot::get_extension || slot == Slot::close;
}

template <class T> void append_number(std::string &out, T number) {
  if constexpr (std::is_signed_v<T>)
    append_signed(out, number);
  else
    append_unsigned(out, number);
}

template <Slot S, class... A> uint64_t count_argument(A... arguments) {
  if constexpr (place_of(S, "device_count") >= 0)
    return argument_at<place_of(S, "device_count")>(arguments...);
  else
    return 0;
}

template <Slot S, int Place, class T, class... A>
void append_argument(std::string &out, Names &names, T argument, A... all) {
  constexpr std::string_view name = argument_of(S, Place);
  if constexpr (name.starts_with("out") || name == "table" || name == "user") {
    return; // results; and pointers that mean something to the program alone
  } else {
    begin_member(out, name);
    if constexpr (std::is_integral_v<T>)
      append_number(out, argument);
    else if constexpr (std::is_same_v<T, const char *>)
      out += quoted(argument);
    else if constexpr (std::is_same_v<T, const tb_closure *>)
      out += quoted(argument ? argument->name : nullptr);
    else if constexpr (std::is_same_v<T, const tb_ipc_handle *>)
      out += argument ? joined({"\"", hexadecimal(argument->bytes, sizeof argument->bytes), "\""}) : "null";
    else if constexpr (std::is_same_v<T, const int32_t *>) {
      out += '[';
      for (uint64_t place = 0; argument && place < count_argument<S>(all...); ++place)
        out += joined({place ? "," : "", std::to_string(argument[place])});
      out += ']';
    } else if constexpr (std::is_same_v<T, const tb_copy_2d *>) {
      if (!argument)
        out += "null";
      else
        out += joined(
            {"{\"kind\":", std::to_string(argument->kind), ",\"dst\":", names.text_of_memory(argument->dst),
             ",\"src\":", names.text_of_memory(argument->src), ",\"dst_pitch\":", std::to_string(argument->dst_pitch),
             ",\"src_pitch\":", std::to_string(argument->src_pitch), ",\"width\":", std::to_string(argument->width),
             ",\"height\":", std::to_string(argument->height), "}"});
    } else if constexpr (std::is_same_v<T, const tb_launch *>) {
      if (!argument)
        out += "null";
      else
        out += joined({"{\"grid\":[", std::to_string(argument->grid[0]), ",", std::to_string(argument->grid[1]), ",",
                       std::to_string(argument->grid[2]), "],\"block\":[", std::to_string(argument->block[0]), ",",
                       std::to_string(argument->block[1]), ",", std::to_string(argument->block[2]),
                       "],\"shared_size\":", std::to_string(argument->shared_size),
                       ",\"arg_count\":", std::to_string(argument->arg_count), "}"});
    } else if constexpr (std::is_function_v<std::remove_pointer_t<T>>)
      out += argument ? "\"function\"" : "null";
    else if constexpr (std::is_same_v<std::remove_const_t<std::remove_pointer_t<T>>, void> && name != "storage")
      names.append_memory(out, argument);
    else
      names.append_handle(out, argument);
  }
}

template <Slot S, class... A> std::string arguments_text(Names &names, A... arguments) {
  std::string out = "{";
  [&]<int... Place>(std::integer_sequence<int, Place...>) {
    (append_argument<S, Place>(out, names, arguments, arguments...), ...);
  }(std::make_integer_sequence<int, static_cast<int>(sizeof...(A))>{});
  return out + '}';
}

// Records in `names` what a successful call made or took back. Called after it.
template <Slot S, class... A> void note_objects(Names &names, A... arguments) {
  constexpr Kind made = made_by(S);
  if constexpr (made == Kind::block || made == Kind::host_block || made == Kind::reservation ||
                made == Kind::imported_block) {
    const void *base = made_object<S>(arguments...);
    (void)names.made(base);
    names.made_memory(base, std::max<uint64_t>(size_argument<S>(arguments...), 1));
  } else if constexpr (place_of(S, "out") >= 0 && made != Kind::none) {
    (void)names.made(made_object<S>(arguments...));
  } else if constexpr (S == Slot::stream_default || S == Slot::module_function) {
    (void)names.number(*argument_at<place_of(S, "out")>(arguments...)); // the same each time
  } else if constexpr (S == Slot::module_global) {
    (void)names.made(*argument_at<place_of(S, "out")>(arguments...));
    names.made_memory(*argument_at<place_of(S, "out")>(arguments...),
                      *argument_at<place_of(S, "out_size")>(arguments...));
  }
}

template <Slot S> constexpr bool ends_memory() {
  constexpr Kind taken = taken_by(S);
  return taken == Kind::block || taken == Kind::host_block || taken == Kind::reservation ||
         taken == Kind::imported_block;
}

// The number of the object that a call is about to take back; 0 for other calls.
template <Slot S, class... A> uint64_t number_taken(const Names &names, A... arguments) {
  if constexpr (taken_by(S) == Kind::none || taken_by(S) == Kind::mapping)
    return 0;
  else
    return names.find(taken_object<S>(arguments...));
}
template <Slot S, class... A> void note_taken(Names &names, uint64_t number, tb_status status, A... arguments) {
  if constexpr (taken_by(S) != Kind::none && taken_by(S) != Kind::mapping)
    if (!tb_is_refusal(status)) names.ended(taken_object<S>(arguments...), number);
}

template <Slot S, int Place, class T> void append_result(std::string &out, Names &names, T argument) {
  constexpr std::string_view name = argument_of(S, Place);
  if constexpr (name.starts_with("out")) {
    using Target = std::remove_pointer_t<T>;
    if (!argument) return;
    begin_member(out, name);
    if constexpr (std::is_pointer_v<Target>)
      names.append_handle(out, *argument);
    else if constexpr (std::is_integral_v<Target>)
      append_number(out, *argument);
    else if constexpr (std::is_same_v<Target, tb_pointer_info>)
      out += joined({"{\"kind\":", std::to_string(argument->kind), ",\"device\":", std::to_string(argument->device),
                     ",\"base\":", names.text_of_handle(argument->base), ",\"size\":", std::to_string(argument->size),
                     "}"});
    else
      out += joined({"\"", hexadecimal(argument, std::min<uint64_t>(argument->struct_size, sizeof *argument)), "\""});
  }
}

template <Slot S, class... A> std::string results_text(Names &names, A... arguments) {
  std::string out = "{";
  [&]<int... Place>(std::integer_sequence<int, Place...>) {
    (append_result<S, Place>(out, names, arguments), ...);
  }(std::make_integer_sequence<int, static_cast<int>(sizeof...(A))>{});
  return out + '}';
}

} // namespace tb::layers
