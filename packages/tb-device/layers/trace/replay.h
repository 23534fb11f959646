// The driver "replay": answers as the driver whose calls the layer trace recorded, for a program that makes the same
// calls. A bug
// report's trace becomes a test without the device.
//
// Option file: the trace. Each call must be the recorded one with the same arguments, in the same order (programs of
// one thread, or that order their calls themselves); else it fails with TB_DATA_LOSS and a text that says which call
// was expected, and so do all later ones. Statuses, numbers and facts are the recorded ones; memory is the host's,
// copies, sets, closures and host functions run in order on one thread; kernels of modules do nothing. Data
// that was recorded (bytes=N) is compared too. close succeeds once every recorded call was made, or once a mismatch was
// reported.
#pragma once

#include "tb/driver.h"

extern "C" tb_status tb_replay_driver_open_v1(const tb_host *host, tb_driver_api *api, tb_driver **self);
