// Entry of the CUDA driver, part of tb_device._core. README.md says what was tested where.
//
// The contract is tb_driver_open_v1's (tb/driver.h). It opens libcuda at run time and links nothing of it. Devices are
// used through their primary contexts, which torch.cuda and everything on the CUDA runtime share; a context is made by
// the first use of a device, never by a question about it. Every call names its device and leaves the thread's current
// context as it was.
//
// A group is offered where libcuda has all functions that it needs (functions.inc). Limits:
//   ASYNC      the default stream is CUDA's legacy one, which other libraries' blocking streams wait for; streams made
//              here do not. Copies between device and pageable memory may wait for the stream, as CUDA's do
//   CORE       mem_free may wait for the device, as cuMemFree does. Before the first use of a device,
//              device_memory_info counts nothing as used. A failing kernel loses the device (TB_DEVICE_LOST) until
//              device_reset, which takes its memory from all users in the process
//   VMM        memory is mapped from its start only
//   tb.graph   captures no mem_alloc_async, mem_free_async, graph_launch, nor copies between overlapping ranges
//
// Options (tb_host.option):
//   library    the file to open instead of libcuda.so.1
#pragma once

#include "tb/driver.h"

#ifdef __cplusplus
extern "C" {
#endif

tb_status tb_cuda_driver_open_v1(const tb_host *host, tb_driver_api *api, tb_driver **self);

#ifdef __cplusplus
}
#endif
