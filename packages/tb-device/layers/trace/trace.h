// The layer that writes every call to a file, one line of JSON each; replay.h answers from such a file.
//
//   file=calls.jsonl   required; overwritten
//   bytes=N            of the data of each host-to-device copy; 0 when not given
// The first line has the driver's facts. Then for each call
//   {"n":7,"thread":1,"call":"mem_copy","arguments":{"device":0,"stream":"#2","dst":"#5+0",...},"data":"00ff",
//    "status":0,"ns":812,"result":{}}
// n counts the calls from 1 in the order in which they began; lines are in the order in which they ended. Handles are
// numbered as they were made; memory that the driver did not give is "host". Only successful calls have results.
#pragma once

#include <atomic>
#include <chrono>
#include <cstdio>

#include "layers/framework/layer.h"
#include "layers/framework/options.h"
#include "layers/trace/call_text.h"

namespace tb::layers {

class Trace : public LayerOf<Trace> {
public:
  static constexpr const char *name = "trace";
  Trace(const tb_host *host, OptionReader &options);
  ~Trace() override;
  void prepare(const tb_driver_api &api, tb_driver *self) override;

  template <Slot S, class... A> tb_status around(On<S>, Next next, A... arguments) {
    const uint64_t number = calls_.fetch_add(1, std::memory_order_relaxed) + 1;
    std::string text = arguments_text<S>(names_, arguments...);
    if constexpr (S == Slot::mem_copy) text += data_text(arguments...);
    const uint64_t taken = number_taken<S>(names_, arguments...);
    const auto start = std::chrono::steady_clock::now();
    const tb_status status = next();
    const auto took = std::chrono::steady_clock::now() - start;
    std::string results = "{}";
    note_taken<S>(names_, taken, status, arguments...);
    if (status == TB_OK) {
      note_objects<S>(names_, arguments...);
      results = results_text<S>(names_, arguments...);
    }
    write(number, S, text, status, std::chrono::nanoseconds(took).count(), results);
    return status;
  }

private:
  std::string data_text(int32_t device, tb_stream *stream, void *dst, const void *src, uint64_t size,
                        int32_t kind) const;
  void write(uint64_t number, Slot slot, const std::string &arguments, tb_status status, int64_t ns,
             const std::string &results);

  const std::string path_;
  const uint64_t bytes_;
  std::FILE *file_ = nullptr;
  std::mutex writing_;
  std::atomic<uint64_t> calls_{0};
  Names names_;
};

} // namespace tb::layers
