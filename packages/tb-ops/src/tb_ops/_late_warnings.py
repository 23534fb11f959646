"""Passes warnings of kernels to Python's `warnings` after a wait, as the launching call would have done.

Filters, registries ("once", "default" by location) and categories apply to the line that PyTorch itself would name: the
innermost line of Python code at the launch.
"""

from __future__ import annotations

import sys
import warnings
from types import FrameType
from typing import Any

from . import _origin

_Launch = tuple[str, bool, list[tuple[int, int]], int]
"""The text, whether it is a DeprecationWarning, the launch's frames (see find_launch), how many times it came."""

_MOST_TIMES = 1000
"""The most times that one wait gives the same warning, which a loop repeats; one more warning counts the rest."""


def report(launches: list[_Launch], dropped: int) -> tuple[BaseException | None, list[int]]:
    """Gives all warnings. Returns the first exception that a filter raised, and the places of those that raised later.

    The caller reports the latter again. A warning that has raised is reported, however many times it came.
    """
    raised: BaseException | None = None
    left: list[int] = []
    here = _waiting_line()
    lines = _launching_lines([frames for _, _, frames, _ in launches])
    for place, (text, deprecation, _, times) in enumerate(launches):
        category = DeprecationWarning if deprecation else UserWarning
        line = lines[place] or here
        try:
            for _ in range(min(times, _MOST_TIMES)):
                _warn(text, category, line)
            if times > _MOST_TIMES:
                _warn(f"{text} ({times - _MOST_TIMES} times more)", category, line)
        except BaseException as error:  # a filter, or a replaced showwarning, may raise anything
            if raised is None:
                raised = error.with_traceback(None)
            else:
                left.append(place)
    if dropped:
        text = (
            f"{dropped} more warnings of tb's kernels were dropped, as too many different ones came between two waits"
        )
        try:
            _warn(text, UserWarning, here)
        except BaseException as error:
            raised = raised or error.with_traceback(None)
    return raised, left


def _launching_lines(launches: list[list[tuple[int, int]]]) -> list[_origin.Line | None]:
    """The lines of the innermost frames; further out if these are tb's own or gone, which is rare."""
    lines: list[_origin.Line | None] = [None] * len(launches)
    for depth in (slice(0, 1), slice(1, None)):
        open_ones = [
            (place, frame) for place, frames in enumerate(launches) if not lines[place] for frame in frames[depth]
        ]
        found = _origin.find_lines([frame for _, frame in open_ones])
        for (place, _), line in zip(open_ones, found, strict=True):
            if line and not _origin.ours(line.file):
                lines[place] = lines[place] or line
    return lines


def _waiting_line() -> _origin.Line:
    frame: FrameType | None = sys._getframe()
    while frame is not None:
        if not _origin.ours(frame.f_code.co_filename):
            return _origin.Line(frame.f_code.co_filename, frame.f_lineno, frame.f_code.co_name, frame.f_globals)
        frame = frame.f_back
    return _origin.Line("sys", 1, "", sys.__dict__)  # warnings.warn names this if no Python code calls it


def _warn(text: str, category: type[Warning], line: _origin.Line) -> None:
    """Gives a warning as warnings.warn does from that line."""
    registry: dict[Any, Any] = line.namespace.setdefault("__warningregistry__", {})
    module = line.namespace.get("__name__") or "<string>"
    warnings.warn_explicit(text, category, line.file, line.line, module, registry)
