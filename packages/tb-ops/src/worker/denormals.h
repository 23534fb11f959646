// Whether arithmetic flushes denormal numbers to zero: torch.set_flush_denormal, a setting of the thread that calls it. A
// kernel runs on other threads, with the setting of the thread that launched it.
#pragma once
#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

#include <cstdint>

namespace tb::ops {

// Of the calling thread.
inline bool flushes_denormals() {
#if defined(__x86_64__)
  return (_mm_getcsr() & 0x8000) != 0; // results; PyTorch sets the bit for operands with it
#elif defined(__aarch64__)
  uint64_t settings;
  asm volatile("mrs %0, fpcr" : "=r"(settings));
  return (settings >> 24 & 1) != 0;
#else
  return false;
#endif
}

} // namespace tb::ops
