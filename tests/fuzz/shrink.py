"""Reduces a program to a small one that still fails."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from .program import Case


def shrink(case: Case, fails: Callable[[Case], bool]) -> Case:
    """Drops threads, then steps in halves, quarters and so on down to single ones, as long as the case fails.

    Arguments:
        fails: whether a case still fails. It must return False for a case that cannot run.
    """
    while len(case.programs) > 1:
        for place in range(len(case.programs)):
            candidate = replace(case, programs=case.programs[:place] + case.programs[place + 1 :])
            if fails(candidate):
                case = candidate
                break
        else:
            break
    size = case.steps
    while size:
        size = min(size, case.steps) if case.steps else 0
        smaller = _without_chunks(case, size, fails) if size else case
        if smaller.steps == case.steps:
            size //= 2
        case = smaller
    return _plain(case, fails)


def _without_chunks(case: Case, size: int, fails: Callable[[Case], bool]) -> Case:
    for place in range(-1, len(case.programs)):
        # It starts at the end, because few other steps depend on the last ones.
        end = len(case.shared if place < 0 else case.programs[place])
        while end > 0:
            candidate = case.without(place, range(max(0, end - size), end))
            if candidate.steps < case.steps and fails(candidate):
                case = candidate
            end -= size
            end = min(end, len(case.shared if place < 0 else case.programs[place]))
    return case


def _plain(case: Case, fails: Callable[[Case], bool]) -> Case:
    """The case on one stream and without forced fallbacks, or without one of the two, if it still fails then."""
    for stream, forced in ((0, ()), (None, ()), (0, None)):
        programs = tuple(
            tuple(
                replace(
                    step,
                    stream=step.stream if stream is None else stream,
                    forced=step.forced if forced is None else forced,
                )
                for step in program
            )
            for program in case.programs
        )
        candidate = replace(case, programs=programs, streams=case.streams if stream is None else 1)
        if candidate != case and fails(candidate):
            return candidate
    return case
