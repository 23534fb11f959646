// con.cpp -- drivers that break a rule only when threads race.
#include <atomic>

#include "mutant.h"

namespace tb::contract {
namespace {

TB_MUTANT(failure_told_twice, "cpu", "E4", "CON-09", "a stream's failure is told to whoever asks, again and again") {
  static std::atomic<tb_status> last{TB_OK};
  api.stream_synchronize = [](tb_driver *self, tb_stream *stream) {
    const tb_status status = real().stream_synchronize(self, stream);
    if (status != TB_OK) last = status;
    return last.load();
  };
}

} // namespace
} // namespace tb::contract
