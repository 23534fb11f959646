// Runs each kind of queued work.
#include "drivers/sim/queue/operations.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <new>
#include <vector>

namespace tb::drivers::sim {

namespace {

using Piece = VirtualMemory::Piece;

void gather(const std::vector<Piece> &from, std::byte *to) {
  for (const Piece &piece : from) {
    std::memcpy(to, piece.inner, piece.size);
    to += piece.size;
  }
}

void scatter(const std::byte *from, const std::vector<Piece> &to) {
  for (const Piece &piece : to) {
    std::memcpy(piece.inner, from, piece.size);
    from += piece.size;
  }
}

// A line of patterns at a time. The piece starts `written` bytes into the whole.
void fill(const Piece &piece, const unsigned char *unit, uint32_t unit_size, uint64_t written) {
  if (std::all_of(unit, unit + unit_size, [&](unsigned char byte) { return byte == unit[0]; })) {
    std::memset(piece.inner, unit[0], piece.size);
    return;
  }
  unsigned char line[256]; // a multiple of every unit
  for (size_t place = 0; place < sizeof line; ++place) line[place] = unit[(written + place) % unit_size];
  for (uint64_t place = 0; place < piece.size; place += sizeof line)
    std::memcpy(piece.inner + place, line, std::min<uint64_t>(sizeof line, piece.size - place));
}

// Of a rectangle, from its first byte to its last.
uint64_t extent_of(uint64_t pitch, uint64_t width, uint64_t height) { return (height - 1) * pitch + width; }

} // namespace

void Run::explain(const std::string &text) const {
  std::snprintf(context.error_text, context.error_capacity, "%s", text.c_str());
}

tb_status CopyOperation::run(Run &run) {
  const auto row = [&](const void *base, uint64_t pitch, uint64_t number, Access access, int32_t device) {
    return run.memory.resolve(static_cast<const std::byte *>(base) + number * pitch, copy_.width, access, device);
  };
  // Rows of two ranges may overlap crosswise: then all of the source is read before anything is written.
  const auto *dst = static_cast<const std::byte *>(copy_.dst);
  const auto *src = static_cast<const std::byte *>(copy_.src);
  const bool apart = dst + extent_of(copy_.dst_pitch, copy_.width, copy_.height) <= src ||
                     src + extent_of(copy_.src_pitch, copy_.width, copy_.height) <= dst;
  std::string problem;
  std::vector<std::byte> stage(apart && copy_.height == 1 ? 0 : copy_.width * (apart ? 1 : copy_.height));
  const auto read = [&](uint64_t number, std::byte *to) {
    const auto from = row(copy_.src, copy_.src_pitch, number, Access::read, src_device_);
    if (problem.empty()) problem = from.problem;
    if (from.usable) gather(from.pieces, to);
    return from.usable;
  };
  const auto write = [&](uint64_t number, const std::byte *from) {
    const auto to = row(copy_.dst, copy_.dst_pitch, number, Access::write, dst_device_);
    if (problem.empty()) problem = to.problem;
    if (to.usable) scatter(from, to.pieces);
  };
  if (copy_.height == 1) {
    const auto from = row(copy_.src, 0, 0, Access::read, src_device_);
    const auto to = row(copy_.dst, 0, 0, Access::write, dst_device_);
    problem = from.problem.empty() ? to.problem : from.problem;
    if (from.usable && to.usable) {
      if (from.pieces.size() == 1 && to.pieces.size() == 1) {
        std::memmove(to.pieces[0].inner, from.pieces[0].inner, copy_.width);
      } else {
        stage.resize(copy_.width);
        gather(from.pieces, stage.data());
        scatter(stage.data(), to.pieces);
      }
    }
  } else if (apart) {
    for (uint64_t number = 0; number < copy_.height; ++number)
      if (read(number, stage.data())) write(number, stage.data());
  } else {
    bool whole = true;
    for (uint64_t number = 0; number < copy_.height; ++number)
      whole = read(number, stage.data() + number * copy_.width) && whole;
    for (uint64_t number = 0; whole && number < copy_.height; ++number)
      write(number, stage.data() + number * copy_.width);
  }
  if (problem.empty()) return TB_OK;
  run.explain(problem);
  return TB_DATA_LOSS;
}

tb_status SetOperation::run(Run &run) {
  const auto to = run.memory.resolve(dst_, count_ * pattern_size_, Access::write, run.queue.device.number);
  if (to.usable) {
    unsigned char unit[4];
    std::memcpy(unit, &pattern_, sizeof unit); // little endian: the low bytes come first
    uint64_t written = 0;
    for (const Piece &piece : to.pieces) {
      fill(piece, unit, pattern_size_, written);
      written += piece.size;
    }
  }
  if (to.problem.empty()) return TB_OK;
  run.explain(to.problem);
  return TB_DATA_LOSS;
}

ClosureOperation::ClosureOperation(std::shared_ptr<Stream> stream, uint64_t size)
    : Operation(std::move(stream)),
      storage_(::operator new(std::max<uint64_t>(size, 1), std::align_val_t(TB_CLOSURE_ALIGNMENT))) {
  units = std::max<uint64_t>((size + TB_CLOSURE_ALIGNMENT - 1) / TB_CLOSURE_ALIGNMENT, 1);
  ready = false;
}

ClosureOperation::~ClosureOperation() {
  if (closure_) {
    try {
      closure_->destroy(storage_);
    } catch (...) { // a destructor has no status to report through; the work's own failure is reported
    }
  }
  ::operator delete(storage_, std::align_val_t(TB_CLOSURE_ALIGNMENT));
}

tb_status ClosureOperation::run(Run &run) { return closure_ ? closure_->run(storage_, &run.context) : TB_OK; }

tb_status HostCallOperation::run(Run &run) {
  const auto failure = run.queue.failures.peek(UINT64_MAX);
  function_(user_, failure ? failure->status : TB_OK);
  return TB_OK;
}

tb_status RecordOperation::run(Run &) {
  using namespace std::chrono;
  if (stamp_) *stamp_ = duration_cast<nanoseconds>(steady_clock::now().time_since_epoch()).count();
  return TB_OK;
}

tb_status WaitOperation::run(Run &run) {
  run.queue.failures.inherit(source->failures, source_position, run.queue.number, run.position);
  return TB_OK;
}

tb_status AllocateOperation::run(Run &run) {
  run.memory.devices[static_cast<size_t>(run.queue.device.number)]->poison(address_);
  return TB_OK;
}

tb_status FreeOperation::run(Run &run) {
  const auto damage = run.memory.devices[static_cast<size_t>(run.queue.device.number)]->bury(address_);
  if (!damage) return TB_OK;
  run.explain(*damage);
  return TB_DATA_LOSS;
}

} // namespace tb::drivers::sim
