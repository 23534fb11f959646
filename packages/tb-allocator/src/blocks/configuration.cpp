// configuration.cpp -- parses TB_ALLOC_CONF.
#include "blocks/configuration.h"

#include <charconv>
#include <string_view>

namespace tb::allocator {
namespace {

std::string_view trim(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

template <class Number> bool read(std::string_view text, Number least, Number most, Number *out) {
  Number value{};
  auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc{} || end != text.data() + text.size() || !(value >= least && value <= most)) return false;
  *out = value;
  return true;
}

// Each takes its key's value and returns how a good one reads, or "" for a good one.
struct Key {
  std::string_view name;
  std::string (*set)(std::string_view value, Configuration *out);
};

// Keys that control the splitting of segments, which pages make unnecessary.
std::string ignore(std::string_view, Configuration *) { return ""; }

constexpr Key keys[] = {
    {"expandable_segments",
     [](std::string_view value, Configuration *out) -> std::string {
       if (value != "True" && value != "False") return "use True or False";
       out->expandable_segments = value == "True";
       return "";
     }},
    {"per_process_memory_fraction",
     [](std::string_view value, Configuration *out) -> std::string {
       return read(value, 0.0, 1.0, &out->per_process_memory_fraction) ? "" : "use a number from 0 to 1";
     }},
    {"pages_slack",
     [](std::string_view value, Configuration *out) -> std::string {
       return read(value, 0.0, 10.0, &out->slack) ? "" : "use a number from 0 to 10, such as 0.02 for 2 %";
     }},
    {"pinned_slack",
     [](std::string_view value, Configuration *out) -> std::string {
       return read(value, 0.0, 10.0, &out->pinned_slack) ? "" : "use a number from 0 to 10, such as 0.2 for 20 %";
     }},
    {"history",
     [](std::string_view value, Configuration *out) -> std::string {
       return read(value, uint64_t{0}, uint64_t{1} << 28, &out->history) ? "" : "use a number of events, 0 for none";
     }},
    {"garbage_collection_threshold", ignore},
    {"max_non_split_rounding_mb", ignore},
    {"max_split_size_mb", ignore},
    {"roundup_power2_divisions", ignore},
};

// Up to the next comma that is not inside brackets.
std::string_view next_item(std::string_view *rest) {
  int depth = 0;
  size_t at = 0;
  for (; at < rest->size() && (depth > 0 || (*rest)[at] != ','); ++at) {
    if ((*rest)[at] == '[') ++depth;
    if ((*rest)[at] == ']') --depth;
  }
  std::string_view item = rest->substr(0, at);
  *rest = at < rest->size() ? rest->substr(at + 1) : "";
  return trim(item);
}

} // namespace

std::string parse_configuration(const char *text, Configuration *out) {
  std::string_view rest = text ? text : "";
  Configuration parsed;
  while (!trim(rest).empty()) {
    std::string_view item = next_item(&rest);
    size_t colon = item.find(':');
    std::string name(trim(item.substr(0, colon)));
    std::string value(colon == std::string_view::npos ? "" : trim(item.substr(colon + 1)));
    const Key *key = nullptr;
    std::string known;
    for (const Key &one : keys) {
      if (one.name == name) key = &one;
      if (one.set != ignore) known += (known.empty() ? "" : ", ") + std::string(one.name);
    }
    if (!key) return "TB_ALLOC_CONF has the unknown key '" + name + "'. Known keys: " + known;
    if (key->set == ignore) parsed.ignored += (parsed.ignored.empty() ? "" : ", ") + name;
    if (std::string better = key->set(value, &parsed); !better.empty())
      return "TB_ALLOC_CONF gives " + name + " the value '" + value + "': " + better;
  }
  *out = parsed;
  return "";
}

} // namespace tb::allocator
