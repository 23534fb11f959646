// The spec of layers taken apart, and the options of one layer read.
#include "layers/framework/options.h"

#include <cerrno>
#include <cstdlib>

namespace tb::layers {
namespace {

std::vector<std::string> parts(const std::string &text) {
  std::vector<std::string> out(1);
  for (char c : text)
    if (c == ',')
      out.emplace_back();
    else
      out.back() += c;
  return out;
}

std::string trimmed(const std::string &text) {
  const size_t first = text.find_first_not_of(" \t\n"), last = text.find_last_not_of(" \t\n");
  return first == std::string::npos ? "" : text.substr(first, last - first + 1);
}

void add_option(LayerSpec &layer, const std::string &text) {
  const size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0)
    throw BadSpec("'" + text + "' is no option of the layer " + layer.name + ". Write " + layer.name + ":key=value");
  if (!layer.options.emplace(text.substr(0, equals), text.substr(equals + 1)).second)
    throw BadSpec("the option '" + text.substr(0, equals) + "' of the layer " + layer.name + " is given twice");
}

} // namespace

std::vector<LayerSpec> parse_spec(const std::string &spec) {
  std::vector<LayerSpec> out;
  for (const std::string &part : parts(spec)) {
    const std::string token = trimmed(part);
    if (token.empty()) continue;
    const size_t colon = token.find(':'), equals = token.find('=');
    if (equals < colon) {
      if (out.empty()) throw BadSpec("'" + token + "' has no layer before it. Write it as LAYER:" + token);
      add_option(out.back(), token);
      continue;
    }
    out.push_back({token.substr(0, colon), {}});
    if (colon != std::string::npos) add_option(out.back(), token.substr(colon + 1));
  }
  return out;
}

OptionTexts parse_options(const std::string &layer, const std::string &text) {
  LayerSpec out{layer, {}};
  for (const std::string &part : parts(text))
    if (const std::string token = trimmed(part); !token.empty()) add_option(out, token);
  return out.options;
}

std::string OptionReader::text(const std::string &key, const std::string &absent) {
  known_ += (known_.empty() ? "" : ", ") + key;
  const auto found = texts_.find(key);
  if (found == texts_.end()) return absent;
  std::string value = found->second;
  texts_.erase(found);
  return value;
}

uint64_t OptionReader::number(const std::string &key, uint64_t absent) {
  const std::string value = text(key, std::to_string(absent));
  char *end = nullptr;
  errno = 0;
  const unsigned long long out = std::strtoull(value.c_str(), &end, 0);
  if (value.empty() || *end || errno || value[0] == '-') refuse(key, value, "a whole number of at least 0");
  return out;
}

double OptionReader::real(const std::string &key, double absent) {
  if (!has(key)) {
    (void)text(key, "");
    return absent;
  }
  const std::string value = text(key, "");
  char *end = nullptr;
  const double out = std::strtod(value.c_str(), &end);
  if (value.empty() || *end || !(out >= 0)) refuse(key, value, "a number of at least 0");
  return out;
}

void OptionReader::done() const {
  if (texts_.empty()) return;
  throw BadSpec("the layer " + layer_ + " has no option '" + texts_.begin()->first +
                "'. It has: " + (known_.empty() ? "none" : known_));
}

void OptionReader::refuse(const std::string &key, const std::string &value, const std::string &wanted) const {
  throw BadSpec("the option " + key + " of the layer " + layer_ + " is '" + value + "'. It wants " + wanted);
}

} // namespace tb::layers
