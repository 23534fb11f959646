// shared_record.h -- the record of an event that several processes use: two counters in shared memory.
#pragma once

#include <functional>
#include <memory>

namespace simcuda {

struct SharedRecord : std::enable_shared_from_this<SharedRecord> {
  static std::shared_ptr<SharedRecord> create();
  static std::shared_ptr<SharedRecord> open(int process, int file); // NULL if it does not exist
  ~SharedRecord();
  // Begins a record. The returned function marks it as passed.
  std::function<void()> begin_record();
  bool passed() const;
  // Returns a function that waits for the record that is the last one now.
  std::function<void()> waiter();
  int file() const { return file_; }

private:
  struct Counters;
  int file_ = -1;
  Counters *counters_ = nullptr;
};

} // namespace simcuda
