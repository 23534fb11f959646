"""Adds to tb-ops' core_set.txt the kernels that programs use and the list lacks: python tools/checks/core_set.py.

The programs are the cases of tb_ops.device_kernels.check and the random operators, on the driver sim. A kernel that
computes in float is listed for all floating-point types, one of integers for int32 and int64, if they compile.
"""

from __future__ import annotations

import json
import os
import pathlib
import subprocess
import sys
import tempfile

from tb_ops.device_kernels import Kernel, core_set, kernel_of, row, vector_kernels
from tb_ops.device_kernels.pack import make_pack

LIST = pathlib.Path(__file__).parents[2] / "packages/tb-ops/src/tb_ops/device_kernels/core_set.txt"

RANDOM = """
import json, torch, tb_ops
from tb_ops.device_kernels import row, used_kernels
for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16):
    x = torch.empty(33, dtype=dtype, device="tb")
    x.uniform_(), x.normal_(), x.bernoulli_(0.3), x.random_(), x.random_(-7, 93), x.exponential_()
    torch.dropout(x.requires_grad_(), 0.2, True).sum().backward()
    torch.ones_like(x).multinomial(2), torch.ones_like(x).multinomial(2, True)
for dtype in (torch.int64, torch.int32, torch.int16, torch.int8, torch.uint8, torch.bool):
    x = torch.empty(33, dtype=dtype, device="tb")
    x.random_(), x.bernoulli_(0.3)
print(json.dumps({"kernels": [row(kernel) for kernel in used_kernels()]}))
"""
OTHER_TYPES = (("float", ("Half", "Bfloat", "double")), ("Long", ("int",)), ("int", ("Long",)))


def used() -> set[Kernel]:
    """The kernels that the programs use."""
    environment = {**os.environ, "TB_DRIVER": "sim", "TB_FALLBACK": "allow"}
    rows: set[str] = set()
    for arguments in (["-m", "tb_ops.device_kernels.check", "--json"], ["-c", RANDOM]):
        done = subprocess.run(
            [sys.executable, *arguments], env=environment, stdout=subprocess.PIPE, text=True, check=True
        )
        rows.update(json.loads(done.stdout.splitlines()[-1])["kernels"])
    return {kernel_of(row) for row in rows}


def with_other_types(kernels: set[Kernel]) -> set[Kernel]:
    """The kernels and their instances for the other types."""
    out = set(kernels)
    for kernel in kernels:
        name, _, parameters = kernel.function.partition("<")
        for dtype, others in OTHER_TYPES:
            if dtype in parameters.replace(">", "").replace("<", ", ").split(", "):
                out |= {kernel._replace(function=f"{name}<{parameters.replace(dtype, other)}") for other in others}
    return out


def main() -> None:
    before = set(core_set())
    asked = before | used()
    additional = with_other_types(asked) - asked
    with tempfile.TemporaryDirectory() as folder:
        _, failures = make_pack(folder, "host", "none", "", sorted(additional))
    kernels = (asked | additional.difference(failures)) - set(vector_kernels(core_set()))
    head = [line for line in LIST.read_text().splitlines() if line.startswith("#")]
    LIST.write_text("\n".join(head + sorted(row(kernel) for kernel in kernels)) + "\n")
    print(f"{len(kernels)} kernels, {len(kernels - before)} of them new")


if __name__ == "__main__":
    main()
