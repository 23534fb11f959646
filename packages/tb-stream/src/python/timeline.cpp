// timeline.cpp -- the functions behind tb_stream.trace().
#include "python/timeline.h"

#include <string>

#include "python_errors.h"
#include "recorder.h"
#include "trace_text.h"

namespace nb = nanobind;

namespace tb::stream {
namespace {

// One timeline, from its making on.
class Timeline {
public:
  Timeline() {
    require_driver();
    check(record_start(&recording_), "trace", -1);
  }
  Timeline(const Timeline &) = delete;
  ~Timeline() {
    if (recording_) (void)record_stop(recording_, nullptr, nullptr);
  }

  nb::bytes stop() {
    std::string text;
    tb_status status;
    {
      nb::gil_scoped_release released;
      std::vector<tb_record> records;
      const auto keep = [](void *user, const tb_record *record) {
        static_cast<std::vector<tb_record> *>(user)->push_back(*record);
      };
      status = record_stop(std::exchange(recording_, nullptr), keep, &records);
      text = trace_text(records);
    }
    check(status, "trace", -1);
    return nb::bytes(text.data(), text.size());
  }

private:
  tb_recording *recording_ = nullptr;
};

} // namespace

void bind_timeline(nb::module_ &m) {
  nb::class_<Timeline>(m, "_Timeline").def(nb::init<>()).def("stop", &Timeline::stop);
}

} // namespace tb::stream
