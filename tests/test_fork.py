"""A forked child is refused in words; before the first use, and with spawn, everything works."""

from __future__ import annotations

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


def test_a_forked_child_can_say_so_and_use_the_cpu(run_python: RunPython) -> None:
    code = FORK.replace(
        'print("child:", (torch.ones(3, device="tb") + 1).tolist(), flush=True)',
        'print("child:", torch.tb._is_in_bad_fork(), (torch.ones(3) + 1).tolist(), flush=True)',
    )
    done = run_python(code.format(before='torch.ones(1, device="tb")'))
    assert "child: True [2.0, 2.0, 2.0]" in done.stdout
