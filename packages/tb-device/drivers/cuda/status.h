// CUDA's results as statuses of the table, with the library's own names and texts.
#pragma once

#include "drivers/cuda/cuda_api.h"
#include "tb/driver.h"

namespace tb::drivers::cuda {

struct Api;

tb_status status_of(CUresult result);
// The context is broken for good: every later call fails the same way.
bool is_sticky(CUresult result);
// Sets the text: function, name, number, the library's words, and the remedy if there is one.
tb_status fail_cuda(const tb_host *host, const Api &api, tb_status status, CUresult result, const char *function,
                    const char *remedy = nullptr);

} // namespace tb::drivers::cuda
