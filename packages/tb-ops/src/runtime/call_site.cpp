// Decodes call sites.
#include "runtime/call_site.h"

#include <algorithm>
#include <atomic>
#include <cstring>
#include <sstream>

namespace tb::ops {
namespace {

CallSiteNamer call_site_namer = nullptr;
std::atomic<Origin (*)()> origin_finder{nullptr};

} // namespace

void set_call_site_namer(CallSiteNamer namer) { call_site_namer = namer; }

void decode_call_site(char *text, uint64_t size) {
  char *begin = std::strstr(text, call_site_opening);
  if (!begin) return;
  char *end = std::strchr(begin, call_site_closing);
  if (!end) return;
  std::istringstream numbers(std::string(begin + sizeof call_site_opening - 1, end));
  std::vector<PythonCallSite::Frame> frames;
  for (PythonCallSite::Frame frame; numbers >> std::hex >> frame.code >> frame.instruction;) frames.push_back(frame);
  std::string place = call_site_namer && !frames.empty() ? call_site_namer(frames) : "";
  if (!place.empty()) place = "launched at " + place + ": ";
  const std::string whole = std::string(text, begin) + place + (end + 1);
  const size_t length = std::min<size_t>(whole.size(), size - 1);
  std::memcpy(text, whole.data(), length);
  text[length] = 0;
}

void set_origin_finder(Origin (*find)()) { origin_finder = find; }

Origin find_origin() {
  Origin (*find)() = origin_finder;
  return find ? find() : Origin();
}

} // namespace tb::ops
