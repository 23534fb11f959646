// Handles and pointers as small numbers; the little JSON that the format needs.
#include "layers/trace/names.h"

#include "layers/framework/options.h"

namespace tb::layers {

uint64_t Names::made(const void *handle) {
  std::lock_guard lock(mutex_);
  const uint64_t number = next_++;
  numbers_[handle] = number;
  objects_[number] = handle;
  return number;
}

uint64_t Names::number(const void *handle) {
  {
    std::lock_guard lock(mutex_);
    if (const auto found = numbers_.find(handle); found != numbers_.end()) return found->second;
  }
  return made(handle);
}

void Names::made_memory(const void *base, uint64_t size) {
  std::lock_guard lock(mutex_);
  memory_[reinterpret_cast<uintptr_t>(base)] = {size, numbers_[base]};
}

uint64_t Names::find(const void *handle) const {
  std::lock_guard lock(mutex_);
  const auto found = numbers_.find(handle);
  return found == numbers_.end() ? 0 : found->second;
}

void Names::ended(const void *handle, uint64_t number) {
  std::lock_guard lock(mutex_);
  if (!number) return;
  objects_.erase(number);
  if (const auto found = numbers_.find(handle); found != numbers_.end() && found->second == number)
    numbers_.erase(found);
  if (const auto found = memory_.find(reinterpret_cast<uintptr_t>(handle));
      found != memory_.end() && found->second.second == number)
    memory_.erase(found);
}

std::string Names::text_of_handle(const void *handle) {
  if (!handle) return "null";
  std::lock_guard lock(mutex_);
  const auto found = numbers_.find(handle);
  return found == numbers_.end() ? "\"unknown\"" : joined({"\"#", std::to_string(found->second), "\""});
}

void Names::append_handle(std::string &out, const void *handle) { out += text_of_handle(handle); }
void Names::append_memory(std::string &out, const void *address) const { out += text_of_memory(address); }

std::string Names::text_of_memory(const void *address) const {
  if (!address) return "null";
  const auto at = reinterpret_cast<uintptr_t>(address);
  std::lock_guard lock(mutex_);
  auto after = memory_.upper_bound(at);
  if (after == memory_.begin()) return "\"host\"";
  const auto &[base, block] = *--after;
  if (at - base >= block.first) return "\"host\"";
  return joined({"\"#", std::to_string(block.second), "+", std::to_string(at - base), "\""});
}

const void *Names::object(uint64_t number) const {
  std::lock_guard lock(mutex_);
  const auto found = objects_.find(number);
  return found == objects_.end() ? nullptr : found->second;
}

std::vector<std::pair<std::string, std::string>> members_of(const std::string &object) {
  std::vector<std::pair<std::string, std::string>> out;
  const auto broken = [&]() -> BadSpec { return BadSpec("not a line of a trace: " + object.substr(0, 80)); };
  if (object.size() < 2 || object.front() != '{' || object.back() != '}') throw broken();
  for (size_t at = 1; at + 1 < object.size();) {
    const size_t name_end = object.find('"', at + 1);
    if (object[at] != '"' || name_end == std::string::npos || object[name_end + 1] != ':') throw broken();
    const size_t begin = name_end + 2;
    size_t end = begin;
    int depth = 0;
    for (bool in_text = false; end + 1 < object.size(); ++end) {
      const char c = object[end];
      if (in_text && c == '\\') {
        ++end;
      } else if (c == '"') {
        in_text = !in_text;
      } else if (!in_text) {
        if (c == ',' && depth == 0) break;
        depth += (c == '{' || c == '[') - (c == '}' || c == ']');
      }
    }
    if (end >= object.size()) throw broken();
    out.emplace_back(object.substr(at + 1, name_end - at - 1), object.substr(begin, end - begin));
    at = end + 1;
  }
  return out;
}

std::string member(const std::string &object, const std::string &name) {
  for (const auto &[key, value] : members_of(object))
    if (key == name) return value;
  return "";
}

void begin_member(std::string &out, std::string_view name) {
  if (out.size() > 1) out += ',';
  out += '"';
  out += name;
  out += "\":";
}

void append_signed(std::string &out, int64_t number) { out += std::to_string(number); }
void append_unsigned(std::string &out, uint64_t number) { out += std::to_string(number); }

std::string joined(std::initializer_list<std::string> parts) {
  std::string out;
  for (const std::string &part : parts) out += part;
  return out;
}

std::string quoted(const char *text) {
  if (!text) return "null";
  std::string out = "\"";
  for (const char *c = text; *c; ++c) {
    const auto byte = static_cast<unsigned char>(*c);
    if (byte == '"' || byte == '\\') {
      out += '\\';
      out += *c;
    } else if (byte < 0x20) {
      out += "\\u00";
      out += hexadecimal(&byte, 1);
    } else {
      out += *c;
    }
  }
  return out + '"';
}

std::string hexadecimal(const void *bytes, uint64_t size) {
  constexpr const char *digits = "0123456789abcdef";
  const auto *from = static_cast<const unsigned char *>(bytes);
  std::string out;
  out.reserve(2 * size);
  for (uint64_t place = 0; place < size; ++place) {
    out += digits[from[place] >> 4];
    out += digits[from[place] & 15];
  }
  return out;
}

std::string from_hexadecimal(const std::string &text) {
  const auto digit = [](char c) { return c <= '9' ? c - '0' : c - 'a' + 10; };
  std::string out;
  for (size_t place = 0; place + 1 < text.size(); place += 2)
    out += static_cast<char>(digit(text[place]) * 16 + digit(text[place + 1]));
  return out;
}

} // namespace tb::layers
