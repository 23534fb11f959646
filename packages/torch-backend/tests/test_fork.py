"""A forked child of a process that used tb gets an error with a text; a child that was forked before can use tb."""

import pathlib
import sys
import textwrap

import pytest
from conftest import Script

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no fork")

# `child` runs in a forked child; its exit status, or the signal that ended it, is checked.
FORK = """
import os, torch

def forked(child):
    pid = os.fork()
    if pid == 0:
        try:
            child()
        except BaseException as error:
            print(f"{type(error).__name__}: {error}", flush=True)
            os._exit(1)
        os._exit(0)
    assert os.waitpid(pid, 0)[1] == 0
"""


def test_every_use_in_the_child_says_why(script: Script) -> None:
    code = (
        FORK
        + """
import pytest
keep = torch.ones(4, device="tb")
(keep.requires_grad_() * 2).sum().backward()
event = torch.tb.Event(); event.record()
pinned = torch.ones(2).pin_memory()
torch.tb.synchronize()

def child():
    assert torch.tb._is_in_bad_fork() and not torch.tb.is_initialized()
    assert torch.tb.device_count() == 0 and not torch.tb.is_available()
    for use in (
        lambda: torch.ones(1, device="tb"),
        lambda: torch.zeros(2).to("tb"),
        lambda: keep + 1,
        lambda: keep.detach().clone(),
        lambda: keep.tolist(),
        lambda: keep.cpu(),
        lambda: torch.tb.current_device(),
        lambda: torch.tb.synchronize(),
        lambda: torch.tb.current_stream(),
        lambda: torch.tb.current_stream(0),
        lambda: event.synchronize(),
        lambda: torch.tb.memory_allocated(),
        lambda: torch.empty(1, pin_memory=True),
        lambda: torch.UntypedStorage(4, device="tb"),
    ):
        with pytest.raises(RuntimeError, match="(?s)fork.*spawn|spawn.*fork"):
            use()
    torch.manual_seed(1)
    assert torch.ones(2).add(1).tolist() == [2, 2]

forked(child)
assert (keep + 1).tolist() == [2] * 4
"""
    )
    script(code)


def test_tensors_of_the_parent_can_die_in_the_child(script: Script) -> None:
    code = (
        FORK
        + """
import gc
keep = [torch.ones(1 << 16, device="tb"), torch.ones(10).pin_memory(), torch.tb.Event()]
keep[2].record()
def child():
    keep.clear()
    gc.collect()
forked(child)
"""
    )
    script(code)


def test_a_child_forked_before_the_first_use_works(script: Script) -> None:
    code = (
        FORK
        + """
def child():
    assert not torch.tb._is_in_bad_fork()
    assert (torch.ones(2, device="tb") + 1).tolist() == [2, 2]
forked(child)
assert (torch.ones(2, device="tb") + 1).tolist() == [2, 2]
"""
    )
    script(code)


def test_data_loader_workers_work_beside_tb(script: Script) -> None:
    code = """
    import torch
    torch.ones(1, device="tb")
    data = torch.utils.data.TensorDataset(torch.arange(8.0))
    loader = torch.utils.data.DataLoader(data, batch_size=4, num_workers=1, pin_memory=True)
    values = [value for (batch,) in loader for value in batch.to("tb", non_blocking=True).tolist()]
    assert values == list(range(8)), values
    """
    script(code)


def test_spawned_children_work(script: Script, tmp_path: pathlib.Path) -> None:
    program = """
    import torch, torch.multiprocessing as mp
    def child(rank):
        assert (torch.ones(2, device="tb") + rank).tolist() == [1 + rank] * 2
    if __name__ == "__main__":
        torch.ones(1, device="tb")
        mp.spawn(child, nprocs=1)
        print("joined")
    """
    (tmp_path / "main.py").write_text(textwrap.dedent(program))
    code = "import subprocess, sys; subprocess.run([sys.executable, 'main.py'], check=True)"
    assert "joined" in script(code).stdout
