// report.cpp -- what a user reads when memory runs out.
#include <algorithm>
#include <string>

#include "diagnostics/report.h"
#include "heap/heap.h"

namespace tb::allocator {

std::string bytes_text(uint64_t bytes) {
  static const char *const names[] = {"bytes", "KiB", "MiB", "GiB", "TiB"};
  int power = 0;
  double value = static_cast<double>(bytes);
  for (; value >= 1024 && power < 4; ++power) value /= 1024;
  char text[32];
  snprintf(text, sizeof text, power ? "%.2f %s" : "%.0f %s", value, names[power]);
  return text;
}

tb_status Heap::out_of_memory(const Request &request) {
  int32_t device = source_->device();
  uint64_t driver_free = 0, total = 0;
  bool known = device >= 0 && driver_.api->device_memory_info(driver_.self, device, &driver_free, &total) == TB_OK;
  std::string text = "tried to allocate " + bytes_text(request.size) +
                     (device >= 0 ? " on device " + std::to_string(device) : " of pinned host memory") + ". ";
  if (known) text += bytes_text(driver_free) + " of " + bytes_text(total) + " free at the driver; ";
  take_caches_back();
  std::lock_guard guard(lock_);
  history_.record(Action::out_of_memory, nullptr, request.size, request.stream, driver_free);
  auto reserved = static_cast<uint64_t>(counters_.current(Count::reserved_bytes));
  auto allocated = static_cast<uint64_t>(counters_.current(Count::allocated_bytes));
  auto pending = static_cast<uint64_t>(counters_.current(Count::pending_bytes));
  text += "this process reserved " + bytes_text(reserved) +
          (limit_ == UINT64_MAX ? "" : " of its limit of " + bytes_text(limit_)) + ", of which " +
          bytes_text(allocated) + " allocated";
  if (pending) text += ", " + bytes_text(pending) + " waiting for other streams";
  uint64_t largest = 0, here = 0, elsewhere = 0;
  std::string by_stream;
  int streams = 0;
  for (auto &pools : pools_) {
    uint64_t free = pools->small.bins.bytes() + pools->large.bins.bytes();
    largest = std::max({largest, pools->small.bins.largest(), pools->large.bins.largest()});
    (pools->small.stream == request.stream ? here : elsewhere) += free;
    if (!free || ++streams > 8) continue;
    char stream[32];
    snprintf(stream, sizeof stream, "%s%p: ", streams > 1 ? ", " : "", static_cast<void *>(pools->small.stream));
    by_stream += stream + bytes_text(free);
  }
  text += ", " + bytes_text(here + elsewhere) + " free; largest free block " + bytes_text(largest) + ". ";
  if (streams > 1)
    text += "Free by stream: " + by_stream + (streams > 8 ? " and " + std::to_string(streams - 8) + " more. " : ". ");
  const bool limited = limit_ != UINT64_MAX && limit_ - std::min(reserved, limit_) < request.rounded &&
                       (!known || driver_free > request.rounded);
  const char *const or_raise = limited ? " Or raise the limit with tb_allocator.set_memory_limit()." : "";
  // The first that applies is what would have helped; a limit last, since memory that is free needs none.
  if (known && request.size > total)
    text += "The device never has that much: ask for less at a time.";
  else if (here + elsewhere >= request.rounded && policy_.growing)
    text += "Enough is free, but in pages of which other blocks use a part: free more of what is small, or allocate "
            "what lives long first." +
            std::string(or_raise);
  else if (here >= request.rounded)
    text += "Enough is free, but in pieces: TB_ALLOC_CONF=expandable_segments:True avoids that where the driver has "
            "virtual memory." +
            std::string(or_raise);
  else if (elsewhere >= request.rounded)
    text +=
        "Enough is free on other streams, in segments that they partly use: free more there, or use fewer streams." +
        std::string(or_raise);
  else if (limited)
    text += "The limit is in the way: raise it with tb_allocator.set_memory_limit().";
  else
    text += "Free tensors, use a smaller batch, or end other processes on the device.";
  return fail(TB_OUT_OF_MEMORY, device, "allocate", text.c_str());
}

} // namespace tb::allocator
