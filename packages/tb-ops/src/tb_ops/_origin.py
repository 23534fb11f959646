"""Finds the user's line of Python, not PyTorch's, at which an operator falls back or was launched."""

from __future__ import annotations

import contextlib
import gc
import os
import sys
import threading
import weakref
from types import CodeType, FrameType, FunctionType
from typing import Any, NamedTuple

import torch
import typing_extensions

_WRAPPERS = (contextlib.__file__, typing_extensions.__file__)
"""Between PyTorch's context managers, its deprecated functions and their callers."""
_INTERNAL = tuple(
    os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(torch.__file__))), package) + os.sep
    for package in ("torch", "torchgen")
) + tuple(
    os.sep + os.path.join("site-packages", package) + os.sep for package in ("tb_ops", "tb_compile", "torch_backend")
)
_DEEPEST = 64


def find() -> tuple[str, list[str]]:
    """The place of the call, and the stack, innermost frame first; ("", []) if no Python code runs.

    The place is the innermost line outside PyTorch. Autograd runs the backward pass on threads without Python code.
    There the place is the name of the backward node, with the line of its forward pass under
    torch.autograd.detect_anomaly().
    """
    stack: list[str] = []
    place = ""
    frame: FrameType | None = sys._getframe()
    while frame is not None and len(stack) < _DEEPEST:
        file = frame.f_code.co_filename
        if file != __file__:
            stack.append(f"{file}:{frame.f_lineno} in {frame.f_code.co_name}")
            if not place and not _internal(file):
                place = stack[-1]
        frame = frame.f_back
    return ", ".join(part for part in (place, _backward()) if part), stack


def find_launch(frames: list[tuple[int, int]]) -> str:
    """The place of a launch, from its frames, innermost first, as (address of the code, address of the instruction).

    The code may be gone by now, so an address counts only if it is still the code of a function or of a running frame.
    Returns "" if none is.
    """
    lines = [line for line in find_lines(frames) if line]
    places = [(f"{line.file}:{line.line} in {line.function}", _internal(line.file)) for line in lines]
    return next((place for place, internal in places if not internal), places[0][0] if places else "")


class Line(NamedTuple):
    """A line of Python code, and the globals of its module."""

    file: str
    line: int
    function: str
    namespace: dict[str, Any]


def find_lines(frames: list[tuple[int, int]]) -> list[Line | None]:
    """The lines of such frames; None for a frame whose code is gone."""
    alive = _living_code({address for address, _ in frames})
    return [
        _line(alive[address], address, instruction) if address in alive else None for address, instruction in frames
    ]


def _line(found: _Code, address: int, instruction: int) -> Line | None:
    code, namespace = found
    offset = instruction - address - type(code).__basicsize__
    line = next((line for start, end, line in code.co_lines() if start <= offset < end), None)
    return None if line is None else Line(code.co_filename, line, code.co_name, namespace)


_Code = tuple[CodeType, dict[str, Any]]
"""A code object, and the globals of its module."""


def _living_code(wanted: set[int]) -> dict[int, _Code]:
    """Those of the addresses that are code of a running frame or a function, or code that is nested in such code."""
    found: dict[int, _Code] = {}
    seen: set[int] = set()

    def look(code: CodeType, namespace: dict[str, Any]) -> list[int]:
        """Looks at the code and the code nested in it. Returns the addresses that it adds to `found`."""
        pending, new = [code], []
        while pending:
            code = pending.pop()
            if id(code) in seen:
                continue
            seen.add(id(code))
            if id(code) in wanted:
                found[id(code)] = code, namespace
                new.append(id(code))
            pending += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
        return new

    running = sys._current_frames()
    # Leave out this function's own frame: a frame that refers to itself keeps all its callers' variables alive.
    running[threading.get_ident()] = sys._getframe(1)
    for frame in running.values():
        following: FrameType | None = frame
        while following is not None:
            look(following.f_code, following.f_globals)
            following = following.f_back
    for address in wanted - found.keys():
        known = _functions.get(address)
        function = known() if known else None
        if function is not None:
            look(function.__code__, function.__globals__)
    if wanted - found.keys():
        if len(_functions) > 1000:
            _functions.clear()  # the next search finds them again, and only takes longer
        for item in gc.get_objects():
            if type(item) is FunctionType:  # isinstance would evaluate lazy objects
                _functions.update((address, weakref.ref(item)) for address in look(item.__code__, item.__globals__))
    return found


_functions: dict[int, weakref.ref[FunctionType]] = {}
"""Functions by the addresses of their code and its nested code. The search for them takes tenths of a second."""


def _internal(file: str) -> bool:
    return file in _WRAPPERS or ours(file) or file.startswith(_INTERNAL[:2]) or file.startswith("<frozen ")


def ours(file: str) -> bool:
    """Whether a file belongs to tb's packages."""
    return any(part in file for part in _INTERNAL[2:])


def _backward() -> str:
    node = torch._C._current_autograd_node()
    if node is None:
        return ""
    metadata: Any = node.metadata  # a property, declared as a method
    forward = metadata.get("traceback_", [])  # set only under detect_anomaly: entries of traceback.format_stack
    lines = [entry.strip().splitlines()[0] for entry in forward if "site-packages" not in entry.splitlines()[0]]
    return f"the backward pass ({node.name()})" + (f" of {lines[-1]}" if lines else "")
