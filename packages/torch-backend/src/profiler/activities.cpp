// activities.cpp -- makes the rows of a trace.
#include "profiler/activities.h"

#include <algorithm>
#include <string_view>
#include <tuple>

#include "components.h"

namespace tb::backend {
namespace {

using libkineto::ActivityType;

// PyTorch looks up its operators' numbers among all rows of the host. Those of calls, which are no operators, begin here.
constexpr int32_t first_call = 1 << 30;

// How torch-backend names the closures that wait for collectives, which have rows of their own.
constexpr std::string_view waiting_prefix = "wait for c10d::";
// The names of collectives, as c10d registers its operators.
constexpr std::string_view collective_prefix = "c10d::";

ActivityType type_of(const tb_record &record) {
  switch (record.kind) {
  case TB_RECORD_COPY:
    return ActivityType::GPU_MEMCPY;
  case TB_RECORD_SET:
    return ActivityType::GPU_MEMSET;
  case TB_RECORD_WAIT_EVENT:
  case TB_RECORD_GRAPH:
    return ActivityType::GPU_USER_ANNOTATION;
  case TB_RECORD_KERNEL:
    if (std::string_view(record.name).starts_with(waiting_prefix)) return ActivityType::GPU_USER_ANNOTATION;
    [[fallthrough]];
  default:
    return ActivityType::CONCURRENT_KERNEL;
  }
}

std::string name_of_call(const tb_record &record) {
  if (record.kind == TB_RECORD_COLLECTIVE) return "tb_collective";
  return record.kind == TB_RECORD_KERNEL ? "tb_launch" : std::string("tb_") + record.name;
}

// Never the operator's own name: key_averages() would then have two rows of it.
std::string name_of_run(const tb_record &record, const libkineto::ITraceActivity *operation) {
  static constexpr const char *copies[] = {"Memcpy", "Memcpy HtoD", "Memcpy DtoH", "Memcpy DtoD"};
  const std::string_view name = record.name;
  switch (record.kind) {
  case TB_RECORD_COPY:
    return copies[record.copy_kind & 3];
  case TB_RECORD_SET:
    return "Memset";
  case TB_RECORD_COLLECTIVE:
  case TB_RECORD_KERNEL: // a function of a module has no name of its own
    return (name == "launch" && operation ? operation->name() : std::string(name)) + " (tb)";
  default:
    return std::string(name);
  }
}

} // namespace

int64_t StreamRows::number(int32_t device, tb_stream *stream) {
  auto &known = streams_[device];
  if (known.empty()) known[components.stream.default_stream(device)] = 0;
  return known.try_emplace(stream, static_cast<int64_t>(known.size())).first->second;
}

std::vector<libkineto::ResourceInfo> StreamRows::resources() const {
  std::vector<libkineto::ResourceInfo> out;
  for (const auto &[device, streams] : streams_)
    for (const auto &[stream, number] : streams)
      out.push_back({number, number, device,
                     !stream  ? "process groups"
                     : number ? "stream " + std::to_string(number)
                              : "stream 0 (default)"});
  return out;
}

std::vector<int32_t> StreamRows::devices() const {
  std::vector<int32_t> out;
  for (const auto &[device, streams] : streams_) out.push_back(device);
  return out;
}

Activities::Activities(const Recording &recording, const EnclosingRanges &ranges, const std::set<ActivityType> &types,
                       libkineto::getLinkedActivityCallback linked, int64_t from, int64_t to)
    : recording_(recording), enclosing_(ranges), types_(types), linked_(std::move(linked)) {
  buffer_->span = libkineto::TraceSpan(from, to, "tb");
  buffer_->gpuOpCount = 0;
}

void Activities::add_all() {
  for (const tb_record &record : recording_.records())
    if (record.graph) graphs_.insert(record.graph);
  for (const tb_record &record : recording_.records()) {
    if (!record.graph) {
      const auto number = static_cast<int32_t>(numbers_.size() + 1);
      numbers_[record.number] = number;
      if (wanted(ActivityType::PRIVATEUSE1_RUNTIME)) add_call(record, number);
    }
    if (record.kind != TB_RECORD_WAIT && record.end && record.device >= 0)
      add_run(record, numbers_[record.graph ? record.graph : record.number]);
  }
}

void Activities::log(libkineto::ActivityLogger &logger) const {
  for (const auto &activity : buffer_->activities) activity->log(logger);
}

Activities::Activity &Activities::add(ActivityType type, const std::string &name, int64_t begin, int64_t end,
                                      Place place, int32_t number, const libkineto::ITraceActivity *operation) {
  buffer_->emplace_activity(buffer_->span, type, name);
  Activity &made = *buffer_->activities.back();
  made.startTime = recording_.unix_time(begin);
  made.endTime = recording_.unix_time(end);
  made.device = static_cast<int32_t>(place.device);
  made.resource = static_cast<int32_t>(place.resource);
  made.threadId = static_cast<int32_t>(place.resource);
  made.id = first_call + number;
  made.linked = operation;
  return made;
}

const libkineto::ITraceActivity *Activities::find_linked(uint64_t number) const {
  return number && linked_ ? linked_(static_cast<int32_t>(number)) : nullptr;
}

void Activities::add_call(const tb_record &record, int32_t number) {
  Activity &call = add(ActivityType::PRIVATEUSE1_RUNTIME, name_of_call(record), record.call_begin, record.call_end,
                       {libkineto::processId(), record.thread}, number, find_linked(record.pushed[TB_PUSHED_OPERATOR]));
  call.addMetadata("correlation", number);
  if (record.kind == TB_RECORD_WAIT) return;
  call.flow.id = static_cast<uint32_t>(number);
  call.flow.type = libkineto::kLinkAsyncCpuGpu;
  call.flow.start = 1;
}

void Activities::add_run(const tb_record &record, int32_t number) {
  const Place place{record.device, streams_.number(record.device, record.stream)};
  const ActivityType type = type_of(record);
  if (type == ActivityType::GPU_USER_ANNOTATION) {
    if (wanted(type)) add_annotation(record, place, number);
    if (record.kind != TB_RECORD_GRAPH || graphs_.contains(record.number)) return;
  }
  const bool whole_graph = record.kind == TB_RECORD_GRAPH; // nothing is known of what it ran
  if (wanted(whole_graph ? ActivityType::CONCURRENT_KERNEL : type)) {
    const auto *operation = find_linked(record.pushed[TB_PUSHED_OPERATOR]);
    Activity &run = add(whole_graph ? ActivityType::CONCURRENT_KERNEL : type,
                        whole_graph ? "graph_launch (tb)" : name_of_run(record, operation), record.begin, record.end,
                        place, number, operation);
    run.flow.id = static_cast<uint32_t>(number);
    run.flow.type = libkineto::kLinkAsyncCpuGpu;
    run.flow.start = 0;
    run.addMetadata("device", record.device);
    run.addMetadata("stream", place.resource);
    run.addMetadata("correlation", number);
    run.addMetadata("queued us", (record.begin - record.call_end) / 1000);
    if (record.bytes) run.addMetadata("bytes", record.bytes);
    if (record.kind == TB_RECORD_COLLECTIVE)
      run.addMetadataQuoted("Collective name", record.name + collective_prefix.size());
    buffer_->gpuOpCount++;
  }
  if (wanted(ActivityType::GPU_USER_ANNOTATION)) extend_ranges(record, place);
}

void Activities::add_annotation(const tb_record &record, Place place, int32_t number) {
  Activity &row = add(ActivityType::GPU_USER_ANNOTATION, record.name, record.begin, record.end, place, number, nullptr);
  row.addMetadata("correlation", number);
}

void Activities::extend_ranges(const tb_record &record, Place place) {
  for (uint64_t range = record.pushed[TB_PUSHED_RANGE]; range;) {
    if (const auto *annotation = find_linked(range)) {
      Activity *&row = ranges_[{place.device, place.resource, range}];
      if (!row)
        row = &add(ActivityType::GPU_USER_ANNOTATION, annotation->name(), record.begin, record.end, place,
                   static_cast<int32_t>(range), nullptr);
      row->startTime = std::min(row->startTime, recording_.unix_time(record.begin));
      row->endTime = std::max(row->endTime, recording_.unix_time(record.end));
    }
    const auto outer = enclosing_.find(range);
    range = outer == enclosing_.end() ? 0 : outer->second;
  }
}

} // namespace tb::backend
