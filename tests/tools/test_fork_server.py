"""A program that the fork server runs behaves as under `python -c`, in what tests of this project look at."""

from __future__ import annotations

import os
import pathlib
import subprocess
import sys
import time

import pytest
from fork_server import IMPORTS_TORCH, run_new_interpreter, run_program

RUNNERS = [run_new_interpreter, run_program]
HEAD = "import torch\n"


def same(code: str, env: dict[str, str] | None = None, cwd: str | None = None) -> subprocess.CompletedProcess[str]:
    """What both ways to run it give."""
    alone, forked = (run(HEAD + code, {**os.environ, **(env or {})}, cwd=cwd) for run in RUNNERS)
    assert (forked.returncode, forked.stdout, forked.stderr) == (alone.returncode, alone.stdout, alone.stderr)
    return forked


def test_it_is_a_fork_and_not_of_this_process() -> None:
    parents = [run_program(HEAD + "import os; print(os.getppid())", os.environ).stdout for _ in range(2)]
    assert len({*parents, f"{os.getpid()}\n"}) == 3
    times = []
    for _ in range(3):
        begin = time.perf_counter()
        assert run_program(HEAD, os.environ).returncode == 0
        times.append(time.perf_counter() - begin)
    alone = time.perf_counter()
    assert run_new_interpreter(HEAD, os.environ).returncode == 0
    assert min(times) < time.perf_counter() - alone


@pytest.mark.parametrize(
    ("code", "status"),
    [
        ("print('text'); import sys; print('more', file=sys.stderr)", 0),
        ("import sys; sys.exit(3)", 3),
        ("raise SystemExit('said')", 1),
        ("def f():\n    raise ValueError('no')\nf()", 1),
        ("def broken(:", 1),
        ("import os, signal; os.kill(os.getpid(), signal.SIGABRT)", -6),
        ("import os; os._exit(9)", 9),
        ("import atexit; atexit.register(print, 'at the end'); print('before')", 0),
        ("import threading; threading.Timer(0.1, print, ['of a thread']).start()", 0),
        ("import sys; print(__name__, sys.argv, sys.path[0], sys.modules['__main__'].__dict__ is globals())", 0),
        ("import pickle\nclass A: pass\nprint(type(pickle.loads(pickle.dumps(A()))).__name__)", 0),
        ("import os; print(os.getcwd(), os.environ['TB_OF_A_TEST'], 'TB_NEVER' in os.environ)", 0),
        ("print(sorted(torch.ones(2, device='tb').tolist()))", 0),
        ("print(torch.tb.is_initialized(), torch.get_num_threads())", 0),
    ],
)
def test_a_program_behaves_as_in_a_new_interpreter(code: str, status: int, tmp_path: pathlib.Path) -> None:
    assert same(code, {"TB_OF_A_TEST": "1"}, str(tmp_path)).returncode == status


def test_a_program_sees_nothing_of_the_one_before() -> None:
    changes = "import os, json; torch.mine = json.mine = 1; os.environ['TB_LEFT'] = '1'; torch.set_default_device('tb')"
    assert run_program(HEAD + changes, os.environ).returncode == 0
    same(
        "import os, json; print(hasattr(torch, 'mine'), hasattr(json, 'mine'), 'TB_LEFT' in os.environ, torch.ones(1))"
    )


def test_a_program_that_hangs_is_ended() -> None:
    begin = time.monotonic()
    code = (
        HEAD + "import os, time; print(os.getpid(), file=open(os.environ['TB_FILE'], 'w'), flush=True); time.sleep(99)"
    )
    with pytest.raises(subprocess.TimeoutExpired):
        run_program(code, {**os.environ, "TB_FILE": os.devnull}, timeout=1)
    assert time.monotonic() - begin < 20
    assert run_program(HEAD + "print(1)", os.environ).stdout == "1\n"


@pytest.mark.parametrize(
    ("top", "forked"),
    [
        ("import torch", True),
        ("\n import sys, torch\n", True),
        ("import sys\nfrom os import path\nimport torch, json\n", True),
        ("import os\nos.environ['X'] = '1'\nimport torch\n", False),
        ("import torch_backend, torch\n", False),
        ("import torch, torch_backend\n", False),
        ("import torch_backend\nimport torch\n", False),
        ("import torch.nn\n", False),
        ("print(1)", False),
    ],
)
def test_what_is_forked(top: str, forked: bool) -> None:
    assert bool(IMPORTS_TORCH.match(top)) == forked


def test_another_environment_is_given_to_a_new_interpreter() -> None:
    code = HEAD + "import os; print(os.getppid(), os.environ['OMP_NUM_THREADS'], torch.get_num_threads())"
    done = run_program(code, {**os.environ, "OMP_NUM_THREADS": "2"})
    assert done.stdout.split() == [str(os.getpid()), "2", "2"], done
    assert sys.executable in done.args
