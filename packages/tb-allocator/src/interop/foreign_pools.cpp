// foreign_pools.cpp -- PyTorch's memory pools, for CUDA graphs and torch.cuda.MemPool, as arenas that keep addresses.
#include <atomic>
#include <cstdio>
#include <map>
#include <mutex>
#include <vector>

#include "interop/foreign.h"
#include "table/table.h"
#include "waiting_mutex.h"

namespace tb::allocator {
namespace {

struct Pool {
  tb_arena *arena = nullptr;
  int users = 0;
};
using Key = std::pair<int, PoolId>;
struct Open {
  Key key;
  PoolFilter filter;
};

WaitingMutex lock;
std::map<Key, Pool> pools;           // guarded by `lock`
std::vector<Open> opened;            // guarded by `lock`; the last pool whose filter accepts a stream serves it
std::atomic<bool> any_opened{false}; // read without the lock by every allocation

} // namespace

tb_arena *open_pool(int32_t device, void *native) {
  if (!any_opened.load(std::memory_order_acquire)) [[likely]]
    return nullptr;
  std::lock_guard guard(lock);
  for (auto open = opened.rbegin(); open != opened.rend(); ++open)
    if (open->key.first == device && open->filter(native)) return pools[open->key].arena;
  return nullptr;
}

} // namespace tb::allocator

using namespace tb;
using namespace tb::allocator;

void tb_torch_begin_allocate_to_pool(int device, PoolId id, PoolFilter filter) {
  std::lock_guard guard(lock);
  Key key(device, id);
  auto found = pools.find(key);
  if (found == pools.end()) {
    tb_arena *arena = nullptr;
    if (allocator_table.arena_create(device, UINT64_MAX, TB_ARENA_FIXED, &arena) != TB_OK) throw std::bad_alloc();
    found = pools.emplace(key, Pool{arena, 0}).first;
  }
  ++found->second.users;
  opened.push_back({key, std::move(filter)});
  any_opened.store(true, std::memory_order_release);
}

void tb_torch_end_allocate_to_pool(int device, PoolId id) {
  std::lock_guard guard(lock);
  for (auto open = opened.rbegin(); open != opened.rend(); ++open)
    if (open->key == Key(device, id)) {
      opened.erase(std::next(open).base());
      break;
    }
  any_opened.store(!opened.empty(), std::memory_order_release);
}

void tb_torch_release_pool(int device, PoolId id) {
  std::lock_guard guard(lock);
  auto found = pools.find(Key(device, id));
  if (found == pools.end()) {
    fprintf(stderr, "tb-allocator: a pool of PyTorch was released that was never opened. Ignored.\n");
    return;
  }
  if (--found->second.users > 0) return;
  allocator_table.arena_destroy(found->second.arena);
  pools.erase(found);
}
