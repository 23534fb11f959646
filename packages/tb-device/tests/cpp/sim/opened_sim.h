// The sim driver as a host opens it, for tests, and the facts that it reports.
#pragma once

#include <string>
#include <vector>

#include "drivers/sim/sim_driver.h"
#include "drivers/sim/sim_extension.h"
#include "tests/cpp/cpu/opened_driver.h"

namespace test {

inline const bool uses_sim = (entry = tb_sim_driver_open_v1, true);

struct OpenedSim : OpenedDriver {
  explicit OpenedSim(Options options = {}) : OpenedDriver(std::move(options)) {
    if (api.get_extension(self, "tb.sim", TB_SIM_VERSION, &sim, sizeof sim)) throw std::runtime_error(take_error());
  }
  tb_sim_api sim{};

  std::string schedule() {
    uint64_t size = 0;
    if (sim.schedule(self, nullptr, 0, &size)) throw std::runtime_error(take_error());
    std::string text(size, 0);
    if (sim.schedule(self, text.data(), size, &size)) throw std::runtime_error(take_error());
    text.resize(size - 1);
    return text;
  }
  std::vector<std::string> problems() {
    uint64_t count = 0;
    sim.problem_count(self, &count);
    std::vector<std::string> texts;
    for (uint64_t number = 0; number < count; ++number) {
      char text[1024] = "";
      uint64_t size = 0;
      sim.problem(self, number, text, sizeof text, &size);
      texts.emplace_back(text);
    }
    return texts;
  }
  int64_t fact(const char *key, int32_t device = 0) {
    int64_t value = -1;
    if (api.device_query(self, device, key, &value)) throw std::runtime_error(take_error());
    return value;
  }
  // Throws the error text if the status is a failure.
  void ok(tb_status status) {
    if (status != TB_OK) throw std::runtime_error(std::to_string(status) + ": " + take_error());
  }
};

} // namespace test
