// The function table that tb-generator exports.
#include "table.h"

#include <cstdio>
#include <new>

namespace tb::generator {

tb_device_table device_table{};

int32_t known_device_count() {
  int32_t count = most_devices;
  if (!device_table.is_open || *device_table.forked) return count; // a forked child may use states, though no device
  if (device_table.is_open() && device_table.device_count(&count) != TB_OK)
    throw Refusal{TB_UNAVAILABLE, "the open driver did not say how many devices it has. Run: tb-device doctor"};
  return count;
}

namespace {

template <class Call> tb_status guarded(const char *function, int32_t device, const Call &call) noexcept {
  tb_status status = TB_INTERNAL;
  const char *text = "an exception of an unknown type. Report it";
  char kept[512];
  try {
    call();
    return TB_OK;
  } catch (const Refusal &refusal) {
    status = refusal.status;
    snprintf(kept, sizeof kept, "%s", refusal.text.c_str());
    text = kept;
  } catch (const std::bad_alloc &) {
    status = TB_OUT_OF_MEMORY;
    text = "the host is out of memory";
  } catch (...) {
  }
  if (device_table.set_error) device_table.set_error(status, 0, device, function, text);
  return status;
}

tb_status table_default_generator(int32_t device, tb_generator **out) {
  return guarded("tb_generator.default_generator", device,
                 [&] { *out = &default_generator(device, known_device_count()); });
}

tb_status table_create(uint64_t seed, tb_generator **out) {
  return guarded("tb_generator.create", -1, [&] { *out = new tb_generator{{seed, 0}}; });
}

void table_destroy(tb_generator *generator) { delete generator; }

void table_get_state(tb_generator *generator, uint64_t *out_seed, uint64_t *out_offset) {
  const State state = get_state(*generator);
  *out_seed = state.seed;
  *out_offset = state.offset;
}

void table_set_state(tb_generator *generator, uint64_t seed, uint64_t offset) { set_state(*generator, {seed, offset}); }

void table_reserve(tb_generator *generator, uint64_t words, uint64_t *out_seed, uint64_t *out_offset) {
  const State state = reserve(*generator, words);
  *out_seed = state.seed;
  *out_offset = state.offset;
}

tb_status table_uniform(void *dst, int32_t type, uint64_t first, uint64_t count, uint64_t seed, uint64_t offset,
                        double from, double to) {
  return guarded("tb_generator.uniform", -1, [&] { uniform(dst, type, {first, count}, {seed, offset}, from, to); });
}

tb_status table_normal(void *dst, int32_t type, uint64_t first, uint64_t count, uint64_t seed, uint64_t offset,
                       double mean, double std) {
  return guarded("tb_generator.normal", -1, [&] { normal(dst, type, {first, count}, {seed, offset}, mean, std); });
}

tb_status table_integers(void *dst, int32_t type, uint64_t first, uint64_t count, uint64_t seed, uint64_t offset,
                         int64_t from, uint64_t range) {
  return guarded("tb_generator.integers", -1,
                 [&] { integers(dst, type, {first, count}, {seed, offset}, from, range); });
}

tb_status table_bernoulli(void *dst, int32_t type, uint64_t first, uint64_t count, uint64_t seed, uint64_t offset,
                          double p) {
  return guarded("tb_generator.bernoulli", -1, [&] { bernoulli(dst, type, {first, count}, {seed, offset}, p); });
}

tb_status table_exponential(void *dst, int32_t type, uint64_t first, uint64_t count, uint64_t seed, uint64_t offset,
                            double rate) {
  return guarded("tb_generator.exponential", -1, [&] { exponential(dst, type, {first, count}, {seed, offset}, rate); });
}

} // namespace

const tb_generator_table table = {
    sizeof(tb_generator_table),
    table_default_generator,
    table_create,
    table_destroy,
    table_get_state,
    table_set_state,
    table_reserve,
    table_uniform,
    table_normal,
    table_integers,
    table_bernoulli,
    table_exponential,
    words_needed,
};

} // namespace tb::generator
