// activities.h -- the rows of a trace: what was recorded, as Kineto's activities.
//
// A call is a row of its thread ("tb_launch", "tb_mem_copy"), and what it queued is a row of its stream, under the name of
// the operator. An arrow leads from the first to the second; both are linked to the operator that PyTorch recorded. Work
// of a graph has the call that launched the graph. A range of torch.profiler.record_function has a row on each stream
// on which its work ran, and so have a graph and a wait for an event; those count as no work.
#pragma once

#include <libkineto.h>
#include <output_base.h>

#include <map>
#include <memory>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "profiler/recording.h"

namespace tb::backend {

// The ranges of record_function that enclose each range, by the numbers that PyTorch pushes.
using EnclosingRanges = std::unordered_map<uint64_t, uint64_t>;

// The numbers of a device's streams in the trace: 0 is the default stream, the others follow as they come.
class StreamRows {
public:
  int64_t number(int32_t device, tb_stream *stream);
  std::vector<libkineto::ResourceInfo> resources() const;
  std::vector<int32_t> devices() const;

private:
  std::map<int32_t, std::map<tb_stream *, int64_t>> streams_;
};

class Activities {
public:
  // `linked` gives PyTorch's own row of a number that it pushed; it may be empty.
  Activities(const Recording &recording, const EnclosingRanges &ranges, const std::set<libkineto::ActivityType> &types,
             libkineto::getLinkedActivityCallback linked, int64_t from, int64_t to);

  void add_all();
  void log(libkineto::ActivityLogger &logger) const;
  const StreamRows &streams() const { return streams_; }
  std::unique_ptr<libkineto::CpuTraceBuffer> take_buffer() { return std::move(buffer_); }

private:
  struct Place {
    int64_t device, resource;
  };
  using Activity = libkineto::GenericTraceActivity;

  Activity &add(libkineto::ActivityType type, const std::string &name, int64_t begin, int64_t end, Place place,
                int32_t number, const libkineto::ITraceActivity *operation);
  const libkineto::ITraceActivity *find_linked(uint64_t number) const;
  bool wanted(libkineto::ActivityType type) const { return types_.contains(type); }
  void add_call(const tb_record &record, int32_t number);
  void add_run(const tb_record &record, int32_t number);
  void add_annotation(const tb_record &record, Place place, int32_t number);
  void extend_ranges(const tb_record &record, Place place);

  const Recording &recording_;
  const EnclosingRanges &enclosing_;
  const std::set<libkineto::ActivityType> &types_;
  const libkineto::getLinkedActivityCallback linked_;
  std::unique_ptr<libkineto::CpuTraceBuffer> buffer_ = std::make_unique<libkineto::CpuTraceBuffer>();
  StreamRows streams_;
  std::unordered_map<uint64_t, int32_t> numbers_; // of the calls, by their records' numbers
  std::set<uint64_t> graphs_;                     // launches whose operations were recorded
  std::map<std::tuple<int64_t, int64_t, uint64_t>, Activity *> ranges_;
};

} // namespace tb::backend
