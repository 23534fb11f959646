// What a call costs directly, through the host's table without layers, and through each layer.
//
// Medians over interleaved rounds: other load on the machine affects all of them equally. Figures are nanoseconds a
// call.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <memory>
#include <vector>

#include "tests/cpp/layers/layered_driver.h"

namespace {

constexpr int rounds = 41, calls = 20'000;

struct Variant {
  std::string name;
  std::unique_ptr<test::LayeredDriver> driver;
  tb_driver_api *table; // the table that calls go through
  tb_stream *stream = nullptr;
  tb_event *event = nullptr;
  void *block = nullptr;
};

double round_of(const auto &body) {
  const auto start = std::chrono::steady_clock::now();
  for (int place = 0; place < calls; ++place) body();
  return std::chrono::duration<double, std::nano>(std::chrono::steady_clock::now() - start).count() / calls;
}

double median(std::vector<double> values) {
  std::ranges::nth_element(values, values.begin() + values.size() / 2);
  return values[values.size() / 2];
}

} // namespace

int main() {
  std::vector<Variant> variants;
  const auto add = [&](const std::string &name, const std::string &spec) {
    Variant one{name, std::make_unique<test::LayeredDriver>(spec), nullptr};
    one.table = &one.driver->api;
    one.stream = one.driver->create_stream();
    one.event = one.driver->create_event();
    one.block = one.driver->allocate(4096);
    (void)one.table->event_record(one.driver->self, one.event, one.stream);
    (void)one.table->stream_synchronize(one.driver->self, one.stream);
    variants.push_back(std::move(one));
  };
  // Without layers the host's table holds the driver's own pointers (tests/test_layers.py). "no layers" reads them
  // from a copy of the table on the heap, as components do; a call differs in nothing else.
  add("direct", "");
  add("no layers", "");
  const auto copied = std::make_unique<tb_driver_api>(variants.back().driver->api);
  variants.back().table = copied.get();
  for (const char *spec : {"fault", "leak", "validate", "serialise", "trace:file=/dev/null"}) add(spec, spec);

  struct Measured {
    const char *name;
    void (*call)(Variant &);
  };
  const Measured measured[] = {
      {"event_query", [](Variant &v) { (void)v.table->event_query(v.driver->self, v.event); }},
      {"device_count",
       [](Variant &v) {
         int32_t out;
         (void)v.table->device_count(v.driver->self, &out);
       }},
      {"event_record", [](Variant &v) { (void)v.table->event_record(v.driver->self, v.event, v.stream); }},
      {"mem_set of 8", [](Variant &v) { (void)v.table->mem_set(v.driver->self, 0, v.stream, v.block, 0, 1, 8); }},
      {"alloc + free",
       [](Variant &v) {
         void *out = nullptr;
         (void)v.table->mem_alloc(v.driver->self, 0, 64, 0, &out);
         (void)v.table->mem_free(v.driver->self, 0, out);
       }},
  };
  std::printf("%-22s", "ns a call (more)");
  for (const Variant &variant : variants) std::printf("%18s", variant.name.substr(0, 16).c_str());
  std::printf("\n");
  for (const Measured &one : measured) {
    std::vector<std::vector<double>> times(variants.size()), more(variants.size());
    for (int round = 0; round < rounds; ++round)
      for (size_t place = 0; place < variants.size(); ++place) {
        Variant &variant = variants[place];
        times[place].push_back(round_of([&] { one.call(variant); }));
        more[place].push_back(times[place].back() - times[0].back());
        (void)variant.table->stream_synchronize(variant.driver->self, variant.stream);
      }
    std::printf("%-22s", one.name);
    for (size_t place = 0; place < variants.size(); ++place)
      std::printf("%9.1f (%+6.1f)", median(times[place]), median(more[place]));
    std::printf("\n");
    std::fflush(stdout);
  }
  for (Variant &variant : variants) {
    (void)variant.table->mem_free(variant.driver->self, 0, variant.block);
    (void)variant.table->event_destroy(variant.driver->self, variant.event);
    (void)variant.table->stream_destroy(variant.driver->self, variant.stream);
  }
}
