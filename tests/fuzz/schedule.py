"""Converts steps to a Python function, with the waits, events and record_stream that a correct program needs.

They are computed for every program, so that a program from which steps were dropped is still correct. The rules: a
stream that uses memory waits for the stream that wrote it last. A stream that writes memory also waits for the streams
that read it. record_stream keeps memory that is used on another stream than the one that it was allocated on. Memory
that was copied from the host needs no wait.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from .program import Step

Clock = dict[int, int]  # for each stream, the number of its last step that is known to be done


@dataclass
class Memory:
    """A storage: the stream of its allocation (-1: unknown), its last writer (None: done), its readers since then."""

    home: int
    writer: tuple[int, int] | None
    readers: Clock = field(default_factory=dict)
    resized: bool = False


class Schedule:
    """Converts steps to lines of Python, one step after the other."""

    def __init__(self, shared: Iterable[str], streams: int) -> None:
        self.lines: list[str] = []
        self._streams = streams
        self._memory = {name: Memory(0, None) for name in shared}
        self._clocks: list[Clock] = [{i: 0} if i == 0 else {} for i in range(streams)]
        self._events: dict[int, list[tuple[str, Clock]]] = {}
        self._count = 0

    def add(self, step: Step) -> None:
        """Appends the lines of one step."""
        if step.deletes:
            self.lines.append(f"del {', '.join(step.deletes)}")
            return
        if self._streams == 1:
            self.lines += _guarded(step, on_stream=False)
            return
        self._count += 1
        here = step.stream
        for name in step.uses:
            memory = self._memory[name]
            if memory.writer:
                self._after(here, *memory.writer)
            if name in step.writes:
                for stream, number in memory.readers.items():
                    self._after(here, stream, number)
        if step.gathers:
            self._meet(here)
        self.lines += _guarded(step, on_stream=True)
        self._clocks[here][here] = self._count
        if step.gathers:
            self._meet(here)
        self._remember(step)
        if step.marks:
            event = f"e{self._count}"
            self.lines.append(f"{event} = stage.record({here})")
            self._events.setdefault(here, []).append((event, dict(self._clocks[here])))

    def _after(self, here: int, stream: int, number: int) -> None:
        """Makes `here` wait for the step `number` of `stream`, unless it has waited for it already."""
        known = self._clocks[here]
        if stream == here or known.get(stream, -1) >= number:
            return
        for event, clock in self._events.get(stream, []):
            if clock.get(stream, -1) >= number:
                self.lines.append(f"stage.wait_event({here}, {event})")
                _advance(known, clock)
                return
        self._wait(here, stream)

    def _wait(self, here: int, stream: int) -> None:
        self.lines.append(f"stage.wait({here}, {stream})")
        _advance(self._clocks[here], self._clocks[stream])

    def _meet(self, here: int) -> None:
        others = [stream for stream in range(self._streams) if stream != here]
        for stream in others:
            self._wait(here, stream)
        for stream in others:
            self._wait(stream, here)

    def _remember(self, step: Step) -> None:
        here = step.stream
        for name in step.uses:
            memory = self._memory[name]
            memory.readers[here] = self._count
            if name in step.writes:
                memory.writer, memory.readers = None if step.blocks else (here, self._count), {}
            memory.resized |= name in step.resizes
            if memory.home != here or memory.resized:  # out= may have allocated new memory on its step's stream
                self.lines.append(f"stage.keep({name}, {here})")
        sources, writer = dict(step.shares), None if step.blocks else (here, self._count)
        for name in step.makes:
            # A backward pass makes gradients on the streams of the forward pass.
            home = -1 if step.gathers else here
            found = self._memory[sources[name]] if name in sources else Memory(home, writer)
            self._memory[name] = found


def _advance(clock: Clock, other: Clock) -> None:
    for stream, number in other.items():
        clock[stream] = max(clock.get(stream, -1), number)


def _guarded(step: Step, on_stream: bool) -> list[str]:
    guards = [f"stage.on({step.stream})"] if on_stream else []
    if step.mode:
        guards.append(f"stage.mode({step.mode!r})")
    if step.forced:
        guards.append(f"stage.forced({', '.join(map(repr, step.forced))})")
    return [f"with {', '.join(guards)}:", f"    {step.code}"] if guards else [step.code]


def function(steps: Iterable[Step], shared: Iterable[str], streams: int, name: str) -> str:
    """The text of a function that runs the steps on a stage with the shared tensors, and returns tensors by name."""
    schedule = Schedule(shared, streams)
    for step in steps:
        schedule.add(step)
    body = ["torch.set_num_threads(1)  # of this thread", *schedule.lines, "return locals()"]
    return "\n    ".join([f"def {name}({', '.join(['stage', *shared])}):", *body]) + "\n"
