// configuration.cpp -- parses TB_ALLOC_CONF.
#include "configuration.h"

#include <string_view>

namespace tb {
namespace {

std::string_view trim(std::string_view text) {
  while (!text.empty() && text.front() == ' ') text.remove_prefix(1);
  while (!text.empty() && text.back() == ' ') text.remove_suffix(1);
  return text;
}

} // namespace

std::string parse_configuration(const char *text, Configuration *out) {
  std::string_view rest = text ? text : "";
  Configuration parsed;
  while (!trim(rest).empty()) {
    size_t comma = rest.find(',');
    std::string_view item = trim(rest.substr(0, comma));
    rest = comma == std::string_view::npos ? "" : rest.substr(comma + 1);
    size_t colon = item.find(':');
    std::string_view key = trim(item.substr(0, colon));
    std::string_view value = colon == std::string_view::npos ? "" : trim(item.substr(colon + 1));
    if (key != "expandable_segments")
      return "TB_ALLOC_CONF has the unknown key '" + std::string(key) + "'. Known keys: expandable_segments:True|False";
    if (value != "True" && value != "False")
      return "TB_ALLOC_CONF gives " + std::string(key) + " the value '" + std::string(value) + "': use True or False";
    parsed.expandable_segments = value == "True";
  }
  *out = parsed;
  return "";
}

} // namespace tb
