"""init_process_group() without a backend, in programs for the CPU."""

import pathlib

import pytest
from conftest import Script

START = """
import torch
import torch.distributed as dist
{before}
dist.init_process_group(init_method="file://{store}", rank=0, world_size=1)
x = torch.ones(2)
dist.all_reduce(x)
dist.barrier()
print(dist.get_backend_config(), x.tolist(), torch.tb.is_initialized())
dist.destroy_process_group()
"""


def test_without_a_backend_the_cpus_is_taken(script: Script, tmp_path: pathlib.Path) -> None:
    done = script(START.format(before="", store=tmp_path / "store"))
    assert done.stdout.strip() == "cpu:gloo [1.0, 1.0] False"


def test_a_default_backend_of_tb_is_taken_before(script: Script, tmp_path: pathlib.Path) -> None:
    before = "dist.Backend.default_device_backend_map['tb'] = 'fake'"
    done = script(START.format(before=before, store=tmp_path / "store"), fails=True)
    assert "Unknown c10d backend type FAKE" in done.stderr


@pytest.mark.parametrize("backend", ["gloo", "cpu:gloo,tb:gloo"])
def test_a_backend_that_is_named_is_taken(script: Script, tmp_path: pathlib.Path, backend: str) -> None:
    code = START.format(before="", store=tmp_path / "store").replace("group(init", f"group({backend!r}, init")
    assert "[1.0, 1.0]" in script(code).stdout


def test_pytorch_still_raises_for_an_accelerator_without_a_default_backend(script: Script) -> None:
    """When this fails, _process_groups.py need not replace PyTorch's choice any more."""
    code = """
    from torch.distributed.distributed_c10d import Backend, BackendConfig
    BackendConfig.__init__ = BackendConfig.__init__.__wrapped__
    try:
        BackendConfig(Backend("undefined"))
    except ValueError as error:
        print(error)
    """
    assert "detected accelerator tb" in script(code).stdout
