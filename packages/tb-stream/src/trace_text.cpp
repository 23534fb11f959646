// trace_text.cpp -- a timeline as Chrome's and Perfetto's JSON: complete events ("X"), arrows ("s", "f"), names ("M").
#include "trace_text.h"

#include <map>
#include <set>

#include "host.h"
#include "streams.h"

namespace tb::stream {
namespace {

constexpr int host_process = 1; // the devices follow

struct Row {
  int process, number;
};

void append(std::string &out, const char *format, auto... values) {
  char text[256];
  snprintf(text, sizeof text, format, values...);
  out += text;
}

std::string quoted(const std::string &text) {
  std::string out = "\"";
  for (const char each : text) {
    if (each == '"' || each == '\\') out += '\\';
    if (static_cast<unsigned char>(each) >= ' ') out += each;
  }
  return out + '"';
}

void name(std::string &out, const char *what, Row row, const std::string &text) {
  append(out, "{\"ph\":\"M\",\"name\":\"%s\",\"pid\":%d,\"tid\":%d,\"args\":{\"name\":", what, row.process, row.number);
  out += quoted(text) + "}},\n";
}

// Rows in the order of their first record.
class Rows {
public:
  Row of(const TraceRecord &record) {
    if (record.kind != TraceRecord::Kind::run) {
      threads_.insert(record.thread);
      return {host_process, record.thread};
    }
    auto [found, fresh] = streams_.try_emplace(record.stream);
    if (fresh) found->second = make(record.stream);
    return found->second;
  }

  void write_names(std::string &out) const {
    name(out, "process_name", {host_process, 0}, "host");
    for (const int32_t thread : threads_)
      name(out, "thread_name", {host_process, thread}, "thread " + std::to_string(thread));
    std::set<int> processes;
    for (const auto &[stream, row] : streams_) {
      const int device = row.process - host_process - 1;
      if (processes.insert(row.process).second)
        name(out, "process_name", {row.process, 0},
             device < 0 ? "foreign streams" : "device " + std::to_string(device));
      const bool standard = device >= 0 && stream == default_stream(device);
      char text[64];
      snprintf(text, sizeof text, "stream %d (%p)", row.number, static_cast<void *>(stream));
      name(out, "thread_name", row, standard ? "default stream" : text);
    }
  }

private:
  Row make(tb_stream *stream) {
    int32_t device = -1;
    if (stream_device(stream, &device) != TB_OK) {
      tb_error error{};
      error.struct_size = sizeof error;
      host.take_error(&error);
    }
    return {device < 0 ? 0 : host_process + 1 + device, static_cast<int>(streams_.size())};
  }

  std::map<tb_stream *, Row> streams_;
  std::set<int32_t> threads_;
};

void write(std::string &out, const TraceRecord &record, Row row, int64_t start) {
  constexpr const char *categories[] = {"launch", "run", "wait"};
  const double begin = static_cast<double>(record.begin - start) / 1e3;
  append(out, "{\"ph\":\"X\",\"cat\":\"%s\",\"pid\":%d,\"tid\":%d,\"ts\":%.3f,\"dur\":%.3f,\"name\":",
         categories[static_cast<int>(record.kind)], row.process, row.number, begin,
         static_cast<double>(record.end - record.begin) / 1e3);
  out += quoted(record.name) + "},\n";
  if (record.number == 0) return;
  const bool runs = record.kind == TraceRecord::Kind::run;
  append(out,
         "{\"ph\":\"%s\",\"cat\":\"queue\",\"name\":\"queued\",\"id\":%llu,\"pid\":%d,\"tid\":%d,\"ts\":%.3f%s},\n",
         runs ? "f" : "s", static_cast<unsigned long long>(record.number), row.process, row.number, begin,
         runs ? ",\"bp\":\"e\"" : "");
}

} // namespace

std::string trace_text(const std::vector<TraceRecord> &records, int64_t start) {
  std::string out = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
  Rows rows;
  for (const TraceRecord &record : records) write(out, record, rows.of(record), start);
  rows.write_names(out);
  out.resize(out.size() - 2); // the last comma
  return out + "\n]}\n";
}

} // namespace tb::stream
