// Drivers that disturb the process they are in.
#include <signal.h>
#include <unistd.h>

#include <cstdlib>

#include "contract/mutant.h"

namespace tb::contract::process_lifetime_mutants {

TB_MUTANT(prc_exit_hangs, "cpu", "E5", "PRC-03", "waits for its queue in an exit handler, for ever") {
  static bool queued = false;
  std::atexit([] {
    while (queued) usleep(1000);
  });
  api.closure_commit = [](tb_driver *self, tb_stream *stream, void *storage, const tb_closure *closure) -> tb_status {
    queued = true;
    return real().closure_commit(self, stream, storage, closure);
  };
}

TB_MUTANT(prc_signal_handler, "cpu", "E5", "PRC-05", "installs a handler for SIGINT while it waits") {
  api.stream_synchronize = [](tb_driver *self, tb_stream *stream) -> tb_status {
    signal(SIGINT, SIG_IGN);
    return real().stream_synchronize(self, stream);
  };
}

} // namespace tb::contract::process_lifetime_mutants
