// The copies and fills that streams run.
#pragma once

#include <cstdint>

#include "tb/driver.h"

namespace tb::drivers::cpu {

// Overlapping ranges are copied as if through a buffer.
struct CopyWork {
  static constexpr char name[] = "mem_copy";
  static constexpr uint32_t flags = TB_CLOSURE_ON_WAITER;
  void *dst;
  const void *src;
  uint64_t size;
  tb_status run(const tb_closure_context *);
};

struct PeerCopyWork : CopyWork {
  static constexpr char name[] = "peer_copy";
};

struct FillWork {
  static constexpr char name[] = "mem_set";
  static constexpr uint32_t flags = TB_CLOSURE_ON_WAITER;
  void *dst;
  uint32_t pattern;
  uint32_t pattern_size;
  uint64_t count;
  tb_status run(const tb_closure_context *);
};

struct Copy2dWork {
  static constexpr char name[] = "mem_copy_2d";
  static constexpr uint32_t flags = TB_CLOSURE_ON_WAITER;
  tb_copy_2d copy;
  tb_status run(const tb_closure_context *);
};

struct HostCallWork {
  static constexpr char name[] = "stream_host_call";
  static constexpr uint32_t flags = TB_CLOSURE_AFTER_FAILURE;
  void (*function)(void *user, tb_status status);
  void *user;
  // The function receives the stream's failure that is not reported yet.
  tb_status run(const tb_closure_context *context);
};

} // namespace tb::drivers::cpu
