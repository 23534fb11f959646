// The table takes its functions from the rooms that have them.
#include "operator_table.h"

#include "backends/jit/generated_kernel.h"
#include "custom/custom.h"

namespace tb::ops {
namespace {

const tb_ops_table table{
    sizeof(tb_ops_table), torch_major,  torch_minor,          &on_native,
    &launch_custom,       &launch_code, &jit::load_generated, &jit::launch_generated,
};

} // namespace

const tb_export exported{{'t', 'b', 'e', 'x', 'p', 'o', 'r', 't'},
                         TB_OPS_API_MAJOR,
                         TB_OPS_API_MINOR,
                         sizeof(tb_ops_table),
                         "tb-ops",
                         TB_PACKAGE_VERSION,
                         TB_PLATFORM,
                         &table};

} // namespace tb::ops
