"""Two ways to save a training so that what is not whole is never taken for it, and ranks that are killed meanwhile."""

from __future__ import annotations

import contextlib
import fcntl
import os
import pathlib
import signal
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
import torch.distributed.checkpoint as dcp
from torch.distributed.checkpoint.filesystem import FileSystem


@dataclass(frozen=True)
class Death:
    """One rank is killed.

    Attributes:
    step: the steps that are done by then, as in the name of a checkpoint.
    place: before the next "step", instead of a "save", or in a save: where rank 0, and every other rank that writes, is
        in the middle of its file ("part"), or rank 0 in the middle of a sharded checkpoint's last file ("metadata").
    folder: for a file that is locked as long as the rank lives.
    """

    step: int
    rank: int
    place: str
    folder: pathlib.Path

    def prepare(self) -> None:
        """Must come before the group: then the file is locked before anybody asks for it."""
        if own_rank() == self.rank:
            fcntl.flock(self._open(), fcntl.LOCK_EX)  # until the process's end

    def reach(self, step: int, place: str) -> None:
        """Does not return if it is this rank's death."""
        if (own_rank(), step, place) == (self.rank, self.step, self.place):
            os.kill(os.getpid(), signal.SIGKILL)

    def within_file(self, step: int, place: str) -> None:
        """Ranks call it in the middle of a file. Rank 0 does not return before the other one is dead."""
        if (step, place) != (self.step, self.place):
            return
        store = dist.distributed_c10d._get_default_store()
        if own_rank() == 0:
            store.set("rank 0 writes", "now")
        elif own_rank() == self.rank:
            store.wait(["rank 0 writes"])
        self.reach(step, place)
        if own_rank() == 0:
            lock = self._open()
            fcntl.flock(lock, fcntl.LOCK_EX)
            os.close(lock)

    def _open(self) -> int:
        return os.open(self.folder / f"alive.{self.rank}", os.O_CREAT | os.O_RDWR)


def own_rank() -> int:
    """This process's rank, also before there is a group."""
    return int(os.environ["RANK"])


class Interrupted:
    """A file on whose first write this rank, or another one, is killed behind the half."""

    def __init__(self, file: Any, death: Death, step: int, place: str) -> None:
        self._file, self._death, self._step, self._place = file, death, step, place

    def write(self, data: Any) -> int:
        half = len(data) // 2
        self._file.write(data[:half])
        self._file.flush()
        self._death.within_file(self._step, self._place)
        self._file.write(data[half:])
        return len(data)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._file, name)


class Whole:
    """A file of rank 0, which has another name until it is whole."""

    def __init__(self, folder: pathlib.Path, death: Death) -> None:
        self.folder, self.death = folder, death

    def last(self) -> int:
        """The step of the last one that is whole; 0 if there is none."""
        return max((int(path.stem) for path in self.folder.glob("*.pt")), default=0)

    def save(self, step: int, state: dict[str, Any]) -> None:
        if dist.get_rank() == 0:
            unfinished = self.folder / f"{step}.unfinished"
            with unfinished.open("wb") as file:
                torch.save(state, Interrupted(file, self.death, step, "part"))  # type: ignore[arg-type]
            unfinished.rename(self.folder / f"{step}.pt")
        else:
            self.death.within_file(step, "part")
        dist.barrier()

    def load(self, step: int, state: dict[str, Any]) -> dict[str, Any]:
        """The saved state; `state` is what it replaces."""
        here = torch.device("tb", torch.accelerator.current_device_index())
        found: dict[str, Any] = torch.load(self.folder / f"{step}.pt", map_location=here)
        return found


class Sharded:
    """A folder with a part of each rank, which is whole once rank 0 has written its ".metadata"."""

    def __init__(self, folder: pathlib.Path, death: Death) -> None:
        self.folder, self.death = folder, death

    def last(self) -> int:
        """The step of the last one that is whole; 0 if there is none."""
        return max((int(path.parent.name) for path in self.folder.glob("*/.metadata")), default=0)

    def save(self, step: int, state: dict[str, Any]) -> None:
        writer = dcp.FileSystemWriter(self.folder / str(step))
        writer.fs = InterruptedFiles(self.death, step)
        dcp.save(state, storage_writer=writer)

    def load(self, step: int, state: dict[str, Any]) -> dict[str, Any]:
        """The saved state; `state` is what it replaces."""
        dcp.load(state, checkpoint_id=self.folder / str(step))
        return state


class InterruptedFiles(FileSystem):
    """Those of a checkpoint."""

    def __init__(self, death: Death, step: int) -> None:
        self.death, self.step = death, step

    @contextlib.contextmanager
    def create_stream(self, path: str | os.PathLike[str], mode: str) -> Iterator[Any]:
        place = "metadata" if ".metadata" in str(path) else "part"
        with super().create_stream(path, mode) as file:
            yield Interrupted(file, self.death, self.step, place) if mode == "wb" else file
