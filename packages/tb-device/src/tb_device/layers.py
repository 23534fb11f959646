"""Layers around a driver, used while the program runs: calls made to fail, and what is still alive.

Layers are put around a driver when it is opened: TB_LAYERS=fault,leak or load_driver("cpu", {"layers": "fault,leak"}).
`Driver.layers` lists them.

>>> from tb_device.layers import fault
>>> fault.arm(nth=0, slot="mem_alloc", status=8)  # the next allocation fails: out of memory
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass

from . import _core
from .discovery import default_driver


class Fault:
    """The layer `fault` of a driver: chosen calls fail, come late or hang. Each method takes the driver; the process's
    default one when not given. All raise FailedPreconditionError for a driver without the layer."""

    def arm(
        self,
        driver: _core.Driver | None = None,
        *,
        nth: int | None = None,
        every: int | None = None,
        probability: float | None = None,
        seed: int | None = None,
        slot: str | Iterable[str] | None = None,
        status: int | None = None,
        persistent: bool = False,
        after: bool | None = None,
        delay: int | None = None,
        hang: float | None = None,
    ) -> None:
        """Chooses which of the following calls fail, and how; replaces what was armed before and counts from 0.

        nth: the call with this number, from 0; persistent: and all that follow. every: each so many calls.
        probability, seed: by chance, the same calls for the same seed. slot: names of driver functions that count (all
        but close). status: what they fail with (13, internal error). after: True, they happen and then fail; False,
        they do not happen; None, only those that release something or wait do. delay: microseconds before the call.
        hang: seconds before it, until disarmed. With delay or hang and no status the call succeeds.
        Raises InvalidArgumentError for what cannot be.
        """
        given: dict[str, object] = {
            "nth": nth,
            "every": every,
            "probability": probability,
            "seed": seed,
            "slot": slot if slot is None or isinstance(slot, str) else "|".join(slot),
            "status": status,
            "persistent": 1 if persistent else None,
            "after": None if after is None else int(after),
            "delay": delay,
            "hang": hang,
        }
        options = ",".join(f"{key}={value}" for key, value in given.items() if value is not None)
        _core.fault_arm(driver or default_driver(), options)

    def disarm(self, driver: _core.Driver | None = None) -> None:
        """Lets every call pass again, ends hanging ones, and counts from 0."""
        _core.fault_arm(driver or default_driver(), "")

    def counts(self, driver: _core.Driver | None = None) -> tuple[int, int]:
        """Calls to the chosen functions, and faults given, since the layer was armed."""
        return _core.fault_counts(driver or default_driver())

    @property
    def calls(self) -> int:
        """Calls to the chosen functions of the default driver since the layer was armed."""
        return self.counts()[0]

    @property
    def fired(self) -> int:
        """Faults given by the default driver's layer since it was armed."""
        return self.counts()[1]


@dataclass(frozen=True)
class LiveObject:
    """Something of a driver that was made and not given back. Sizes are bytes, 0 for what has none.

    call: the number, from 1, of the call that made it among all calls through the layer; function: of that call.
    """

    kind: str
    handle: int
    size: int
    call: int
    function: str

    def __str__(self) -> str:
        size = f" of {self.size} bytes" if self.size else ""
        return f"{self.kind} {self.handle:#x}{size}, made by call {self.call}, {self.function}"


class Leak:
    """The layer `leak` of a driver; the process's default one when not given. All raise FailedPreconditionError for a
    driver without the layer."""

    def report(self, driver: _core.Driver | None = None) -> list[LiveObject]:
        """Everything alive now, in the order in which it was made."""
        return [LiveObject(*each) for each in _core.leak_live(driver or default_driver())]

    def counts(self, driver: _core.Driver | None = None) -> dict[str, int]:
        """How many of each kind are alive now; kinds of which there are none are absent."""
        return dict(Counter(each.kind for each in self.report(driver)))


fault = Fault()
leak = Leak()
