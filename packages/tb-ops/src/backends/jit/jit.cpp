// Decides which devices the operators serve, and registers them.
#include "backends/jit/jit.h"

#include "backends/jit/compiler/compiler.h"
#include "backends/jit/compiler/image_pack.h"
#include "backends/jit/pointwise.h"
#include "dispatch/fallback_stats.h"
#include "tb_ops/device_kernels/arguments.h"
#include "tensor/copy.h"

namespace tb::ops::jit {
namespace {

std::string obstacle;

} // namespace

bool serves(const Runtime &) {
  const uint64_t needed = TB_GROUP_ASYNC | TB_GROUP_MODULE;
  if (runtime.closures || (runtime.driver->groups & needed) != needed) return false;
  const tb_device_info info = device_info(0);
  obstacle = find_image_packs(info.arch).empty() ? compiler_obstacle(info.arch) : "";
  if (info.max_argument_size && info.max_argument_size < kernels::max_argument_size)
    obstacle = c10::str("tb-ops' kernels have arguments of up to ", kernels::max_argument_size,
                        " bytes, and the device takes ", info.max_argument_size);
  set_fallback_hint(obstacle);
  return obstacle.empty();
}

const std::string &missing_compiler() { return obstacle; }

void install(torch::Library &aten, torch::Library &) {
  if (has_default_kernel()) return register_random(aten);
  set_element_copy(&copy_elements);
  register_activations(aten);
  register_assertions(aten);
  register_channel_norm(aten);
  register_convolution(aten);
  register_elementwise(aten);
  register_fills(aten);
  register_indexing(aten);
  register_losses(aten);
  register_masks(aten);
  register_matmul(aten);
  register_normalization(aten);
  register_optimizers(aten);
  register_pooling(aten);
  register_random(aten);
  register_rearranging(aten);
  register_recurrent(aten);
  register_reductions(aten);
  register_sampling(aten);
  register_scans(aten);
  register_searching(aten);
  register_sorting(aten);
  register_unique(aten);
  register_upsample(aten);
}

} // namespace tb::ops::jit
