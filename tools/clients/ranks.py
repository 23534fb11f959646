"""Checks of a client on several ranks, which torchrun starts: python -m clients.ranks MODULE FUNCTION DEVICE FOLDER."""

from __future__ import annotations

import dataclasses
import hashlib
import importlib
import json
import os
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from clients.checks import Ran, device_type

RANKS = 2
SECONDS = 120
"""After this time the ranks are ended, and the check has failed."""
SECONDS_TO_END = 60
"""For torchrun to end its ranks. It kills those that have not obeyed after half of this time."""
BACKENDS = {"cpu": "gloo", "tb": "tbccl"}
"""The backend that serves each device in the default process group."""


@dataclasses.dataclass(frozen=True)
class Found:
    """What a program's function returns in each rank, as JSON can hold it.

    Attributes:
    values: what is compared between the devices, rank by rank.
    same: what all ranks must agree on, such as the digest of trained parameters.
    """

    device: str
    values: Any
    same: Any = None


@dataclasses.dataclass(frozen=True)
class Rank:
    """What a rank found, its process group, and the operators that fell back to the CPU in it."""

    found: Found
    size: int
    backend: str
    fallbacks: Sequence[str]


def digest(parameters: Iterable[Any]) -> str:
    """Of the bits of tensors; a sharded one is gathered first."""
    import torch

    whole = [parameter.full_tensor() if hasattr(parameter, "full_tensor") else parameter for parameter in parameters]
    bits = [tensor.detach().cpu().flatten().view(torch.uint8).numpy().tobytes() for tensor in whole]
    return hashlib.sha256(b"".join(bits)).hexdigest()[:16]


def on_ranks(program: str, function: str) -> Callable[[str], Ran]:
    """A check that runs a function of `clients.programs`. It gets the device, and a folder that all ranks share."""

    def check(device: str) -> Ran:
        return together(device, run_ranks(f"clients.programs.{program}", function, device))

    return check


def run_ranks(module: str, function: str, device: str, count: int = RANKS, seconds: float = SECONDS) -> list[Rank]:
    """Runs a function in the ranks of one group. RuntimeError: a rank failed, or they took longer than `seconds`."""
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={count}"]
        command += ["-m", "clients.ranks", module, function, device, folder]
        output = pathlib.Path(folder) / "output"
        with output.open("wb") as file:
            environment = {"OMP_NUM_THREADS": "1", **os.environ}
            process = subprocess.Popen(command, env=environment, stdout=file, stderr=subprocess.STDOUT)
            in_time = _ended(process, seconds)
        text = output.read_text(errors="replace")[-6000:]
        files = [_file(folder, rank) for rank in range(count)]
        entries = [json.loads(file.read_text()) if file.exists() else {} for file in files]
    what = f"{function} of {module} on {device}"
    if not in_time:
        raise RuntimeError(f"the ranks of {what} had not ended after {seconds} s\n{text}")
    errors = [f"rank {rank}: {entry['error']}" for rank, entry in enumerate(entries) if "error" in entry]
    if errors or process.returncode or not all(entries):
        reason = errors[0] if errors else f"torchrun ended with status {process.returncode}"
        raise RuntimeError(f"{what}: {reason}\n{text}")
    return [Rank(**{**entry, "found": Found(**entry["found"])}) for entry in entries]


def together(device: str, ranks: Sequence[Rank]) -> Ran:
    """What is compared between the devices. RuntimeError: the ranks are no group, or each trained for itself."""
    devices = [rank.found.device for rank in ranks]
    other = next((used for used in devices if device_type(used) != device), None)
    if other:
        return Ran(other, None)
    for number, rank in enumerate(ranks):
        if (rank.size, rank.backend) != (len(ranks), BACKENDS[device]):
            raise RuntimeError(
                f"rank {number} is in a process group of {rank.size} that {rank.backend} serves on {devices[number]}, "
                f"not in one of {len(ranks)} with {BACKENDS[device]}"
            )
        if rank.found.same != ranks[0].found.same:
            raise RuntimeError(f"rank {number} has {rank.found.same}, but rank 0 {ranks[0].found.same}")
        if rank.fallbacks:
            raise RuntimeError(f"rank {number} fell back to the CPU for {', '.join(rank.fallbacks)}")
    if device == "tb" and len(set(devices)) < len(ranks):
        raise RuntimeError(f"ranks share a device: they use {', '.join(devices)}")
    return Ran(devices[0], [rank.found.values for rank in ranks])


def _ended(process: subprocess.Popen[bytes], seconds: float) -> bool:
    """Whether torchrun ends in time. Neither it nor a rank is alive afterwards."""
    try:
        process.wait(seconds)
        return True
    except subprocess.TimeoutExpired:
        return False
    finally:
        process.terminate()  # it ends its ranks, each of which has a session of its own
        try:
            process.wait(SECONDS_TO_END)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def _file(folder: str, rank: int) -> pathlib.Path:
    return pathlib.Path(folder) / f"rank-{rank}.json"


def run_here(module: str, function: str, device: str, folder: str) -> None:
    """Runs the function as this rank and writes what it found, or its error, into the rank's file."""
    file = _file(folder, int(os.environ["RANK"]))
    try:
        found = getattr(importlib.import_module(module), function)(device, folder)
        file.write_text(json.dumps(dataclasses.asdict(_describe(found))))
    except Exception as error:
        file.write_text(json.dumps({"error": f"{type(error).__name__}: {error}".splitlines()[0]}))
        raise


def _describe(found: Found) -> Rank:
    """With the process group that the client made. Destroys it."""
    import torch
    import torch.distributed as dist

    kind = device_type(found.device)
    rows = torch.tb.fallbacks() if kind == "tb" else []  # type: ignore[attr-defined]
    fallbacks = sorted({row.operator for row in rows})
    if not dist.is_initialized():
        return Rank(found, 1, "nothing", fallbacks)
    group: Any = dist.group.WORLD
    rank = Rank(found, dist.get_world_size(), group._get_backend(torch.device(kind)).name(), fallbacks)
    dist.destroy_process_group()
    return rank


if __name__ == "__main__":
    # Not the functions of this module, whose Found would be another class than that of the programs.
    importlib.import_module("clients.ranks").run_here(*sys.argv[1:])
