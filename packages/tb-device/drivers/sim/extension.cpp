// The extension "tb.sim".
#include <algorithm>
#include <cstring>

#include "drivers/sim/driver.h"
#include "drivers/sim/sim_extension.h"

namespace tb::drivers::sim {

namespace {

tb_status give_text(Driver &driver, const std::string &text, char *out, uint64_t capacity, uint64_t *out_size) {
  if (const tb_status status = driver.require(out_size, "out_size")) return status;
  *out_size = text.size() + 1;
  if (!out) return TB_OK;
  if (capacity < text.size() + 1)
    return fail(driver.host, TB_OUT_OF_RANGE, "the text takes %zu bytes, the room is %llu", text.size() + 1,
                static_cast<unsigned long long>(capacity));
  std::memcpy(out, text.c_str(), text.size() + 1);
  return TB_OK;
}

tb_status seed(tb_driver *self, uint64_t *out) {
  return with(self, [&](Driver &driver) -> tb_status {
    if (const tb_status status = driver.require(out, "out")) return status;
    *out = driver.options.seed;
    return TB_OK;
  });
}

tb_status schedule(tb_driver *self, char *out, uint64_t capacity, uint64_t *out_size) {
  return with(self,
              [&](Driver &driver) { return give_text(driver, driver.scheduler.schedule(), out, capacity, out_size); });
}

tb_status problem_count(tb_driver *self, uint64_t *out) {
  return with(self, [&](Driver &driver) -> tb_status {
    if (const tb_status status = driver.require(out, "out")) return status;
    *out = driver.scheduler.problems().size();
    return TB_OK;
  });
}

tb_status problem(tb_driver *self, uint64_t number, char *out, uint64_t capacity, uint64_t *out_size) {
  return with(self, [&](Driver &driver) -> tb_status {
    const std::vector<std::string> problems = driver.scheduler.problems();
    if (number >= problems.size())
      return fail(driver.host, TB_OUT_OF_RANGE, "there is no problem %llu: %zu were seen",
                  static_cast<unsigned long long>(number), problems.size());
    return give_text(driver, problems[number], out, capacity, out_size);
  });
}

} // namespace

tb_status get_sim_extension(Driver &driver, uint32_t version, void *table, uint32_t size) {
  if (version != TB_SIM_VERSION)
    return fail(driver.host, TB_NOT_FOUND, "tb.sim has version %d, not %u", TB_SIM_VERSION, version);
  if (const tb_status status = driver.require(table, "table")) return status;
  if (size < offsetof(tb_sim_api, seed))
    return fail(driver.host, TB_INVALID_ARGUMENT, "a table of %u bytes has no room for its own size", size);
  tb_sim_api mine = {sizeof mine, TB_SIM_VERSION, seed, schedule, problem_count, problem};
  mine.struct_size = std::min<uint32_t>(size, sizeof mine);
  std::memcpy(table, &mine, mine.struct_size);
  return TB_OK;
}

} // namespace tb::drivers::sim
