// The part of an event that other processes see: numbers of records made and of records completed.
//
// One page of shared memory. The exporter numbers its records from 1 and stores each number when the record's point has
// passed; importers read, and sleep on a word that the exporter bumps. The exporter holds a lock on its file for as
// long as it may still store; the system releases it when the process dies, and importers then stop waiting.
#pragma once

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>

#include "drivers/cpu/ipc/exports.h"
#include "drivers/cpu/ipc/shared_file.h"
#include "tb/driver.h"

namespace tb::drivers::cpu {

class SharedEvent {
public:
  static constexpr uint64_t pending = 256; // records that may be under way at once, on streams of different speed

  static tb_status create(const tb_host *host, std::shared_ptr<SharedEvent> *out);
  static tb_status open(const tb_host *host, File file, uint64_t size, std::shared_ptr<SharedEvent> *out);
  ~SharedEvent();
  SharedEvent(const SharedEvent &) = delete;
  SharedEvent &operator=(const SharedEvent &) = delete;

  // ---- the exporter ----
  tb_status export_to(Exports &exports, tb_ipc_handle *out);
  std::mutex &record_mutex() noexcept { return record_mutex_; } // from next_number() to publish_record()
  tb_status next_number(uint64_t *out);                         // fails with a text when too many are pending
  void publish_record(uint64_t number) noexcept;
  void complete(uint64_t number) noexcept;

  // ---- importers ----
  uint64_t last_record() const noexcept;
  bool done(uint64_t number) const noexcept;
  // TB_OK once done; TB_NOT_READY when `wait` is false; TB_DATA_LOSS when the exporter has ended before. No text is
  // set.
  tb_status ask(uint64_t number, bool wait) const noexcept;
  static constexpr char lost[] = "the process that exported the event has ended before its record completed";

private:
  struct Page;
  SharedEvent(const tb_host *host, File file, Page *page) : host_(host), file_(std::move(file)), page_(page) {}
  bool owner_lives() const noexcept;

  const tb_host *const host_;
  const File file_;
  Page *const page_;
  std::mutex record_mutex_, export_mutex_;
  std::unique_ptr<Exports::Publication> publication_;
};

} // namespace tb::drivers::cpu
