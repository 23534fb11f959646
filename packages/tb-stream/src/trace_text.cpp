// trace_text.cpp -- a recording as Chrome's and Perfetto's JSON: complete events ("X"), arrows ("s", "f"), names ("M").
#include "trace_text.h"

#include <map>
#include <set>

#include "streams.h"

namespace tb::stream {
namespace {

constexpr int host_process = 1; // the devices follow

struct Row {
  int process;
  int64_t number;
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
  append(out, "{\"ph\":\"M\",\"name\":\"%s\",\"pid\":%d,\"tid\":%lld,\"args\":{\"name\":", what, row.process,
         static_cast<long long>(row.number));
  out += quoted(text) + "}},\n";
}

// Rows of streams are numbered in the order of their first record.
class Rows {
public:
  Row of_caller(const tb_record &record) {
    threads_.insert(record.thread);
    return {host_process, record.thread};
  }
  Row of_stream(const tb_record &record) {
    const int process = record.device < 0 ? 0 : host_process + 1 + record.device;
    return streams_.try_emplace(record.stream, Row{process, static_cast<int64_t>(streams_.size()) + 1}).first->second;
  }

  void write_names(std::string &out) const {
    name(out, "process_name", {host_process, 0}, "host");
    for (const int64_t thread : threads_)
      name(out, "thread_name", {host_process, thread}, "thread " + std::to_string(thread));
    std::set<int> processes;
    for (const auto &[stream, row] : streams_) {
      const int device = row.process - host_process - 1;
      if (processes.insert(row.process).second)
        name(out, "process_name", {row.process, 0},
             device < 0 ? "foreign streams" : "device " + std::to_string(device));
      const bool standard = device >= 0 && stream == default_stream(device);
      char text[64];
      snprintf(text, sizeof text, "stream %lld (%p)", static_cast<long long>(row.number), static_cast<void *>(stream));
      name(out, "thread_name", row, standard ? "default stream" : text);
    }
  }

private:
  std::map<tb_stream *, Row> streams_;
  std::set<int64_t> threads_;
};

class Text {
public:
  explicit Text(int64_t start) : start_(start) {}

  void span(const char *category, const char *name, Row row, int64_t begin, int64_t end) {
    append(out_, "{\"ph\":\"X\",\"cat\":\"%s\",\"pid\":%d,\"tid\":%lld,\"ts\":%.3f,\"dur\":%.3f,\"name\":", category,
           row.process, static_cast<long long>(row.number), microseconds(begin - start_), microseconds(end - begin));
    out_ += quoted(name) + "},\n";
  }
  void arrow(bool ends, uint64_t number, Row row, int64_t time) {
    append(out_,
           "{\"ph\":\"%s\",\"cat\":\"queue\",\"name\":\"queued\",\"id\":%llu,\"pid\":%d,\"tid\":%lld,\"ts\":%.3f%s},\n",
           ends ? "f" : "s", static_cast<unsigned long long>(number), row.process, static_cast<long long>(row.number),
           microseconds(time - start_), ends ? ",\"bp\":\"e\"" : "");
  }
  std::string finish(const Rows &rows) {
    rows.write_names(out_);
    out_.resize(out_.size() - 2); // the last comma
    return std::move(out_) + "\n]}\n";
  }

private:
  static double microseconds(int64_t nanoseconds) { return static_cast<double>(nanoseconds) / 1e3; }

  const int64_t start_;
  std::string out_ = "{\"displayTimeUnit\":\"ms\",\"traceEvents\":[\n";
};

} // namespace

std::string trace_text(const std::vector<tb_record> &records) {
  Text text(records.empty() ? 0 : records.front().call_begin);
  Rows rows;
  for (const tb_record &record : records) {
    const bool waits = record.kind == TB_RECORD_WAIT, ran = !waits && record.end != 0;
    if (!record.graph) {
      const Row caller = rows.of_caller(record);
      text.span(waits ? "wait" : "launch", record.name, caller, record.call_begin, record.call_end);
      if (ran) text.arrow(false, record.number, caller, record.call_begin);
    }
    if (!ran) continue;
    const Row stream = rows.of_stream(record);
    text.span("run", record.name, stream, record.begin, record.end);
    if (!record.graph) text.arrow(true, record.number, stream, record.begin);
  }
  return text.finish(rows);
}

} // namespace tb::stream
