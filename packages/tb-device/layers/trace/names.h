// Gives handles and pointers small numbers, the same in each run that makes the same calls.
#pragma once

#include <cstdint>
#include <initializer_list>
#include <map>
#include <mutex>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace tb::layers {

// Each object gets the next number when the call that made it returns; memory is named "#4+16", an address that the
// driver did not give "host". The layer trace and the replay driver use the same names, so that texts of calls can be
// compared.
class Names {
public:
  // A number of its own, also when the address was another object's before.
  uint64_t made(const void *handle);
  // The number that it has, or a new one.
  uint64_t number(const void *handle);
  void made_memory(const void *base, uint64_t size);
  // The object with this number ended; its address may be another's by now. 0: nothing did.
  void ended(const void *handle, uint64_t number);
  uint64_t find(const void *handle) const;        // 0: it has no number
  std::string text_of_handle(const void *handle); // "#3", "null", or "unknown"
  std::string text_of_memory(const void *address) const;
  // The same texts at the end of `out`. Each function of the table calls these: they keep its text of arguments small.
  void append_handle(std::string &out, const void *handle);
  void append_memory(std::string &out, const void *address) const;
  // The object with this number; NULL when there is none.
  const void *object(uint64_t number) const;

private:
  mutable std::mutex mutex_;
  uint64_t next_ = 1;
  std::unordered_map<const void *, uint64_t> numbers_;
  std::unordered_map<uint64_t, const void *> objects_;
  std::map<uintptr_t, std::pair<uint64_t, uint64_t>> memory_; // by first byte: size and number
};

// The members of a JSON object of this format, each value as its text. Throws BadSpec for what is none.
std::vector<std::pair<std::string, std::string>> members_of(const std::string &object);
// The value of one, or "" .
std::string member(const std::string &object, const std::string &name);

// The comma before it if it is not the first, its name and the colon: `out` is an object that is not closed.
void begin_member(std::string &out, std::string_view name);
void append_signed(std::string &out, int64_t number);
void append_unsigned(std::string &out, uint64_t number);
std::string joined(std::initializer_list<std::string> parts);
std::string quoted(const char *text); // JSON; NULL becomes null
std::string hexadecimal(const void *bytes, uint64_t size);
std::string from_hexadecimal(const std::string &text);

} // namespace tb::layers
