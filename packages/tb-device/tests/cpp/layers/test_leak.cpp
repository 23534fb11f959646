// The layer leak lists exactly what is alive.
#include <thread>
#include <vector>

#include "layers/leak/leak.h"
#include "tests/cpp/check.h"
#include "tests/cpp/layers/layered_driver.h"

using tb::layers::Kind;
using tb::layers::Leak;
using test::LayeredDriver;

CASE(every_kind_that_is_made_is_listed_until_it_is_taken_back) {
  LayeredDriver driver("leak");
  Leak &leak = driver.layer<Leak>();
  (void)driver.default_stream(); // the default stream is borrowed, so it is no leak
  CHECK(leak.live().empty());
  void *block = driver.allocate(100), *pinned = nullptr, *storage = nullptr;
  tb_stream *stream = driver.create_stream();
  tb_event *event = driver.create_event();
  CHECK_EQUAL(driver.api.mem_alloc_host(driver.self, 0, 200, 0, &pinned), TB_OK);
  CHECK_EQUAL(driver.api.closure_reserve(driver.self, stream, 64, &storage), TB_OK);
  const auto live = leak.live();
  CHECK_EQUAL(live.size(), 5u);
  const Kind kinds[] = {Kind::block, Kind::stream, Kind::event, Kind::host_block, Kind::closure_storage};
  const uint64_t sizes[] = {100, 0, 0, 200, 64};
  for (size_t place = 0; place < 5; ++place) {
    CHECK_EQUAL(static_cast<int>(live[place].kind), static_cast<int>(kinds[place]));
    CHECK_EQUAL(live[place].size, sizes[place]);
    CHECK_EQUAL(live[place].call, place + 2);
  }
  CHECK_EQUAL(driver.api.closure_cancel(driver.self, stream, storage), TB_OK);
  CHECK_EQUAL(driver.api.mem_free_host(driver.self, pinned), TB_OK);
  CHECK_EQUAL(driver.api.event_destroy(driver.self, event), TB_OK);
  CHECK_EQUAL(driver.api.stream_destroy(driver.self, stream), TB_OK);
  CHECK_EQUAL(driver.api.mem_free(driver.self, 0, block), TB_OK);
  CHECK(leak.live().empty());
}

CASE(a_release_that_is_refused_leaves_it_alive) {
  LayeredDriver driver("leak,fault:nth=0,slot=mem_free,status=9");
  void *block = driver.allocate(8);
  CHECK_EQUAL(driver.api.mem_free(driver.self, 0, block), TB_FAILED_PRECONDITION);
  CHECK_EQUAL(driver.layer<Leak>().live().size(), 1u);
  CHECK_EQUAL(driver.api.mem_free(driver.self, 0, block), TB_OK);
  CHECK(driver.layer<Leak>().live().empty());
}

CASE(a_release_that_fails_otherwise_has_taken_place) {
  LayeredDriver driver("leak,fault:nth=0,slot=mem_free,status=13");
  CHECK_EQUAL(driver.api.mem_free(driver.self, 0, driver.allocate(8)), TB_INTERNAL);
  CHECK(driver.layer<Leak>().live().empty());
}

CASE(one_unmap_may_end_several_mappings) {
  LayeredDriver driver("leak");
  uint64_t least = 0, recommended = 0;
  CHECK_EQUAL(driver.api.vmm_granularity(driver.self, 0, &least, &recommended), TB_OK);
  void *base = nullptr;
  tb_physical *physical = nullptr;
  CHECK_EQUAL(driver.api.vmm_reserve(driver.self, 2 * least, 0, nullptr, &base), TB_OK);
  CHECK_EQUAL(driver.api.vmm_create(driver.self, 0, least, 0, &physical), TB_OK);
  for (uint64_t place : {0, 1})
    CHECK_EQUAL(driver.api.vmm_map(driver.self, static_cast<char *>(base) + place * least, least, physical, 0), TB_OK);
  CHECK_EQUAL(driver.layer<Leak>().live().size(), 4u);
  CHECK_EQUAL(driver.api.vmm_unmap(driver.self, base, 2 * least), TB_OK);
  CHECK_EQUAL(driver.layer<Leak>().live().size(), 2u);
  CHECK_EQUAL(driver.api.vmm_destroy(driver.self, physical), TB_OK);
  CHECK_EQUAL(driver.api.vmm_release(driver.self, base, 2 * least), TB_OK);
  CHECK(driver.layer<Leak>().live().empty());
}

CASE(threads_that_make_and_end_leave_nothing) {
  LayeredDriver driver("leak");
  std::vector<std::thread> threads;
  for (int place = 0; place < 4; ++place)
    threads.emplace_back([&] {
      for (int round = 0; round < 500; ++round) {
        void *block = driver.allocate(64);
        tb_event *event = driver.create_event();
        (void)driver.api.event_destroy(driver.self, event);
        (void)driver.api.mem_free(driver.self, 0, block);
      }
    });
  for (auto &thread : threads) thread.join();
  CHECK(driver.layer<Leak>().live().empty());
}
