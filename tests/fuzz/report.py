"""Runs many cases, counts them and reports those that differ."""

from __future__ import annotations

import functools

from .program import Case
from .replay import InvalidProgram, differing, script
from .shrink import shrink

# The number of runs of a program whose difference does not always occur. It fails if one of them does.
_ATTEMPTS = 5


class Run:
    """Runs cases one by one and counts them."""

    def __init__(self, repeat: int, shrinking: bool) -> None:
        self.failed: list[str] = []
        self.script = script
        self._repeat, self._shrinking = repeat, shrinking
        self._cases = self._steps = self._streams = self._threads = self._forced = 0

    def add(self, case: Case) -> None:
        """Runs a case and prints the differences."""
        self._cases += 1
        self._steps += case.steps
        self._streams += case.streams > 1
        self._threads += len(case.programs) > 1
        self._forced += any(step.forced for program in case.programs for step in program)
        try:
            found = next(filter(None, (differing(case) for _ in range(self._repeat))), [])
        except InvalidProgram as error:
            self.failed.append(case.name)
            print(f"{case.name} does not run on stock cpu: {error}\n{script(case)}", flush=True)
            return
        if found:
            self.failed.append(case.name)
            listed = "\n  ".join(found[:5])
            print(f"{case.name} differs:\n  {listed}", flush=True)
            attempts = 1 if self._shrinking and differing(case) else _ATTEMPTS
            smallest = shrink(case, functools.partial(fails, attempts=attempts)) if self._shrinking else case
            print(f"{smallest.steps} of its {case.steps} steps suffice:\n{script(smallest)}", flush=True)

    def summary(self) -> str:
        """The counts, in one line."""
        return (
            f"{self._cases} cases, {self._steps} steps, {self._streams} cases with side streams, {self._threads} with "
            f"threads, {self._forced} with forced fallbacks: {len(self.failed)} failed"
        )


def fails(case: Case, attempts: int) -> bool:
    """Whether tb differs from stock cpu in one of `attempts` runs; False for a case that cpu cannot run."""
    try:
        return any(differing(case) for _ in range(attempts))
    except InvalidProgram:
        return False
