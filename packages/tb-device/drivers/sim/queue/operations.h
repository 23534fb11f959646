// The kinds of queued work.
#pragma once

#include <memory>
#include <string>

#include "drivers/sim/queue/operation.h"
#include "tb/driver.h"

namespace tb::drivers::sim {

// Overlapping ranges are copied as if through a buffer.
class CopyOperation : public Operation {
public:
  // `dst_device` and `src_device`: whose access rights count.
  CopyOperation(std::shared_ptr<Stream> stream, const char *name, const tb_copy_2d &copy, int32_t dst_device,
                int32_t src_device)
      : Operation(std::move(stream)), name_(name), copy_(copy), dst_device_(dst_device), src_device_(src_device) {}
  const char *name() const noexcept override { return name_; }
  tb_status run(Run &run) override;
  bool needs_success() const noexcept override { return true; }
  uint64_t bytes() const noexcept override { return copy_.width * copy_.height; }

private:
  const char *const name_;
  const tb_copy_2d copy_; // a plain copy is one row
  const int32_t dst_device_, src_device_;
};

class SetOperation : public Operation {
public:
  SetOperation(std::shared_ptr<Stream> stream, void *dst, uint32_t pattern, uint32_t pattern_size, uint64_t count)
      : Operation(std::move(stream)), dst_(dst), pattern_(pattern), pattern_size_(pattern_size), count_(count) {}
  const char *name() const noexcept override { return "mem_set"; }
  tb_status run(Run &run) override;
  bool needs_success() const noexcept override { return true; }
  uint64_t bytes() const noexcept override { return count_ * pattern_size_; }

private:
  void *const dst_;
  const uint32_t pattern_, pattern_size_;
  const uint64_t count_;
};

class ClosureOperation : public Operation {
public:
  ClosureOperation(std::shared_ptr<Stream> stream, uint64_t size);
  ~ClosureOperation() override;
  void *storage() const noexcept { return storage_; }
  void commit(const tb_closure *closure) noexcept { closure_ = closure; } // NULL: cancelled
  const char *name() const noexcept override { return closure_ ? closure_->name : "closure_cancel"; }
  tb_status run(Run &run) override;
  bool needs_success() const noexcept override { return closure_ && !(closure_->flags & TB_CLOSURE_AFTER_FAILURE); }
  bool is_function() const noexcept override { return closure_ != nullptr; }

private:
  void *const storage_;
  const tb_closure *closure_ = nullptr;
};

class HostCallOperation : public Operation {
public:
  using Function = void (*)(void *user, tb_status status);
  HostCallOperation(std::shared_ptr<Stream> stream, Function function, void *user)
      : Operation(std::move(stream)), function_(function), user_(user) {}
  const char *name() const noexcept override { return "stream_host_call"; }
  tb_status run(Run &run) override;
  void drop(Run &) override { function_(user_, TB_DEVICE_LOST); }
  bool is_function() const noexcept override { return true; }

private:
  const Function function_;
  void *const user_;
};

// The point of an event's record; takes the time if the event has timing.
class RecordOperation : public Operation {
public:
  RecordOperation(std::shared_ptr<Stream> stream, std::shared_ptr<int64_t> stamp)
      : Operation(std::move(stream)), stamp_(std::move(stamp)) {}
  const char *name() const noexcept override { return "event_record"; }
  tb_status run(Run &run) override;

private:
  const std::shared_ptr<int64_t> stamp_;
};

class WaitOperation : public Operation {
public:
  WaitOperation(std::shared_ptr<Stream> stream, const Event::Point &point) : Operation(std::move(stream)) {
    source = point.queue;
    source_position = point.position;
  }
  const char *name() const noexcept override { return "stream_wait_event"; }
  // A failure travels with the order: a synchronise of the waiting stream covers it too.
  tb_status run(Run &run) override;
};

// Poisons stream-ordered memory in the order of its stream: earlier writes of other streams are a bug.
class AllocateOperation : public Operation {
public:
  AllocateOperation(std::shared_ptr<Stream> stream, void *address) : Operation(std::move(stream)), address_(address) {}
  const char *name() const noexcept override { return "mem_alloc_async"; }
  tb_status run(Run &run) override;

private:
  void *const address_;
};

class FreeOperation : public Operation {
public:
  FreeOperation(std::shared_ptr<Stream> stream, void *address) : Operation(std::move(stream)), address_(address) {}
  const char *name() const noexcept override { return "mem_free_async"; }
  tb_status run(Run &run) override;
  void drop(Run &run) override { this->run(run); }

private:
  void *const address_;
};

} // namespace tb::drivers::sim
