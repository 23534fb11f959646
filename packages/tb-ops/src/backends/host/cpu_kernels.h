// The environment variable TB_CPU_KERNELS chooses which kernels compute on the CPU: PyTorch's or our microkernels.
#pragma once
#include "intraop/autotuner.h"

namespace tb::ops::host {

enum class CpuKernels {
  off,      // PyTorch's everywhere
  verified, // ours where trials found them bit-identical and faster, and LSTM, whose error the tests hold to PyTorch's
  on,       // ours wherever they support the call, without trials
};

// Returns the variable's value, `verified` by default. It is read once. Throws c10::Error for any other text.
CpuKernels cpu_kernels();

// Whether a microkernel that supports the call computes it. The variable decides; if it is `verified`, a trial does.
template <class Key, class RunTrial>
bool use_microkernel(Autotuner<Key> &autotuner, const Key &key, const RunTrial &run_trial) {
  switch (cpu_kernels()) {
  case CpuKernels::off:
    return false;
  case CpuKernels::on:
    return true;
  case CpuKernels::verified:
    break;
  }
  return autotuner.use_candidate(key, run_trial);
}

// The rule of microkernels: one trial, at the fifth call of a key.
inline constexpr AutotuneRule microkernel_rule{.warmup = 4, .trials = 1, .must_be_faster = true};

} // namespace tb::ops::host
