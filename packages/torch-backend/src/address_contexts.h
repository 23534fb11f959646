// address_contexts.h -- DataPtrs whose context becomes their address, for PyTorch's copy-on-write storages.
//
// The context of a DataPtr of ours is its block, by which it is freed without a search. c10::impl::cow takes a DataPtr
// apart and puts it together again from its context and its deleter alone, and so asks (is_simple_data_ptr) whether the
// context is the address. It is asked about the storage that is then changed, so the answer can be made true: the DataPtr
// gets its address as the context, and another deleter, which finds the block here.
#pragma once

#include <c10/core/Allocator.h>

#include <mutex>
#include <unordered_map>

#include "components.h"

namespace tb::backend {

class AddressContexts {
public:
  // `by_block` and `by_address`: the deleters of the two kinds.
  AddressContexts(c10::DeleterFnPtr by_block, c10::DeleterFnPtr by_address)
      : by_block_(by_block), by_address_(by_address) {}

  // Whether the context is the address, by now. False for a DataPtr of others.
  bool make_simple(const c10::DataPtr &data) {
    if (data.get_deleter() != by_block_) return data.get_deleter() == by_address_;
    auto *block = static_cast<tb_block *>(data.get_context());
    {
      const std::lock_guard lock(mutex_);
      if (block) blocks_.emplace(data.get(), block);
    }
    // A DataPtr is part of a storage, which is no constant, and which the caller is about to change.
    auto &own = const_cast<c10::DataPtr &>(data);
    (void)own.release_context();
    own = c10::DataPtr(data.get(), data.get(), by_address_, data.device());
    return true;
  }
  // The block of such an address, which is forgotten; NULL for the address NULL.
  tb_block *take(void *address) noexcept {
    const std::lock_guard lock(mutex_);
    const auto found = blocks_.find(address);
    return found == blocks_.end() ? nullptr : blocks_.extract(found).mapped();
  }

private:
  const c10::DeleterFnPtr by_block_, by_address_;
  std::mutex mutex_;
  std::unordered_map<void *, tb_block *> blocks_;
};

} // namespace tb::backend
