// Answers the calls of drivers to their host.
#include "host/host.h"

#include <atomic>
#include <cctype>
#include <cstdio>
#include <cstdlib>
#include <cstring>

#include "host/errors.h"
#include "host/gil.h"

namespace tb::device {
namespace {

struct Opening {
  std::string name;
  const Options *options;
};
std::atomic<const Opening *> opening{nullptr};

const char *option(const char *key) {
  const Opening *now = opening.load(std::memory_order_acquire);
  if (!now || !key) return nullptr;
  if (auto found = now->options->find(key); found != now->options->end()) return found->second.c_str();
  return std::getenv(option_variable(now->name, key).c_str());
}

void driver_error(tb_status status, int64_t native_code, const char *text) {
  set_error(status, native_code, -1, nullptr, nullptr, text);
}

void driver_log(int32_t level, const char *text) {
  log(static_cast<Level>(level < 0 ? 0 : level > 3 ? 3 : level), text);
}

const char *const level_names[] = {"debug", "info", "warning", "error"};

// 4: nothing. Something we do not know shows everything, rather than hide what was asked for.
int lowest_level() {
  const char *asked = std::getenv("TB_LOG");
  if (!asked || !*asked) return 4;
  for (int level = 0; level < 4; ++level)
    if (std::strcmp(asked, level_names[level]) == 0) return level;
  return 0;
}

} // namespace

const tb_host *host() {
  static const tb_host given = {sizeof(tb_host), TB_ABI_MAJOR, TB_ABI_MINOR, driver_error,
                                driver_log,      option,       before_wait,  after_wait};
  return &given;
}

OptionScope::OptionScope(std::string name, const Options &options) {
  opening.store(new Opening{std::move(name), &options}, std::memory_order_release);
}

OptionScope::~OptionScope() { delete opening.exchange(nullptr); }

std::string option_variable(const std::string &name, const std::string &key) {
  std::string variable = "TB_" + name + "_" + key;
  for (char &c : variable) {
    auto byte = static_cast<unsigned char>(c);
    c = std::isalnum(byte) ? static_cast<char>(std::toupper(byte)) : '_';
  }
  return variable;
}

void log(Level level, const char *text) {
  static const int lowest = lowest_level();
  if (static_cast<int>(level) < lowest) return;
  std::fprintf(stderr, "tb %s: %s\n", level_names[static_cast<int>(level)], text ? text : "");
}

} // namespace tb::device
