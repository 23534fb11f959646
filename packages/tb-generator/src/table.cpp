// The function table that tb-generator exports.
#include "table.h"

#include <cstdio>
#include <new>

#include "fill/sampling.h"

namespace tb::generator {

tb_device_table device_table{};

int32_t known_device_count() {
  int32_t count = most_devices;
  if (!device_table.is_open || *device_table.forked) return count; // a forked child may use states, but no device
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

tb_status filled(const char *function, void *dst, int32_t type, Range range, State state,
                 const Distribution &distribution) {
  return guarded(function, -1, [&] { fill(distribution, dst, type, range, state); });
}

tb_status table_uniform(void *dst, int32_t type, uint64_t first, uint64_t count, uint64_t seed, uint64_t offset,
                        double from, double to) {
  return filled("tb_generator.uniform", dst, type, {first, count}, {seed, offset},
                {.kind = TB_FILL_UNIFORM, .first = from, .second = to});
}

tb_status table_normal(void *dst, int32_t type, uint64_t first, uint64_t count, uint64_t seed, uint64_t offset,
                       double mean, double std) {
  return filled("tb_generator.normal", dst, type, {first, count}, {seed, offset},
                {.kind = TB_FILL_NORMAL, .first = mean, .second = std});
}

tb_status table_integers(void *dst, int32_t type, uint64_t first, uint64_t count, uint64_t seed, uint64_t offset,
                         int64_t from, uint64_t range) {
  return filled("tb_generator.integers", dst, type, {first, count}, {seed, offset},
                {.kind = TB_FILL_INTEGERS, .from = from, .width = range});
}

tb_status table_bernoulli(void *dst, int32_t type, uint64_t first, uint64_t count, uint64_t seed, uint64_t offset,
                          double p) {
  return filled("tb_generator.bernoulli", dst, type, {first, count}, {seed, offset},
                {.kind = TB_FILL_BERNOULLI, .first = p});
}

tb_status table_exponential(void *dst, int32_t type, uint64_t first, uint64_t count, uint64_t seed, uint64_t offset,
                            double rate) {
  return filled("tb_generator.exponential", dst, type, {first, count}, {seed, offset},
                {.kind = TB_FILL_EXPONENTIAL, .first = rate});
}

tb_status table_cauchy(void *dst, int32_t type, uint64_t first, uint64_t count, uint64_t seed, uint64_t offset,
                       double median, double sigma) {
  return filled("tb_generator.cauchy", dst, type, {first, count}, {seed, offset},
                {.kind = TB_FILL_CAUCHY, .first = median, .second = sigma});
}

tb_status table_log_normal(void *dst, int32_t type, uint64_t first, uint64_t count, uint64_t seed, uint64_t offset,
                           double mean, double std) {
  return filled("tb_generator.log_normal", dst, type, {first, count}, {seed, offset},
                {.kind = TB_FILL_LOG_NORMAL, .first = mean, .second = std});
}

tb_status table_geometric(void *dst, int32_t type, uint64_t first, uint64_t count, uint64_t seed, uint64_t offset,
                          double p) {
  return filled("tb_generator.geometric", dst, type, {first, count}, {seed, offset},
                {.kind = TB_FILL_GEOMETRIC, .first = p});
}

tb_status table_truncated_normal(void *dst, int32_t type, uint64_t first, uint64_t count, uint64_t seed,
                                 uint64_t offset, double mean, double std, double low, double high) {
  return filled("tb_generator.truncated_normal", dst, type, {first, count}, {seed, offset},
                {.kind = TB_FILL_TRUNCATED_NORMAL, .first = mean, .second = std, .low = low, .high = high});
}

tb_status table_dropout(const void *src, void *dst, void *mask, int32_t type, uint64_t first, uint64_t count,
                        uint64_t seed, uint64_t offset, double keep, double scale) {
  return guarded("tb_generator.dropout", -1,
                 [&] { dropout(src, dst, mask, type, {first, count}, {seed, offset}, keep, scale); });
}

tb_status table_permutation(int64_t *dst, uint64_t count, uint64_t seed, uint64_t offset) {
  return guarded("tb_generator.permutation", -1, [&] { permutation(dst, count, {seed, offset}); });
}

tb_status table_multinomial(int64_t *dst, uint64_t samples, const double *weights, uint64_t classes,
                            int32_t replacement, uint64_t seed, uint64_t offset) {
  return guarded("tb_generator.multinomial", -1,
                 [&] { multinomial(dst, samples, weights, classes, replacement != 0, {seed, offset}); });
}

tb_status table_capture_begin(tb_generator *generator) {
  return guarded("tb_generator.capture_begin", -1, [&] { capture_begin(*generator); });
}

tb_status table_capture_end(tb_generator *generator, uint64_t *out_words) {
  return guarded("tb_generator.capture_end", -1, [&] { *out_words = capture_end(*generator); });
}

int32_t table_is_capturing(tb_generator *generator) { return is_capturing(*generator); }

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
    table_cauchy,
    table_log_normal,
    table_geometric,
    table_truncated_normal,
    table_dropout,
    table_permutation,
    table_multinomial,
    table_capture_begin,
    table_capture_end,
    table_is_capturing,
};

} // namespace tb::generator
