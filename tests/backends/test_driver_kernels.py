"""A driver with kernels of its own: new-driver's template with a get_extension that gives a table for aten::gelu."""

from __future__ import annotations

import pathlib
import subprocess
from collections.abc import Callable

import pytest
from conftest import ROOT, RunPython

TEMPLATE = ROOT / "packages" / "tb-device" / "src" / "tb_device" / "new_driver" / "c" / "mychip.c"
ENTRY = "TB_EXPORT tb_status tb_driver_open_v1("
KERNELS = """
#include "tb/kernels.h"
#include <math.h>

/* The driver has no streams: work is done on return. */
static tb_status run_gelu(void *self, const tb_kernel_call *call) {
  const float *from = call->arguments[0].tensors->data;
  float *to = call->outputs->data;
  int64_t count = 1;
  for (int32_t i = 0; i < call->outputs->dims; ++i) count *= call->outputs->sizes[i];
  if (count == 13) return tb_fail(((tb_driver *)self)->host, TB_INTERNAL, "mychip dislikes 13 elements");
  for (int64_t i = 0; i < count; ++i) to[i] = 0.5f * from[i] * (1 + erff(from[i] * 0.70710678f));
  return TB_OK;
}
static tb_status plan_gelu(void *self, const tb_kernel_call *call, uint64_t *workspace_size, void **plan) {
  if (call->arguments[1].text[0] == 'n') return TB_OK;
  return tb_fail(((tb_driver *)self)->host, TB_UNSUPPORTED, "mychip has the exact form only");
}
static const tb_kernel kernel = {.struct_size = sizeof kernel, .name = "mychip.gelu", .operation = "aten::gelu.out",
    .dtypes = TB_DTYPE_BIT(TB_DTYPE_FLOAT32), .layouts = TB_LAYOUT_DENSE, .plan = plan_gelu, .run = run_gelu};

static tb_status get_extension(tb_driver *self, const char *name, uint32_t version, void *table, uint32_t size) {
  if (strcmp(name, TB_KERNELS_EXTENSION) != 0 || version != TB_KERNELS_VERSION)
    return tb_fail(self->host, TB_NOT_FOUND, "mychip has the extension tb.kernels only");
  const tb_kernels mine = {
      .struct_size = sizeof mine, .kernel_count = 1, .kernel_size = sizeof kernel, .kernels = &kernel, .self = self};
  return tb_struct_fill(table, &mine);
}
"""


@pytest.fixture
def driver(tmp_path: pathlib.Path, compile_driver: Callable[[pathlib.Path], pathlib.Path]) -> str:
    text = TEMPLATE.read_text()
    assert text.count(ENTRY) == text.count(".mem_set = mem_set}") == 1
    text = text.replace(ENTRY, KERNELS + ENTRY)
    source = tmp_path / "mychip.c"
    source.write_text(text.replace(".mem_set = mem_set}", ".mem_set = mem_set, .get_extension = get_extension}"))
    return str(compile_driver(source))


def run(run_python: RunPython, driver: str, code: str, **env: str) -> subprocess.CompletedProcess[str]:
    prelude = "import torch, tb_ops\ngelu = torch.nn.functional.gelu\nx = torch.randn(4, 8)\n"
    return run_python(prelude + code, env={"TB_DRIVER": driver, **env})


@pytest.mark.parametrize("layers", ["", "validate,leak", "trace:file=/dev/null", "races"])
def test_its_table_serves_calls_that_fit_and_leaves_the_others(run_python: RunPython, driver: str, layers: str) -> None:
    code = """
for dtype, approximate in ((torch.float32, "none"), (torch.float32, "tanh"), (torch.float64, "none")):
    y = gelu(x.to("tb", dtype), approximate=approximate).cpu()
    torch.testing.assert_close(y, gelu(x.to(dtype), approximate=approximate))
u = x.to("tb")
assert torch.ops.aten.gelu_(u) is u
torch.testing.assert_close(u.cpu(), gelu(x))
[kernel] = tb_ops.vendor_kernels()
assert kernel == (
    "mychip.gelu", "aten::gelu.out", "the driver mychip", 2,
    {"its plan: mychip has the exact form only": 1, "output: dtype Double": 1}, "",
), kernel
assert {row.operator: row.calls for row in tb_ops.fallbacks()} == {"aten::gelu.out": 2}, tb_ops.fallbacks()
assert [row.serves for row in tb_ops.backends() if row.name == "vendor"] == [True]
"""
    run(run_python, driver, code, TB_LAYERS=layers)


def test_a_failure_has_the_drivers_text(run_python: RunPython, driver: str) -> None:
    code = """
try:
    gelu(torch.ones(13, device="tb"))
except RuntimeError as error:
    print(str(error).splitlines()[0])
"""
    text = run(run_python, driver, code).stdout
    assert "mychip.gelu(device=0) failed" in text
    assert "mychip dislikes 13 elements" in text


def test_a_layer_that_cannot_pass_the_table_says_so(run_python: RunPython, driver: str) -> None:
    code = """
torch.testing.assert_close(gelu(x.to("tb")).cpu(), gelu(x))
assert tb_ops.vendor_kernels() == []
"""
    done = run(run_python, driver, code, TB_LAYERS="serialise")
    assert "The driver's own kernels (tb.kernels) are not used" in done.stderr
    assert "which the layer serialise cannot prevent" in done.stderr
