"""Where Python is when an operator falls back, or was when it was launched: the user's line, not PyTorch's."""

from __future__ import annotations

import gc
import os
import sys
from types import CodeType, FrameType, FunctionType
from typing import Any

import torch

_INTERNAL = tuple(
    os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(torch.__file__))), package) + os.sep
    for package in ("torch", "torchgen")
) + tuple(os.sep + os.path.join("site-packages", package) + os.sep for package in ("tb_ops", "torch_backend"))
_DEEPEST = 64


def find() -> tuple[str, list[str]]:
    """The place of the call, and the stack, innermost frame first; ("", []) where no Python code runs.

    The place is the innermost line outside PyTorch. Autograd runs the backward pass on threads without Python code:
    there it is the name of the backward node, with the line of its forward under torch.autograd.detect_anomaly().
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
    """The place of a launch that its frames noted, innermost first, as (address of the code, of the instruction).

    The code may be gone by now: only an address that still is the code of a function or of a running frame counts.
    "" where none does.
    """
    alive = _living_code()
    places = []
    for address, instruction in frames:
        code = alive.get(address)
        if code is None:
            continue
        offset = instruction - address - type(code).__basicsize__
        line = next((line for start, end, line in code.co_lines() if start <= offset < end), None)
        if line is not None:
            places.append((f"{code.co_filename}:{line} in {code.co_name}", _internal(code.co_filename)))
    return next((place for place, internal in places if not internal), places[0][0] if places else "")


def _living_code() -> dict[int, CodeType]:
    """Every code object of a function, a running frame, or one nested in these, by its address."""
    pending = [item.__code__ for item in gc.get_objects() if type(item) is FunctionType]  # isinstance asks lazy objects
    for frame in sys._current_frames().values():
        following: FrameType | None = frame
        while following is not None:
            pending.append(following.f_code)
            following = following.f_back
    found: dict[int, CodeType] = {}
    while pending:
        code = pending.pop()
        if id(code) not in found:
            found[id(code)] = code
            pending += [constant for constant in code.co_consts if isinstance(constant, CodeType)]
    return found


def _internal(file: str) -> bool:
    return file.startswith(_INTERNAL[:2]) or any(part in file for part in _INTERNAL[2:]) or file.startswith("<frozen ")


def _backward() -> str:
    node = torch._C._current_autograd_node()
    if node is None:
        return ""
    metadata: Any = node.metadata  # a property, declared as a method
    forward = metadata.get("traceback_", [])  # only under detect_anomaly: entries as traceback.format_stack gives
    lines = [entry.strip().splitlines()[0] for entry in forward if "site-packages" not in entry.splitlines()[0]]
    return f"the backward pass ({node.name()})" + (f" of {lines[-1]}" if lines else "")
