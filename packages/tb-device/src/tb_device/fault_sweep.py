"""Fault sweeps: a program is run again and again, and each time another one of its driver calls fails.

`sweep` runs it in this process (the pytest fixture tb_fault_sweep is this), `sweep_in_processes` each time in a forked
process of its own, so that what is done once in a process is swept too. Both need the layers fault and leak around the
driver: TB_LAYERS=fault,leak before it is opened.
"""

from __future__ import annotations

import faulthandler
import gc
import os
import pickle
import select
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from . import _core
from .discovery import default_driver
from .layers import fault, leak

Function = Callable[[], object]
STATUSES = (8, 13, 14, 33)
MODES = ("transient", "persistent")


class SweepError(AssertionError):
    """What a program did wrong when one of its driver calls failed. The text names the call and how to repeat it."""


@dataclass(frozen=True)
class Point:
    """One run of a sweep: the call number `nth` fails with `status`, alone or with all that follow."""

    status: int
    mode: str
    nth: int
    slots: tuple[str, ...] = ()

    def __str__(self) -> str:
        slots = f", slot={'|'.join(self.slots)!r}" if self.slots else ""
        persistent = ", persistent=True" if self.mode == "persistent" else ""
        return f"with fault.arm(nth={self.nth}, status={self.status}{persistent}{slots})"

    def arm(self, driver: _core.Driver) -> None:
        fault.arm(
            driver,
            nth=self.nth,
            status=self.status,
            persistent=self.mode == "persistent",
            slot=self.slots or None,
        )


@dataclass(frozen=True)
class _Raised:
    """What a run raised, as text: the exception's frames would keep the program's objects alive."""

    text: str
    is_error: bool  # an Exception of a call that failed; not an assertion of the program, nor KeyboardInterrupt


def _within(seconds: float, function: Function, what: str, driver: _core.Driver) -> _Raised | None:
    """Runs it in its own thread; returns what it raised. SweepError with all stacks when it does not end in time."""
    raised: list[_Raised] = []

    def body() -> None:
        try:
            function()
        except BaseException as error:
            is_error = isinstance(error, Exception) and not isinstance(error, AssertionError)
            raised.append(_Raised(_shown(error), is_error))
            traceback.clear_frames(error.__traceback__)

    thread = threading.Thread(target=body, daemon=True)
    thread.start()
    thread.join(seconds)
    if not thread.is_alive():
        if raised:
            gc.collect()
        return raised[0] if raised else None
    with tempfile.TemporaryFile("w+") as stacks:
        faulthandler.dump_traceback(stacks)
        stacks.seek(0)
        text = stacks.read()
    fault.disarm(driver)
    raise SweepError(f"{what} did not end within {seconds:g} s:\n{text}")


def _shown(error: BaseException) -> str:
    return "".join(traceback.format_exception(error)).rstrip()


class _Runner:
    """One program and one driver."""

    def __init__(self, function: Function, driver: _core.Driver, check: Function | None, seconds: float) -> None:
        missing = [name for name in ("fault", "leak") if name not in driver.layers]
        if missing:
            raise SweepError(
                f"a fault sweep needs the layers fault and leak around the driver {driver.name}; it has "
                f"{', '.join(driver.layers) or 'none'}. Set TB_LAYERS=fault,leak before the driver is opened"
            )
        if driver.layers.index("fault") > driver.layers.index("leak"):
            raise SweepError(
                "a fault sweep needs the layer fault outside of leak, which then sees what reached the driver. "
                "Set TB_LAYERS=fault,leak"
            )
        self.function, self.driver, self.check, self.seconds = function, driver, check, seconds

    def clean(self, when: str) -> dict[str, int]:
        """Runs without faults until the number of live objects stays, as caches fill; returns it by kind."""
        before: dict[str, int] | None = None
        for _ in range(100):
            error = _within(self.seconds, self.function, f"the run without faults {when}", self.driver)
            if error is not None:
                raise SweepError(f"the run without faults {when} failed:\n{error.text}")
            live = leak.counts(self.driver)
            if live == before:
                return live
            before = live
        raise SweepError(f"100 runs without faults {when} each left more objects of the driver alive: {before}")

    def faulty(self, point: Point) -> bool:
        """Whether the fault was given."""
        point.arm(self.driver)
        try:
            error = _within(self.seconds, self.function, f"the run {point}", self.driver)
            fired = fault.counts(self.driver)[1] > 0
        finally:
            fault.disarm(self.driver)
        if error is not None and not (fired and error.is_error):
            raise SweepError(f"the run {point} failed, but not by the fault:\n{error.text}")
        return fired

    def settle(self, point: Point, expected: dict[str, int]) -> None:
        live = self.clean(f"after the one {point}")
        if live != expected:
            listed = "\n".join(f"  {each}" for each in leak.report(self.driver)[-20:])
            raise SweepError(
                f"the run {point} left objects of the driver alive: {live}, where runs without faults leave "
                f"{expected}. The newest:\n{listed}"
            )
        if self.check is not None:
            try:
                self.check()
            except Exception as error:
                raise SweepError(f"the check failed after the run {point}:\n{_shown(error)}") from error


def _points(statuses: Sequence[int], modes: Sequence[str], slots: Sequence[str] | None, limit: int) -> Iterator[Point]:
    for mode in modes:
        if mode not in MODES:
            raise ValueError(f"mode {mode!r}: it is one of {', '.join(MODES)}")
    for status in statuses:
        for mode in modes:
            for nth in range(limit):
                yield Point(status, mode, nth, tuple(slots or ()))


def _swept(
    statuses: Sequence[int],
    modes: Sequence[str],
    slots: Sequence[str] | None,
    limit: int,
    run: Callable[[Point], bool],
) -> int:
    fired = 0
    over: tuple[int, str] | None = None
    for point in _points(statuses, modes, slots, limit):
        if over == (point.status, point.mode):
            continue
        if run(point):
            fired += 1
            if point.nth + 1 == limit:
                raise SweepError(
                    f"the program makes more than {limit} driver calls. Give a larger limit, or fewer slots"
                )
        else:
            over = (point.status, point.mode)
    if fired == 0:
        raise SweepError("no fault was given: the program made no driver call that counts, so nothing was proven")
    return fired


def sweep(
    function: Function,
    statuses: Sequence[int] = STATUSES,
    modes: Sequence[str] = MODES,
    slots: Sequence[str] | None = None,
    limit: int = 2000,
    *,
    check: Function | None = None,
    driver: _core.Driver | None = None,
    seconds: float = 20.0,
) -> int:
    """Runs `function` with its driver call number N failing, for N = 0, 1, 2 ... until none fails: how many did.

    function: the program. It may raise any Exception but AssertionError while a fault is given; each run has a thread
        of its own.
    statuses: what calls fail with. modes: "transient", call N fails; "persistent", all from N on do.
    slots: names of driver functions that count; all by default. limit: the largest N. seconds: limit of one run.
    check: called after each run; it raises when something is not as it was. driver: the default one if not given.
    Raises SweepError when a run hangs; when after it more objects of the driver live than before, or a run without
    faults fails; when the layers fault and leak are not around the driver; and when no fault was given at all.
    """
    runner = _Runner(function, driver or default_driver(), check, seconds)
    expected = runner.clean("before the sweep")

    def run(point: Point) -> bool:
        fired = runner.faulty(point)
        if fired:
            runner.settle(point, expected)
        return fired

    return _swept(statuses, modes, slots, limit, run)


def sweep_in_processes(
    function: Function,
    statuses: Sequence[int] = STATUSES,
    modes: Sequence[str] = MODES,
    slots: Sequence[str] | None = None,
    limit: int = 2000,
    *,
    check: Function | None = None,
    seconds: float = 20.0,
) -> int:
    """As `sweep`, but each point has a forked process that opens the default driver again and closes it at the end.

    What a process does once, such as making a pool, is swept too. The driver must not be open in this process. Raises
    SweepError also when a process crashes, or when the driver cannot be closed at its end since objects still live.
    """
    if _core.is_open():
        raise SweepError("the driver is open in this process already, so it cannot be forked. Use sweep")

    def baseline() -> dict[str, int]:
        return _Runner(function, default_driver(), check, seconds).clean("before the sweep")

    expected = _in_child(baseline, "the run without faults", seconds)
    assert isinstance(expected, dict)

    def run(point: Point) -> bool:
        def body() -> bool:
            runner = _Runner(function, default_driver(), check, seconds)
            fired = runner.faulty(point)
            if fired:
                runner.settle(point, expected)
                _end_driver(runner.driver, point)
            return fired

        return bool(_in_child(body, f"the run {point}", seconds))

    return _swept(statuses, modes, slots, limit, run)


def _end_driver(driver: _core.Driver, point: Point) -> None:
    _core._shutdown()
    if driver.is_open:
        raise SweepError(
            f"the driver could not be closed after the run {point}: the program leaves objects alive at exit"
        )


def _in_child(body: Callable[[], object], what: str, seconds: float) -> object:
    read, write = os.pipe()
    sys.stdout.flush()
    sys.stderr.flush()
    child = os.fork()
    if child == 0:
        os.close(read)
        _tell_and_end(body, write)
    os.close(write)
    answer = b""
    deadline = time.monotonic() + 4 * seconds  # the runs within have their own limits
    with os.fdopen(read, "rb", buffering=0) as pipe:
        while select.select([pipe], [], [], max(0.0, deadline - time.monotonic()))[0]:
            part = pipe.read(65536)
            if not part:
                break
            answer += part
        else:
            os.kill(child, signal.SIGKILL)
            os.waitpid(child, 0)
            raise SweepError(f"the process of {what} did not end within {4 * seconds:g} s")
    status = os.waitpid(child, 0)[1]
    if not answer or status != 0:
        ending = f"signal {signal.Signals(os.WTERMSIG(status)).name}" if os.WIFSIGNALED(status) else f"status {status}"
        raise SweepError(f"the process of {what} crashed: {ending}")
    good, value = pickle.loads(answer)
    if not good:
        raise SweepError(value)
    return value


def _tell_and_end(body: Callable[[], object], write: int) -> None:
    """In the child: never returns, and runs none of the parent's exit handlers."""
    try:
        answer: tuple[bool, object] = (True, body())
    except BaseException as error:
        answer = (False, str(error) if isinstance(error, SweepError) else _shown(error))
    with os.fdopen(write, "wb") as pipe:
        pipe.write(pickle.dumps(answer))
    os._exit(0)
