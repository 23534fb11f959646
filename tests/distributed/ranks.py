"""Starts the ranks of a program, ends them all at a time limit, and finds processes that they left behind."""

from __future__ import annotations

import contextlib
import json
import os
import pathlib
import re
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from torch._C._distributed_c10d import TCPStore

TESTS = pathlib.Path(__file__).resolve().parents[1]
# Every process of a run inherits it. Those that leave their parents and sessions are found by it.
MARK = "DISTRIBUTED_TEST_RUN"
SECONDS_FOR_STACKS = 3


@dataclass(frozen=True)
class Run:
    """How the processes ended, in the order of the ranks; torchrun is one process.

    Attributes:
    statuses: as in subprocess: negative for a signal.
    in_time: whether all ended before the limit.
    left: command lines of processes that outlived those that started them. They are killed by now.
    """

    statuses: tuple[int, ...]
    outputs: tuple[str, ...]
    seconds: float
    in_time: bool
    left: tuple[str, ...]

    @property
    def text(self) -> str:
        """What happened, for the message of a failed test: the end of each output."""
        ended = "" if self.in_time else f", killed at the limit after {self.seconds:.0f} s"
        parts = [f"statuses {list(self.statuses)}{ended}; left behind: {list(self.left)}"]
        parts += [f"---- rank {rank}\n{output[-6000:]}" for rank, output in enumerate(self.outputs)]
        return "\n".join(parts)

    def check(self, statuses: Sequence[int] | None = None) -> None:
        """AssertionError: a process ended otherwise (default: with 0), too late, or left another one behind."""
        expected = tuple(statuses or [0] * len(self.statuses))
        assert self.in_time, self.text
        assert not self.left, self.text
        assert self.statuses == expected, self.text


def environment(count: int, more: Mapping[str, str]) -> dict[str, str]:
    """The environment of a rank: of the TB_ variables of this process only TB_DRIVER and the tests' own."""
    clean = {name: value for name, value in os.environ.items() if not re.match("TB_(?!DRIVER$|TEST_)", name)}
    clean.pop("TORCH_DEVICE_BACKEND_AUTOLOAD", None)
    clean |= {"PYTHONPATH": os.pathsep.join([str(TESTS), clean.get("PYTHONPATH", "")]), "PYTHONFAULTHANDLER": "1"}
    return clean | {"OMP_NUM_THREADS": "1", "TB_CPU_DEVICES": str(count), MARK: uuid.uuid4().hex, **more}


def marked(mark: str) -> dict[int, str]:
    """The processes of a run that are there now: command lines by number."""
    found = {}
    wanted = f"{MARK}={mark}".encode()
    for folder in pathlib.Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # another user's, or one that ended meanwhile
            if wanted in (folder / "environ").read_bytes().split(b"\0"):
                found[int(folder.name)] = (
                    (folder / "cmdline").read_bytes().replace(b"\0", b" ").decode(errors="replace")
                )
    return found


def kill(mark: str, number: int, but: int = 0) -> None:
    """Sends a signal to the processes of a run, except that of the number `but`."""
    for process in set(marked(mark)) - {but}:
        with contextlib.suppress(ProcessLookupError):
            os.kill(process, number)


def wait(processes: Sequence[subprocess.Popen[bytes]], seconds: float) -> bool:
    """Whether all end in time."""
    end = time.monotonic() + seconds
    for process in processes:
        try:
            process.wait(max(0.0, end - time.monotonic()))
        except subprocess.TimeoutExpired:
            return False
    return True


@contextlib.contextmanager
def started(
    commands: Sequence[tuple[Sequence[str], Mapping[str, str]]], mark: str, folder: pathlib.Path
) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Processes whose output goes to files of the folder; none of the run is alive at the end."""
    processes = []
    try:
        for rank, (command, env) in enumerate(commands):
            with (folder / f"output.{rank}").open("wb") as output:
                processes.append(
                    subprocess.Popen(command, env=dict(env), stdout=output, stderr=subprocess.STDOUT, cwd=folder)
                )
        yield processes
    finally:
        kill(mark, signal.SIGKILL)
        for process in processes:
            process.wait()


def finish(
    commands: Sequence[tuple[Sequence[str], Mapping[str, str]]], folder: pathlib.Path, seconds: float, forks: int = 0
) -> Run:
    """Runs commands, each with an environment.

    Arguments:
        forks: the ranks that the one command starts as distributed.forked_ranks does; 0: these are no such command.
    """
    folder.mkdir(parents=True, exist_ok=True)
    begin, mark = time.monotonic(), commands[0][1][MARK]
    with started(commands, mark, folder) as processes:
        in_time = wait(processes, seconds)
        elapsed = time.monotonic() - begin
        left = tuple(marked(mark).values()) if in_time else ()
        if not in_time:
            # faulthandler writes the stacks of all threads
            kill(mark, signal.SIGABRT, but=processes[0].pid if forks else 0)
            wait(processes, SECONDS_FOR_STACKS)
    statuses, written = [process.returncode for process in processes], folder / "statuses"
    if forks:
        statuses = json.loads(written.read_text()) if written.exists() else statuses * forks
    outputs = [folder / f"output.{rank}" for rank in range(len(statuses))]
    texts = tuple(output.read_text(errors="replace") if output.exists() else "" for output in outputs)
    return Run(tuple(statuses), texts, elapsed, in_time, left)


def run_ranks(
    module: str,
    count: int,
    arguments: Sequence[str],
    folder: pathlib.Path,
    *,
    seconds: float,
    env: Mapping[str, str] | None = None,
    forked: bool = True,
) -> Run:
    """Runs a module as the ranks of one group, with the variables that torchrun sets.

    The store is in this process, which saves torchrun's start and its search for a free port.

    Arguments:
        forked: they are forks of a process that has imported torch, otherwise each is `python -m MODULE`.
    """
    store = TCPStore("127.0.0.1", 0, None, True, wait_for_workers=False)
    shared = environment(count, env or {})
    shared |= {"MASTER_ADDR": "127.0.0.1", "MASTER_PORT": str(store.port), "TORCHELASTIC_USE_AGENT_STORE": "True"}
    shared |= {"WORLD_SIZE": str(count), "LOCAL_WORLD_SIZE": str(count)}
    if forked:
        command = [sys.executable, "-m", "distributed.forked_ranks", str(folder), str(count), module, *arguments]
        return finish([(command, shared | {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"})], folder, seconds, forks=count)
    ranks = [shared | {"RANK": str(rank), "LOCAL_RANK": str(rank)} for rank in range(count)]
    return finish([([sys.executable, "-m", module, *arguments], rank) for rank in ranks], folder, seconds)


def torchrun(
    module: str,
    count: int,
    arguments: Sequence[str],
    folder: pathlib.Path,
    *,
    seconds: float,
    rendezvous: Sequence[str] = ("--standalone",),
    options: Sequence[str] = (),
    env: Mapping[str, str] | None = None,
) -> Run:
    """Runs torchrun with these options."""
    command = [sys.executable, "-m", "torch.distributed.run", *rendezvous, f"--nproc-per-node={count}", *options]
    return finish([([*command, "-m", module, *arguments], environment(count, env or {}))], folder, seconds)
