"""torch.tb: finds memory that two streams use at once, as torch.cuda._sanitizer does. On every driver with streams.

TB_LAYERS=races, or enable_stream_sanitizer() before the first use of tb, watches the whole process. Each race is
printed once to stderr, and stream_races() lists all.
"""

from __future__ import annotations

import atexit
import os
import sys
from dataclasses import dataclass
from typing import Any

from torch_backend import _state

_LAYER = "races"
_printed = 0


@dataclass(frozen=True)
class StreamUse:
    """One side of a race. work: the operator, such as "aten::mul". argument: the name of the tensor in it.

    stream_id: as in torch.Stream, 0 for the default stream; None: the host. device: the stream's, -1 for the host and
    for a process group. line: "file:line in function" of the call, "" where no Python code ran. launch: the same of the
    replay, if the work is part of a graph; `line` is then where it was captured.
    """

    work: str
    argument: str
    writes: bool
    stream_id: int | None
    device: int
    line: str
    launch: str = ""

    def __str__(self) -> str:
        verb = "writes" if self.writes else "reads"
        if self.stream_id is None:
            where = "the host"
        elif self.device < 0:
            where = "a process group"
        elif self.stream_id == 0:
            where = f"the default stream of tb:{self.device}"
        else:
            where = f"stream {self.stream_id:#x} of tb:{self.device}"
        lines = f"captured at {self.line or 'an unknown line'}, launched at " if self.launch else ""
        return f"{self.work} {verb} '{self.argument}' on {where}, {lines}{self.launch or self.line or 'unknown line'}"


@dataclass(frozen=True)
class StreamRace:
    """Two uses of the same memory, one of them a write, that no event and no wait puts in an order.

    first, second: in the order of the calls. address, size: of the memory of the second, in bytes. reused: the memory
    was freed and given out again between the two, while the first was not done.
    """

    first: StreamUse
    second: StreamUse
    address: int
    size: int
    reused: bool

    def __str__(self) -> str:
        if self.reused:
            remedy = "the first one's tensor was freed too early: call tensor.record_stream(stream) with its stream"
        elif self.second.stream_id is None:
            remedy = "let the host wait first: stream.synchronize() or event.synchronize()"
        else:
            remedy = "let the second stream wait first: second.wait_stream(first), or an event"
        return (
            f"tb stream race: {self.size} bytes at {self.address:#x} are used twice without an order\n"
            f"  first:  {self.first}\n"
            f"  second: {self.second}\n"
            f"  remedy: {remedy}"
        )


def enable_stream_sanitizer() -> None:
    """Watches all streams of the process from the first use of tb on; as TB_LAYERS=races in the environment.

    RuntimeError: tb is in use already without it.
    """
    import tb_device

    if _state.was_used() or tb_device.is_open():
        if _LAYER in tb_device.default_driver().layers:
            return
        raise RuntimeError(
            "torch.tb.enable_stream_sanitizer(): the driver is open already, and watches no streams. Call it before "
            "the first use of tb, or set TB_LAYERS=races in the environment"
        )
    layers = [layer for layer in os.environ.get("TB_LAYERS", "").split(",") if layer]
    if _LAYER not in layers:
        os.environ["TB_LAYERS"] = ",".join([_LAYER, *layers])


def stream_races(*, clear: bool = False) -> list[StreamRace]:
    """The races found so far, in their order; each pair of lines counts once. clear: forgets them afterwards.

    RuntimeError: the process does not watch its streams.
    """
    import tb_device

    if not tb_device.is_open() or _LAYER not in tb_device.default_driver().layers:
        raise RuntimeError(
            "torch.tb.stream_races(): this process does not watch its streams. Set TB_LAYERS=races, or call "
            "torch.tb.enable_stream_sanitizer() before the first use of tb"
        )
    global _printed
    driver = tb_device.default_driver()
    races: dict[tuple[StreamUse, StreamUse], StreamRace] = {}  # the layer has one for each stack of calls
    for first, second, address, size, reused in tb_device._core.races_found(driver):
        race = StreamRace(_use(first), _use(second), address, size, reused)
        races.setdefault((race.first, race.second), race)
    if clear:
        tb_device._core.races_clear(driver)
        _printed = 0
    return list(races.values())


def watch() -> None:
    """Called at the first use of tb, if the driver has the layer."""
    from tb_ops import _frames

    from torch_backend import _core

    if _core._watch_streams(_print_new, _frames.find() or (-1, -1, -1, -1, -1)):
        atexit.register(_print_sum)


def _use(side: tuple[Any, ...]) -> StreamUse:
    from tb_ops import _origin

    work, argument, writes, on_host, stream, device, frames, launch_frames = side
    return StreamUse(
        work,
        argument,
        writes,
        None if on_host else stream,
        device,
        _origin.find_launch(frames),
        _origin.find_launch(launch_frames) if launch_frames else "",
    )


def _print_new() -> None:
    global _printed
    races = stream_races()
    for race in races[_printed:]:
        print(race, file=sys.stderr, flush=True)
    _printed = len(races)


def _print_sum() -> None:
    _print_new()
    if _printed:
        print(f"tb stream race: {_printed} in this process", file=sys.stderr, flush=True)
