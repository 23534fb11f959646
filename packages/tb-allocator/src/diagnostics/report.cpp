// report.cpp -- the text of a failure for lack of memory.
#include "diagnostics/report.h"

#include <algorithm>
#include <cstdio>

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

std::string out_of_memory_text(const OutOfMemory &all) {
  // Programs that retry with a smaller batch look for " out of memory.", as in the texts of PyTorch's own allocators.
  std::string text = (all.device >= 0 ? "device " + std::to_string(all.device) : "the host") +
                     " is out of memory. Tried to allocate " + bytes_text(all.requested) +
                     (all.device >= 0 ? ". " : " of pinned host memory. ");
  if (all.driver_known)
    text += bytes_text(all.driver_free) + " of " + bytes_text(all.driver_total) + " free at the driver; ";
  text += "this process reserved " + bytes_text(all.reserved) +
          (all.limit == UINT64_MAX ? "" : " of its limit of " + bytes_text(all.limit)) + ", of which " +
          bytes_text(all.allocated) + " allocated";
  if (all.pending) text += ", " + bytes_text(all.pending) + " waiting for other streams";
  const uint64_t here = all.free_here, elsewhere = all.free_elsewhere;
  text += ", " + bytes_text(here + elsewhere) + " free; largest free block " + bytes_text(all.largest_free) + ". ";
  constexpr size_t most_streams = 8;
  if (size_t streams = all.by_stream.size(); streams > 1) {
    text += "Free by stream: ";
    for (size_t at = 0; at < std::min(streams, most_streams); ++at) {
      char stream[32];
      snprintf(stream, sizeof stream, "%s%p: ", at ? ", " : "", all.by_stream[at].stream);
      text += stream + bytes_text(all.by_stream[at].bytes);
    }
    text += streams > most_streams ? " and " + std::to_string(streams - most_streams) + " more. " : ". ";
  }
  const bool limited = all.limit != UINT64_MAX && all.limit - std::min(all.reserved, all.limit) < all.rounded &&
                       (!all.driver_known || all.driver_free > all.rounded);
  const char *const or_raise = limited ? " Or raise the limit with tb_allocator.set_memory_limit()." : "";
  // The first that applies is what would have helped; a limit is last, because free memory needs none.
  if (all.driver_known && all.requested > all.driver_total)
    text += "The device never has that much: ask for less at a time.";
  else if (here + elsewhere >= all.rounded && all.pages)
    text += "Enough is free, but in pages of which other blocks use a part: free more of what is small, or allocate "
            "what lives long first." +
            std::string(or_raise);
  else if (here >= all.rounded)
    text += "Enough is free, but in pieces: TB_ALLOC_CONF=expandable_segments:True avoids that where the driver has "
            "virtual memory." +
            std::string(or_raise);
  else if (elsewhere >= all.rounded)
    text +=
        "Enough is free on other streams, in segments that they partly use: free more there, or use fewer streams." +
        std::string(or_raise);
  else if (limited)
    text += "The limit is in the way: raise it with tb_allocator.set_memory_limit().";
  else
    text += "Free tensors, use a smaller batch, or end other processes on the device.";
  return text;
}

} // namespace tb::allocator
