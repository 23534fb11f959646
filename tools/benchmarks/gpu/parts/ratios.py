"""tb beside the reference device: interleaved processes of each, medians, the median of the ratios of neighbours."""

from __future__ import annotations

import os
import statistics
from typing import Any

from benchmarks.gpu.parts.needs import missing_backend, missing_reference, missing_torch
from benchmarks.gpu.parts.part import Aim, Options, Result, run_for_json

ROUNDS = 3
# For losses of the same model on the same batch: the devices add float32 numbers in different orders.
LOSS_TOLERANCE = 1e-4


def processes(kind: str, options: Options) -> list[tuple[dict[str, Any], dict[str, Any]]]:
    """Returns (tb, reference) for each round. Every other round runs in the opposite order.

    The reference's process does not load tb.
    """
    quick = ["--quick"] if options.quick else []
    environments = {
        "tb": {**os.environ, "TB_FALLBACK": "allow"},
        options.reference: {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"},
    }
    found = []
    for turn in range(1 if options.quick else ROUNDS):
        order = ["tb", options.reference] if turn % 2 == 0 else [options.reference, "tb"]
        pair = {
            device: run_for_json("benchmarks.gpu.parts.measure", device, kind, *quick, environment=environments[device])
            for device in order
        }
        found.append((pair["tb"], pair[options.reference]))
    return found


def compared(
    kind: str, unit: str, scale: float, bound: float, options: Options, no_aim: tuple[str, ...] = ()
) -> Result:
    """A row for each name. Times are in `unit`: microseconds times `scale`. The part fails if losses differ."""
    missing = missing_torch() or missing_reference(options.reference) or missing_backend()
    if missing:
        return Result("not run", missing)
    rounds = processes(kind, options)
    rows: list[list[str | float]] = []
    aims, notes = [], []
    for name in rounds[0][0]:
        pairs = [(statistics.median(tb[name]["us"]), statistics.median(ref[name]["us"])) for tb, ref in rounds]
        ratio = statistics.median(tb / ref for tb, ref in pairs)
        times = [statistics.median(column) * scale for column in zip(*pairs, strict=True)]
        rows.append([name, *times, ratio, min(a / b for a, b in pairs), max(a / b for a, b in pairs)])
        if name not in no_aim:
            aims.append(Aim(f"{name}, tb / {options.reference}", ratio, bound))
        if rounds[0][0][name]["fallbacks"]:
            notes.append(f"{name} on tb fell back to the CPU: {', '.join(rounds[0][0][name]['fallbacks'])}")
        ours, theirs = (side[name].get("loss", 0.0) for side in rounds[0])
        if abs(ours - theirs) > LOSS_TOLERANCE * abs(theirs):
            notes.append(f"WRONG: the loss of {name} is {ours} on tb and {theirs} on {options.reference}")
    wrong = any(note.startswith("WRONG") for note in notes)
    return Result(
        "failed" if wrong else "passed",
        f"{len(rows)} compared with {options.reference}, medians over {len(rounds)} pairs of processes",
        ["", f"tb, {unit}", f"{options.reference}, {unit}", f"tb/{options.reference}", "least", "greatest"],
        rows,
        notes,
        aims,
    )
