"""The demo's outputs: build/demo.json, a picture of the loss curve, and the closing table."""

from __future__ import annotations

import json
import pathlib
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True)
class Result:
    """The fields of build/demo.json. Losses and entropy: nats per byte. Times: milliseconds per step."""

    device: str
    driver: str
    steps: int
    seconds: float
    loss_first: float
    loss_last: float  # mean of the last 50 steps
    unigram_entropy: float
    tb_losses: list[float]
    cpu_losses: list[float]
    tb_step_ms: float | None  # None: not timed
    cpu_step_ms: float | None
    ratio: float | None
    peak_bytes: int
    fallbacks: list[dict[str, Any]]


def write_json(result: Result, path: pathlib.Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(asdict(result), indent=1) + "\n")


def smoothed(values: list[float], window: int) -> list[float]:
    """The running mean over the last `window` values (fewer at the beginning)."""
    means, total = [], 0.0
    for index, value in enumerate(values):
        total += value - (values[index - window] if index >= window else 0.0)
        means.append(total / min(index + 1, window))
    return means


def draw_losses(losses: list[float], held_out: float, entropy: float, device: str, path: pathlib.Path) -> None:
    """Draws the loss of every step, its running mean, the held-out loss, and the entropy of single bytes as a line."""
    import matplotlib

    matplotlib.use("Agg")
    from matplotlib import pyplot

    steps = range(1, len(losses) + 1)
    figure, axes = pyplot.subplots(figsize=(8, 4.5), layout="constrained")
    axes.plot(steps, losses, color="#9db8d9", linewidth=0.8, label="each step")
    window = max(1, min(50, len(losses) // 20))
    axes.plot(steps, smoothed(losses, window), color="#1f4e8c", linewidth=1.8, label=f"mean of {window} steps")
    axes.axhline(entropy, color="#b03a2e", linestyle="--", linewidth=1.2, label=f"byte-unigram entropy {entropy:.3f}")
    axes.plot([len(losses)], [held_out], "o", color="#d68910", label=f"held-out files, at the end {held_out:.3f}")
    axes.set_xlabel("training step")
    axes.set_ylabel("cross-entropy (nats per byte)")
    axes.set_title(f"Byte-level transformer on Python's standard library, device {device}")
    axes.set_ylim(bottom=0)
    axes.set_xlim(0, len(losses) + 1)
    axes.grid(alpha=0.25)
    axes.legend()
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=120)
    pyplot.close(figure)


def _time(value: float | None, digits: int) -> str:
    return "not timed" if value is None else f"{value:.{digits}f}"


def table(result: Result, held_out: float) -> str:
    """The closing table as text."""
    name = result.device.split(":")[0]
    agreement = len(result.tb_losses)
    rows = [
        ("", f"{name} ({result.driver})", "stock cpu", f"{name}/cpu"),
        ("step time, ms", _time(result.tb_step_ms, 2), _time(result.cpu_step_ms, 2), _time(result.ratio, 3)),
        ("loss, step 1", f"{result.tb_losses[0]:.5f}", f"{result.cpu_losses[0]:.5f}", ""),
        (f"loss, step {agreement}", f"{result.tb_losses[-1]:.5f}", f"{result.cpu_losses[-1]:.5f}", ""),
        (f"loss, step {result.steps}", f"{result.loss_last:.5f}", "", ""),
        ("held-out loss", f"{held_out:.5f}", "", ""),
        ("byte-unigram entropy", f"{result.unigram_entropy:.5f}", "", ""),
        ("peak memory, MiB", f"{result.peak_bytes / 2**20:.1f}", "", ""),
        ("operators that fell back", str(len(result.fallbacks)), "", ""),
    ]
    widths = [max(len(row[column]) for row in rows) for column in range(4)]
    lines = [
        "  ".join([row[0].ljust(widths[0]), *(row[i].rjust(widths[i]) for i in (1, 2, 3))]).rstrip() for row in rows
    ]
    lines.insert(1, "-" * max(len(line) for line in lines))
    lines += [f"  {f['operator']}: {f['calls']} calls, {f['seconds']:.3f} s" for f in result.fallbacks]
    return "\n".join(lines)
