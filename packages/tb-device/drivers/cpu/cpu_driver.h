// Entry of the CPU driver, the default that is linked into tb_device._core.
//
// The contract is tb_driver_open_v1's (tb/driver.h). It may be opened several times; each self is independent.
// Opening starts no thread and takes little memory: a stream gets its queue and worker at its first work.
//
// It offers every group and the extension tb.graph, with these limits:
//   MODULE    images are shared objects for this machine (tb/host_kernel.h)
//   IPC       only where the system has userfaultfd with write protection (Linux 5.14; Docker's default profile forbids
//             it): elsewhere the group is not offered. Processes share a user and a network namespace
//   tb.graph  captures no mem_alloc_async, mem_free_async, graph_launch or events of other processes: TB_UNSUPPORTED
//
// Options (tb_host.option):
//   devices  how many devices, 1 to 64; default 1
//   memory   limit of each device's memory in bytes, K, M and G are powers of 1024; default: the machine's memory
//   spin     pauses that an idle worker or a waiter spins before it sleeps, 0 to 1000000; default 1000
#pragma once

#include "tb/driver.h"

#ifdef __cplusplus
extern "C" {
#endif

tb_status tb_cpu_driver_open_v1(const tb_host *host, tb_driver_api *api, tb_driver **self);

#ifdef __cplusplus
}
#endif
