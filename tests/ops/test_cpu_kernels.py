"""TB_CPU_KERNELS: PyTorch's kernels, our microkernels after trials, or our microkernels at once."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
import torch

PROGRAM = """
import sys, torch
from tb_ops import _testing
torch.set_num_threads(1)
attend = torch.nn.functional.scaled_dot_product_attention
generator = torch.Generator().manual_seed(0)
heads, matrix = torch.randn(8, 4, 64, 32, generator=generator), torch.randn(128, 128, generator=generator)
image, lstm, sequence = torch.randn(2, 3, 16, 16), torch.nn.LSTM(16, 16), torch.randn(5, 4, 16)
pool = torch.nn.functional.max_pool2d
calls = int(sys.argv[1])
with torch.no_grad():
    for _ in range(calls):
        found = [attend(*[heads.to("tb")] * 3), matrix.to("tb") @ matrix.to("tb"), pool(image.to("tb"), 2)]
        expected = [attend(heads, heads, heads), matrix @ matrix, pool(image, 2)]
        for one, other in zip(found, expected):
            torch.testing.assert_close(one.cpu(), other, rtol=1e-4, atol=1e-5)
        torch.testing.assert_close(lstm.to("tb")(sequence.to("tb"))[0].cpu(), lstm.cpu()(sequence)[0])
print(len(_testing.tried_gemms()), len(_testing.tried_attention()))
"""


def run(value: str | None, calls: int) -> subprocess.CompletedProcess[str]:
    variables = {name: text for name, text in os.environ.items() if name != "TB_CPU_KERNELS"}
    if value is not None:
        variables["TB_CPU_KERNELS"] = value
    command = [sys.executable, "-c", PROGRAM, str(calls)]
    return subprocess.run(command, env=variables, capture_output=True, text=True, timeout=300)


@pytest.mark.parametrize("value", ["off", "on"])
def test_off_and_on_try_nothing(value: str) -> None:
    done = run(value, 8)
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == ["0", "0"]


@pytest.mark.parametrize("value", [None, "verified"])
def test_by_default_a_size_is_tried_once_it_recurs(value: str | None) -> None:
    first, recurring = run(value, 1), run(value, 8)
    assert first.returncode == recurring.returncode == 0, first.stderr + recurring.stderr
    assert first.stdout.split() == ["0", "0"]
    gemms, attentions = map(int, recurring.stdout.split())
    assert (gemms > 0) == (attentions > 0) == (torch.backends.cpu.get_cpu_capability() == "AVX512")


def test_another_value_is_an_error_that_names_the_choices() -> None:
    done = run("fast", 1)
    assert done.returncode != 0
    assert "TB_CPU_KERNELS is 'fast'. It must be off, verified or on." in done.stderr
