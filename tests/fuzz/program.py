"""A program of the fuzzer as data: steps over named tensors, on numbered streams."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field, replace


@dataclass(frozen=True)
class Step:
    """One Python statement. `schedule` adds synchronisation. Dropping a step drops the steps that use its tensors.

    t0, t1, ... are tensors of the program. s0, s1, ... belong to all programs of the case, which only read them.
    """

    code: str
    makes: tuple[str, ...] = ()
    uses: tuple[str, ...] = ()
    writes: tuple[str, ...] = ()
    """The tensors of `uses` whose memory the step changes."""
    resizes: tuple[str, ...] = ()
    """The tensors of `writes` that out= may give new memory."""
    shares: tuple[tuple[str, str], ...] = ()
    """Pairs (made, used) that share a storage."""
    deletes: tuple[str, ...] = ()
    stream: int = 0
    marks: bool = False
    """An event is recorded right after the step. Others wait for it instead of the whole stream if that suffices."""
    gathers: bool = False
    """The step queues work on other streams too, as a backward pass does. All streams wait for each other around it."""
    forced: tuple[str, ...] = ()
    """Operators that are forced to fall back in this step."""
    blocks: bool = False
    """The step copies its results from the host, so they are complete for every stream when it returns."""
    mode: str = ""
    """One of `stage.MODES`, in which the step runs."""


@dataclass(frozen=True)
class Case:
    """Programs that run at the same time, each on a thread of its own if there are several."""

    name: str
    shared: tuple[Step, ...]
    programs: tuple[tuple[Step, ...], ...]
    streams: int = 1
    """The number of streams that each program uses; stream 0 is the device's default stream."""

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
    """The steps without those at `dropped` and those that use lost names; and all names that are lost."""
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
    """Numbers names: t0, t1, ... or s0, s1, ..."""

    letter: str
    given: int = field(default=0)

    def next(self) -> str:
        self.given += 1
        return f"{self.letter}{self.given - 1}"
