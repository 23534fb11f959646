"""A forked child is refused in words; before the first use, and with spawn, everything works."""

from __future__ import annotations

import pytest
from conftest import RunPython

FORK = """
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


def test_a_child_of_a_process_that_used_tb_is_refused_with_the_reason(run_python: RunPython) -> None:
    done = run_python(FORK.format(before='torch.ones(1, device="tb")'))
    assert "child refused: RuntimeError" in done.stdout, done.stdout
    assert "fork" in done.stdout
    assert "spawn" in done.stdout, "the text should say what to do instead"
    assert "parent: [2.0, 2.0]" in done.stdout


def test_a_child_of_a_process_that_did_not_use_tb_may_use_it(run_python: RunPython) -> None:
    done = run_python(FORK.format(before=""))
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
def test_a_question_is_not_a_use(name: str, run_python: RunPython) -> None:
    done = run_python(FORK.format(before=QUESTIONS[name]), env={"TB_CPU_DEVICES": "2"})
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
def test_a_use_refuses_the_child_with_the_reason(name: str, run_python: RunPython) -> None:
    done = run_python(FORK.format(before=USES[name]))
    assert "child refused: RuntimeError" in done.stdout, done.stdout
    assert "fork" in done.stdout
    assert "spawn" in done.stdout
    assert "parent: [2.0, 2.0]" in done.stdout


def test_children_of_a_child_and_several_of_them_use_tb_after_a_question(run_python: RunPython) -> None:
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
    run_python(code)


def test_workers_of_a_data_loader_compute_on_tb_after_device_count(run_python: RunPython) -> None:
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
    run_python(code)


def test_a_forked_child_can_say_so_and_use_the_cpu(run_python: RunPython) -> None:
    code = FORK.replace(
        'print("child:", (torch.ones(3, device="tb") + 1).tolist(), flush=True)',
        'print("child:", torch.tb._is_in_bad_fork(), (torch.ones(3) + 1).tolist(), flush=True)',
    )
    done = run_python(code.format(before='torch.ones(1, device="tb")'))
    assert "child: True [2.0, 2.0, 2.0]" in done.stdout
