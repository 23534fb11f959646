// pickle.h -- writes what Python's pickle.load reads (protocol 4): a million records take a fraction of a second.
#pragma once

#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>
#include <unordered_map>

namespace tb::allocator {

class Pickle {
public:
  Pickle() { out_.append("\x80\x04", 2); }

  void begin_dict() { out_.append("}("); }
  void end_dict() { out_.push_back('u'); }
  void begin_list() { out_.append("]("); }
  void end_list() { out_.push_back('e'); }
  void empty_list() { out_.push_back(']'); }

  void boolean(bool value) { out_.push_back(value ? '\x88' : '\x89'); }
  void integer(uint64_t value) {
    if (value < 256) {
      out_.push_back('K');
      out_.push_back(static_cast<char>(value));
      return;
    }
    char bytes[11] = {'\x8a', 8}; // little endian, with a sign
    for (int at = 0; at < 8; ++at) bytes[2 + at] = static_cast<char>(value >> (8 * at));
    size_t length = 8;
    if (value >> 63) bytes[1] = static_cast<char>(length = 9);
    out_.append(bytes, 2 + length);
  }
  // Each text is written once; later uses refer to it.
  void text(std::string_view value) {
    auto known = memo_.find(value);
    if (known != memo_.end()) {
      out_.push_back('h');
      out_.push_back(static_cast<char>(known->second));
      return;
    }
    out_.push_back('\x8c');
    out_.push_back(static_cast<char>(value.size())); // below 256
    out_.append(value);
    if (memo_.size() < 256) {
      memo_.emplace(value, static_cast<uint8_t>(memo_.size()));
      out_.push_back('\x94');
    }
  }
  void key(std::string_view name, uint64_t value) {
    text(name);
    integer(value);
  }
  void key(std::string_view name, std::string_view value) {
    text(name);
    text(value);
  }
  void key(std::string_view name, const char *value) { key(name, std::string_view(value)); }
  void flag(std::string_view name, bool value) {
    text(name);
    boolean(value);
  }
  void pair(uint64_t first, uint64_t second) {
    integer(first);
    integer(second);
    out_.push_back('\x86');
  }

  void reserve(size_t bytes) { out_.reserve(bytes); }
  std::string finish() {
    out_.push_back('.');
    return std::move(out_);
  }

private:
  std::string out_;
  std::unordered_map<std::string_view, uint8_t> memo_; // keys are literals, which outlive the writer
};

} // namespace tb::allocator
