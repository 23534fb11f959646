"""Runs a case, or a script that the fuzzer printed, on cpu and on tb, and compares the results."""

from __future__ import annotations

import copy
import gc
import threading
import warnings
from collections.abc import Callable, Sequence
from typing import Any

import torch
import torch.nn.functional as F

from .compare import differences
from .program import Case
from .schedule import function
from .stage import DeviceStage, Result, Stage

__all__ = ["F", "InvalidProgram", "copy", "differing", "replay", "script", "torch"]

Program = Callable[..., dict[str, Any]]


class InvalidProgram(Exception):
    """The program fails on stock cpu, which is an error of the fuzzer."""


def script(case: Case) -> str:
    """The case as a Python program."""
    parts = [f'"""{case.name}: {case.steps} steps. Run with tests/ on PYTHONPATH."""', "from fuzz.replay import *\n"]
    return "\n".join([*parts, _functions(case), f"replay({_call(case)}, streams={case.streams})\n"])


def _functions(case: Case) -> str:
    shared = [name for step in case.shared for name in step.makes]
    texts = [function(case.shared, [], 1, "shared")]
    texts += [function(steps, shared, case.streams, f"program{i}") for i, steps in enumerate(case.programs)]
    return "\n".join(texts)


def _call(case: Case) -> str:
    return f"shared, [{', '.join(f'program{i}' for i in range(len(case.programs)))}]"


def replay(shared: Program, programs: Sequence[Program], streams: int) -> None:
    """Runs the functions of a printed script. Raises SystemExit with the differences if there are any."""
    if found := _both(shared, programs, streams):
        raise SystemExit("\n".join(found))


def differing(case: Case) -> list[str]:
    """Runs a case on cpu and on tb and returns the differences, one line each. InvalidProgram: cpu cannot run it."""
    space: dict[str, Any] = {"torch": torch, "F": F, "copy": copy}
    exec(compile(_functions(case), f"<{case.name}>", "exec"), space)
    programs = [space[f"program{i}"] for i in range(len(case.programs))]
    return _both(space["shared"], programs, case.streams)


def _both(shared: Program, programs: Sequence[Program], streams: int) -> list[str]:
    torch.tb.set_fallback_mode("allow")  # type: ignore[attr-defined]
    on_cpu = _on_cpu(shared, programs, streams)
    expected = [stage.result for stage in on_cpu]
    before = torch.accelerator.memory_allocated()
    actual = _on_tb(shared, programs, streams)
    found = differences(expected, actual)
    torch.accelerator.synchronize()
    if torch.accelerator.memory_allocated() != before:
        gc.collect()
        lost = torch.accelerator.memory_allocated() - before
        if lost and not any(stage.keeps_any() for stage in on_cpu):
            found.append(f"{lost} bytes of device memory stay allocated though no tensor is left")
    return found


def _on_cpu(shared: Program, programs: Sequence[Program], streams: int) -> list[Stage]:
    given = _tensors(shared(Stage("cpu", streams)))
    stages = []
    for program in programs:
        stage = Stage("cpu", streams)
        _run(stage, program, given)
        if stage.result.error:
            raise InvalidProgram(stage.result.error)
        stages.append(stage)
    return stages


def _on_tb(shared: Program, programs: Sequence[Program], streams: int) -> list[Result]:
    given = _tensors(shared(Stage("tb", streams)))
    stages = [DeviceStage("tb", streams) for _ in programs]
    if len(stages) == 1:
        _run(stages[0], programs[0], given)
    else:
        threads = [
            threading.Thread(target=_run, args=(stage, program, given))
            for stage, program in zip(stages, programs, strict=True)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    return [stage.result for stage in stages]


def _run(stage: Stage, program: Program, given: dict[str, Any]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            stage.finish(_tensors(program(stage, **given)))
        except Exception as error:
            line = error.__traceback__.tb_next.tb_lineno if error.__traceback__ and error.__traceback__.tb_next else 0
            stage.result.error = f"line {line}: {type(error).__name__}: {error}"


def _tensors(values: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in values.items() if isinstance(value, torch.Tensor)}
