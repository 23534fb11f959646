"""Which backends serve a process group, and how their failures read. Groups of one rank; tests/distributed has more."""

import pathlib

import pytest
from conftest import Script

START = """
import torch
import torch.distributed as dist
{before}
dist.init_process_group({backend}init_method="file://{store}", rank=0, world_size=1)
{after}
dist.destroy_process_group()
"""


def run(
    script: Script, store: pathlib.Path, after: str, backend: str = "", before: str = "", fails: bool = False
) -> str:
    chosen = f"{backend!r}, " if backend else ""
    done = script(START.format(store=store, after=after, backend=chosen, before=before), fails=fails)
    return (done.stderr if fails else done.stdout).strip()


REDUCE_BOTH = """
for device in ("cpu", "tb"):
    x = torch.ones(2, device=device)
    dist.all_reduce(x)
    print(x.tolist())
"""


@pytest.mark.parametrize("backend", ["", "tbccl", "TBCCL", "cpu:gloo,tb:tbccl", "gloo"])
def test_tensors_of_tb_and_of_the_cpu_are_served(script: Script, tmp_path: pathlib.Path, backend: str) -> None:
    assert run(script, tmp_path / "store", REDUCE_BOTH, backend) == "[1.0, 1.0]\n[1.0, 1.0]"


def test_a_backend_for_tb_alone_serves_no_others(script: Script, tmp_path: pathlib.Path) -> None:
    assert "No backend type associated with device type cpu" in run(
        script, tmp_path / "store", REDUCE_BOTH, "tb:tbccl", fails=True
    )


def test_a_program_for_the_cpu_opens_no_device(script: Script, tmp_path: pathlib.Path) -> None:
    after = "x = torch.ones(2); dist.all_reduce(x); dist.barrier(); print(torch.tb.is_initialized())"
    assert run(script, tmp_path / "store", after, "gloo") == "False"


def test_import_loads_no_library_for_process_groups(script: Script) -> None:
    assert script("import sys, torch; print('torch_backend._distributed' in sys.modules)").stdout.strip() == "False"


def test_another_default_backend_of_tb_is_taken(script: Script, tmp_path: pathlib.Path) -> None:
    before = "dist.Backend.default_device_backend_map['tb'] = 'fake'"
    assert "Unknown c10d backend type FAKE" in run(script, tmp_path / "store", "", before=before, fails=True)


def test_the_default_backend_is_that_of_tb(script: Script, tmp_path: pathlib.Path) -> None:
    """DistributedDataParallel asks for it."""
    after = "print(dist.group.WORLD.name())"
    assert run(script, tmp_path / "store", after, "cpu:gloo,tb:tbccl") == "custom"


def test_a_setting_that_does_not_exist_is_refused(script: Script, tmp_path: pathlib.Path) -> None:
    before = "import os; os.environ['TB_DISTRIBUTED_WAIT'] = 'device'"
    text = run(script, tmp_path / "store", "", before=before, fails=True)
    assert "TB_DISTRIBUTED_WAIT='device' is neither 'stream'" in text


@pytest.mark.parametrize(
    ("call", "text"),
    [
        ("dist.all_reduce(torch.ones(2, device='tb', dtype=torch.int16))", "all_reduce cannot compute with Short"),
        ("dist.all_reduce(torch.ones(2, device='tb'), op=dist.ReduceOp.BAND)", "Cannot use ReduceOp.BAND with non-int"),
        ("dist.all_gather([torch.ones(2)], torch.ones(2, device='tb'))", "tensors of one device"),
        ("dist.broadcast(torch.eye(2, device='tb').to_sparse(), 0)", "Make the tensor dense"),
    ],
)
def test_what_the_engine_cannot_do_is_refused_at_the_call(
    script: Script, tmp_path: pathlib.Path, call: str, text: str
) -> None:
    after = f"""
try:
    {call}
except Exception as error:
    print(error)
x = torch.ones(1, device="tb")
dist.all_reduce(x)
print(x.item())
"""
    printed = run(script, tmp_path / "store", after)
    assert text in printed
    assert printed.endswith("1.0"), "the group is good for further calls"
