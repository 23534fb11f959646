// The host of all drivers: takes their error texts and log lines, and answers options.
#pragma once

#include <map>
#include <string>

#include "tb/driver.h"

namespace tb::device {

using Options = std::map<std::string, std::string>;

const tb_host *host();

// While it lives, tb_host.option answers for the driver `name`: from `options`, else from TB_<NAME>_<KEY>. One at a
// time: the caller holds the loading lock.
class OptionScope {
public:
  OptionScope(std::string name, const Options &options);
  ~OptionScope();
  OptionScope(const OptionScope &) = delete;
};

// "mychip", "boost" -> "TB_MYCHIP_BOOST": upper case, everything but letters and digits as '_'.
std::string option_variable(const std::string &name, const std::string &key);

enum class Level { debug, info, warning, error };
// To stderr when TB_LOG (debug, info, warning, error) asks for the level; silent while it is unset.
void log(Level level, const char *text);

} // namespace tb::device
