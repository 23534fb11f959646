// The spec of layers taken apart, and the options of one layer read.
#pragma once

#include <cstdint>
#include <map>
#include <stdexcept>
#include <string>
#include <vector>

namespace tb::layers {

// What a user wrote is wrong: the text says what and what would be right.
struct BadSpec : std::runtime_error {
  using std::runtime_error::runtime_error;
};

using OptionTexts = std::map<std::string, std::string>;

struct LayerSpec {
  std::string name;
  OptionTexts options;
};

// "validate,fault:nth=7,status=8": outermost first. A token whose first sign of '=' and ':' is '=' belongs to the layer
// before it. Throws BadSpec.
std::vector<LayerSpec> parse_spec(const std::string &spec);
// "nth=7,status=8" alone.
OptionTexts parse_options(const std::string &layer, const std::string &text);

// The options of one layer, each read by name. done() throws BadSpec for options that were not read.
class OptionReader {
public:
  OptionReader(std::string layer, OptionTexts texts) : layer_(std::move(layer)), texts_(std::move(texts)) {}
  bool has(const std::string &key) const { return texts_.contains(key); }
  std::string text(const std::string &key, const std::string &absent);
  uint64_t number(const std::string &key, uint64_t absent);
  double real(const std::string &key, double absent);
  void done() const;
  [[noreturn]] void refuse(const std::string &key, const std::string &value, const std::string &wanted) const;

private:
  std::string layer_, known_;
  OptionTexts texts_;
};

} // namespace tb::layers
