// test_configuration.cpp -- TB_ALLOC_CONF, and the size classes.
#include <string>

#include "blocks/bins.h"
#include "blocks/configuration.h"
#include "fake_driver.h"
#include "heap/heap.h"

namespace {

using tb::allocator::MiB;

void size_classes_are_ordered_and_narrow() {
  uint32_t before = 0;
  for (uint64_t size = 512; size < 64 * MiB; size += 512) {
    uint32_t bin = tb::allocator::Bins::class_of(size);
    CHECK(bin == before || bin == before + 1);
    if (size <= 32 << 10) CHECK(bin == before + 1);
    before = bin;
  }
  CHECK(tb::allocator::Bins::class_of(tb::allocator::size_limit) < 36 * 32);
}

void configuration_names_what_it_does_not_know() {
  tb::allocator::Configuration out;
  CHECK(tb::allocator::parse_configuration(nullptr, &out).empty() && !out.expandable_segments);
  CHECK(tb::allocator::parse_configuration("", &out).empty());
  CHECK(tb::allocator::parse_configuration(" expandable_segments : True ", &out).empty() && out.expandable_segments);
  CHECK(tb::allocator::parse_configuration("expandable_segments:False,", &out).empty() && !*out.expandable_segments);
  CHECK(tb::allocator::parse_configuration("expandable_segments:maybe", &out).find("'maybe': use True or False") !=
        std::string::npos);
  CHECK(tb::allocator::parse_configuration("roundup_power2_divisions:[256:1,512:2,>:4],pages_slack:0.02, history:100",
                                           &out)
            .empty());
  CHECK(out.ignored == "roundup_power2_divisions" && out.slack == 0.02 && out.history == 100);
  CHECK(tb::allocator::parse_configuration("per_process_memory_fraction:0.5", &out).empty() &&
        out.per_process_memory_fraction == 0.5);
  CHECK(tb::allocator::parse_configuration("pinned_slack:0.25", &out).empty() && out.pinned_slack == 0.25);
  for (const char *wrong : {"per_process_memory_fraction:1.5", "per_process_memory_fraction:", "pages_slack:much",
                            "pinned_slack:-1", "history:-1", "history:3x", "per_process_memory_fraction:nan"})
    CHECK(tb::allocator::parse_configuration(wrong, &out).find("': use a number") != std::string::npos);
  std::string text = tb::allocator::parse_configuration("max_speed:1", &out);
  CHECK(text.find("unknown key 'max_speed'") != std::string::npos &&
        text.find("expandable_segments") != std::string::npos);
}

} // namespace

int main() {
  size_classes_are_ordered_and_narrow();
  configuration_names_what_it_does_not_know();
}
