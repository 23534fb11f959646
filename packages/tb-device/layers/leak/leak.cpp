// Lists and reports live objects.
#include "layers/leak/leak.h"

#include <algorithm>

namespace tb::layers {

std::vector<LiveObject> Leak::live() const {
  std::vector<LiveObject> out;
  for (const auto &objects : objects_) objects.each([&](const void *, const LiveObject &one) { out.push_back(one); });
  std::ranges::sort(out, {}, &LiveObject::call);
  return out;
}

std::vector<LiveObject> Leak::mappings_within(const void *address, uint64_t size) const {
  std::vector<LiveObject> out;
  const auto first = reinterpret_cast<uintptr_t>(address);
  objects_[static_cast<size_t>(Kind::mapping)].each([&](const void *handle, const LiveObject &one) {
    if (reinterpret_cast<uintptr_t>(handle) - first < size) out.push_back(one);
  });
  return out;
}

void Leak::report() const {
  constexpr size_t shown = 100; // a program that leaks in a loop says the same each time
  const auto all = live();
  for (size_t place = 0; place < all.size() && place < shown; ++place) {
    const LiveObject &one = all[place];
    const std::string size = one.size ? " of " + std::to_string(one.size) + " bytes" : "";
    log(2, "still alive at close: %s %p%s, made by call %llu, %s", name_of(one.kind), one.handle, size.c_str(),
        static_cast<unsigned long long>(one.call), name_of(one.made_by));
  }
  if (all.size() > shown) log(2, "still alive at close: %zu more, made by later calls", all.size() - shown);
}

} // namespace tb::layers
