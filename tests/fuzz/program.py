"""A program of the fuzzer as data: steps over named tensors, on numbered streams."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace


@dataclass(frozen=True)
class Step:
    """One Python statement. `schedule` adds what several streams need; dropping a step drops those who use its tensors.

    Names: t0, t1, ... belong to the program, s0, s1, ... to all programs of the case, which only read them.
    """

    code: str
    makes: tuple[str, ...] = ()
    uses: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    """Of `uses`, those whose memory the step changes."""
    resizes: tuple[str, ...] = ()
    """Of `writes`, those that may get other memory: out=."""
    shares: tuple[tuple[str, str], ...] = ()
    """(made, used) that share a storage."""
    deletes: tuple[str, ...] = ()
    stream: int = 0
    marks: bool = False
    """An event is recorded right behind the step; others wait for it where that suffices."""
    gathers: bool = False
    """Runs work on other streams too, as a backward pass does: all streams meet before and behind it."""
    forced: tuple[str, ...] = ()
    """Operators that run on the CPU in this step although tb has kernels for them."""
    blocks: bool = False
    """What the step makes or writes is copied from the host, so it is there for every stream when the step returns."""
    mode: str = ""
    """One of `stage.MODES`, in which the step runs."""


@dataclass(frozen=True)
class Case:
    """Programs that run at the same time, each on a thread of its own if there are several."""

    name: str
    shared: tuple[Step, ...]
    programs: tuple[tuple[Step, ...], ...]
    streams: int = 1
    """That each program uses; stream 0 is the device's default one."""

    @property
    def steps(self) -> int:
        return len(self.shared) + sum(len(program) for program in self.programs)

    def without(self, place: int, dropped: Iterable[int]) -> Case:
        """The case without these steps of program `place` (-1: the shared steps) and without those that need them."""
        if place < 0:
            kept, lost = drop(self.shared, dropped, frozenset())
            programs = tuple(drop(program, (), lost)[0] for program in self.programs)
            return replace(self, shared=kept, programs=programs)
        kept, _ = drop(self.programs[place], dropped, frozenset())
        return replace(self, programs=(*self.programs[:place], kept, *self.programs[place + 1 :]))


def drop(
    steps: tuple[Step, ...], dropped: Iterable[int], lost: frozenset[str]
) -> tuple[tuple[Step, ...], frozenset[str]]:
    """Steps without those at `dropped` and those that use what is lost; and all names lost."""
    chosen, gone, kept = set(dropped), set(lost), []
    for index, step in enumerate(steps):
        if index in chosen or gone & set(step.uses):
            gone.update(step.makes)
        elif step.deletes and gone & set(step.deletes):
            continue
        else:
            kept.append(step)
    return tuple(kept), frozenset(gone)


@dataclass
class Names:
    """Gives t0, t1, ..., or s0, s1, ..."""

    letter: str
    given: int = field(default=0)

    def next(self) -> str:
        self.given += 1
        return f"{self.letter}{self.given - 1}"
