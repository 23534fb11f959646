"""Where CPython keeps the running frames of a thread, found by comparing its memory with its frame objects.

Work that fails late has left the line that launched it long ago. To record that line through Python's own interface
would take the interpreter's lock for every operator, so runtime/call_site.h reads the interpreter's list of frames
instead. The layout of frames is no interface and differs between versions. So this module searches for it, and it is
not used if it is not found.
"""

from __future__ import annotations

import ctypes
import os
import struct
import sys

Offsets = tuple[int, int, int, int, int]
"""The fields of FrameOffsets in runtime/call_site.h: state, indirect (-1 for none), code, instruction, previous."""

_WORD = struct.calcsize("P")
_MARKS = 3  # CPython 3.14 marks references in the low bits
_STATE, _FRAME = 48, 12  # words to search


def find() -> Offsets | None:
    """The offsets that hold in every kind of call that is tried here; None if there are none."""
    if sys.implementation.name != "cpython" or not os.path.exists("/proc/self/mem"):
        return None
    with open("/proc/self/mem", "rb", buffering=0) as memory:
        number = memory.fileno()
        found = _candidates(number)
        # Calls through C have an evaluation loop of their own. Offsets must hold in them too, not only in the
        # outermost.
        found &= next(map(_candidates, [number]))
        found &= next(map(_through_c, [number]))
    return min(found, default=None)


def _through_c(memory: int) -> set[Offsets]:
    return next(map(_candidates_of_a_call, [memory]))


def _candidates_of_a_call(memory: int) -> set[Offsets]:
    return _candidates(memory)


def _candidates(memory: int) -> set[Offsets]:
    """The offsets at which this thread's state leads to this function's frame, and that to its caller's frame.

    This function itself does all reads, since its frame must stay the innermost. They go through the operating system's
    kernel, which returns an error for an invalid address.
    """
    frame = sys._getframe()
    caller = frame.f_back
    while caller is not None and caller.f_code is frame.f_code:
        caller = caller.f_back
    if caller is None:
        return set()
    code, callers_code = id(frame.f_code), id(caller.f_code)
    instruction = callers_code + type(caller.f_code).__basicsize__ + caller.f_lasti
    get_state = ctypes.pythonapi.PyGILState_GetThisThreadState
    get_state.restype = ctypes.c_void_p
    pread, unpack, layout = os.pread, struct.unpack, f"{_FRAME}P"
    found: set[Offsets] = set()
    state = get_state()
    for place, pointer in enumerate(unpack(f"{_STATE}P", pread(memory, _STATE * _WORD, state))):
        for indirect in (-1, 0, _WORD):
            try:
                address = pointer if indirect < 0 else unpack("P", pread(memory, _WORD, pointer + indirect))[0]
                words = unpack(layout, pread(memory, _FRAME * _WORD, address))
                for of_code, word in enumerate(words):
                    if word & ~_MARKS != code:
                        continue
                    for of_previous, previous in enumerate(words):
                        if previous < 1 << 16 or previous % _WORD or of_previous == of_code:
                            continue
                        before = unpack(layout, pread(memory, _FRAME * _WORD, previous))
                        if before[of_code] & ~_MARKS != callers_code:
                            # Since 3.12 a call out of C puts an entry frame, which has no code of Python, in between.
                            try:
                                before = unpack(layout, pread(memory, _FRAME * _WORD, before[of_previous]))
                            except (OSError, OverflowError):
                                continue
                        if before[of_code] & ~_MARKS == callers_code and instruction in before:
                            of_instruction = before.index(instruction)
                            code_at, instruction_at, previous_at = (
                                _WORD * words_in for words_in in (of_code, of_instruction, of_previous)
                            )
                            found.add((place * _WORD, indirect, code_at, instruction_at, previous_at))
            except (OSError, OverflowError, struct.error):
                continue
    return found
