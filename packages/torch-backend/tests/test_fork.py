"""A forked child of a process that used tb is refused with the reason. Children forked before, or spawned, work."""

import pathlib
import sys
import textwrap

import pytest
from conftest import Script

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="no fork")

# `forked` runs a function in a forked child and checks that the child exits with status 0.
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


def test_every_use_in_the_child_raises_the_reason(script: Script) -> None:
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


# The code `before` runs before the fork and decides whether the child may use tb.
FORK_AFTER = """
import os, torch
{before}
child = os.fork()
if child == 0:
    try:
        print("child:", (torch.ones(3, device="tb") + 1).tolist(), flush=True)
    except Exception as error:
        print("child refused:", type(error).__name__, str(error).replace("\\n", " "), flush=True)
    os._exit(0)
_, status = os.waitpid(child, 0)
assert status == 0, status
print("parent:", (torch.ones(2, device="tb") + 1).tolist())
"""


def test_a_child_of_a_process_that_used_tb_is_refused_with_the_reason(script: Script) -> None:
    done = script(FORK_AFTER.format(before='torch.ones(1, device="tb")'))
    assert "child refused: RuntimeError" in done.stdout, done.stdout
    assert "fork" in done.stdout
    assert "spawn" in done.stdout, "the text should say what to do instead"
    assert "parent: [2.0, 2.0]" in done.stdout


def test_a_child_of_a_process_that_did_not_use_tb_may_use_it(script: Script) -> None:
    done = script(FORK_AFTER.format(before=""))
    assert "child: [2.0, 2.0, 2.0]" in done.stdout
    assert "parent: [2.0, 2.0]" in done.stdout


QUESTIONS = {
    "is_available": "torch.accelerator.is_available()",
    "device_count": "torch.accelerator.device_count()",
    "tb_device_count": "assert torch.tb.is_available() and torch.tb.device_count() == 2",
    "current_accelerator": "torch.accelerator.current_accelerator(check_available=True)",
    "properties": "torch.tb.get_device_properties(0)",
    "capability": "torch.accelerator.get_device_capability()",
    "memory_info": "torch.tb.mem_get_info()",
    "memory_allocated": "assert torch.accelerator.memory_allocated() == 0",
    "current_device": "torch.accelerator.current_device_index()",
    "current_device_set": "torch.accelerator.set_device_index(1)",
    "current_stream": "torch.accelerator.current_stream()",
    "synchronize": "torch.accelerator.synchronize()",
    "manual_seed": "torch.manual_seed(3); torch.tb.manual_seed_all(3)",
    "generator": "torch.Generator('tb').manual_seed(3); torch.tb.get_rng_state()",
    "host_only": "torch.nn.Linear(2, 2)(torch.ones(1, 2)).sum().backward()",
    "tb_device": "import tb_device; assert len(tb_device.devices()) == 2 and tb_device.devices()[0].properties.name",
    "all": "torch.tb.init(); torch.accelerator.device_count(); torch.tb.current_stream(); torch.manual_seed(1)",
}


@pytest.mark.parametrize("name", QUESTIONS)
def test_a_query_does_not_count_as_a_use_of_tb(name: str, script: Script) -> None:
    done = script(FORK_AFTER.format(before=QUESTIONS[name]), TB_CPU_DEVICES="2")
    assert "child: [2.0, 2.0, 2.0]" in done.stdout, done.stdout
    assert "parent: [2.0, 2.0]" in done.stdout


USES = {
    "tensor": "torch.ones(1, device='tb')",
    "empty": "torch.empty(1, device='tb')",
    "to": "torch.ones(1).to('tb')",
    "storage": "torch.UntypedStorage(4, device='tb')",
    "stream": "torch.Stream(device='tb')",
    "event": "torch.Event(device='tb').record()",
    "pinned": "torch.ones(1).pin_memory()",
    "random": "torch.rand(3, device='tb')",
    "callback": "import tb_stream; tb_stream.current_stream().add_callback(len, ())",
    "buffer": "import tb_allocator; tb_allocator.empty(8)",
    "address": "import tb_device; tb_device.default_driver().mem_alloc(0, 8)",
    "layers": "import os; os.environ['TB_LAYERS'] = 'validate'; torch.accelerator.device_count()",
    "threads": "import os; os.environ['TB_DRIVER'] = 'sim'; torch.accelerator.device_count()",
}


@pytest.mark.parametrize("name", USES)
def test_a_use_refuses_the_child_with_the_reason(name: str, script: Script) -> None:
    done = script(FORK_AFTER.format(before=USES[name]))
    assert "child refused: RuntimeError" in done.stdout, done.stdout
    assert "fork" in done.stdout
    assert "spawn" in done.stdout
    assert "parent: [2.0, 2.0]" in done.stdout


def test_children_of_a_child_and_several_of_them_use_tb_after_a_question(script: Script) -> None:
    code = """
    import os, torch
    assert torch.accelerator.device_count() == 1 and not torch.tb.is_initialized()

    def child(depth):
        pid = os.fork()
        if pid:
            return pid
        for inner in [child(depth - 1) for _ in range(2)] if depth else []:
            assert os.waitpid(inner, 0)[1] == 0
        assert not torch.tb._is_in_bad_fork()
        assert (torch.full((1000,), float(depth), device="tb") + 1).sum().item() == 1000 * (depth + 1)
        os._exit(0)

    for pid in [child(2) for _ in range(3)]:
        assert os.waitpid(pid, 0)[1] == 0
    assert (torch.ones(2, device="tb") + 1).tolist() == [2, 2]
    if os.fork() == 0:
        assert torch.tb._is_in_bad_fork()  # by now it is used
        os._exit(0)
    assert os.wait()[1] == 0
    """
    script(code)


def test_workers_of_a_data_loader_compute_on_tb_after_device_count(script: Script) -> None:
    code = """
    import torch

    class Squares(torch.utils.data.Dataset):
        def __len__(self):
            return 8

        def __getitem__(self, place):
            return (torch.full((2,), float(place), device="tb") ** 2).cpu()

    assert torch.accelerator.is_available() and torch.accelerator.device_count() == 1
    loader = torch.utils.data.DataLoader(Squares(), batch_size=2, num_workers=2, multiprocessing_context="fork")
    values = [row[0] for batch in loader for row in batch.to("tb").tolist()]
    assert values == [float(place * place) for place in range(8)], values
    """
    script(code)


def test_a_forked_child_can_report_that_it_is_one_and_use_the_cpu(script: Script) -> None:
    code = FORK_AFTER.replace(
        'print("child:", (torch.ones(3, device="tb") + 1).tolist(), flush=True)',
        'print("child:", torch.tb._is_in_bad_fork(), (torch.ones(3) + 1).tolist(), flush=True)',
    )
    done = script(code.format(before='torch.ones(1, device="tb")'))
    assert "child: True [2.0, 2.0, 2.0]" in done.stdout
