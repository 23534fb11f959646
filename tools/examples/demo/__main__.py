"""python -m examples.demo: train a byte-level language model on device tb and compare with stock cpu.

Ends with status 1 if the losses of the first steps differ, an operator fell back, or training improved nothing.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import subprocess
import sys
import time
from dataclasses import asdict, replace
from typing import Any

import torch
from benchmarks import pages
from benchmarks.page import write
from tqdm import tqdm

from examples.demo.comparison import Timing, agree, interleaved, losses, philox_masks
from examples.demo.corpus import Corpus, read_corpus
from examples.demo.model import MaskSource
from examples.demo.report import Result, draw_losses, table, write_json
from examples.demo.settings import ModelSettings, TrainingSettings
from examples.demo.training import Trainer, generate

# Losses are fetched in groups: reading one waits for the device.
_LOSSES_PER_FETCH = 10


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="nox -s demo --", description=__doc__)
    parser.add_argument("--steps", type=int, help=f"training steps ({TrainingSettings.steps}; with --ranks 20)")
    parser.add_argument("--ranks", type=int, metavar="N", help="train on N processes instead, with three wrappers")
    low = parser.add_mutually_exclusive_group()
    low.add_argument("--bf16", action="store_true", help="train under autocast to bfloat16")
    low.add_argument("--fp16", action="store_true", help="train under autocast to float16 with a gradient scaler")
    parser.add_argument("--driver", help="driver of tb, by name or path (default: tb-device chooses)")
    parser.add_argument("--device", default="tb", help="torch device to train on (%(default)s)")
    parser.add_argument("--untimed", action="store_true", help="compare losses with stock cpu, but not times")
    parser.add_argument("--sample", type=int, default=400, metavar="BYTES", help="text to generate (%(default)s)")
    parser.add_argument("--build", type=pathlib.Path, default=pathlib.Path("build"), help="folder of the results")
    parser.add_argument("--page", type=pathlib.Path, metavar="FILE", help="write docs/results/demo.md there")
    chosen = parser.parse_args()
    if chosen.steps is None:
        chosen.steps = 20 if chosen.ranks else TrainingSettings.steps
    if chosen.steps < 1:
        parser.error(f"--steps {chosen.steps}: training takes at least one step")
    return chosen


def train(trainer: Trainer, steps: int) -> list[float]:
    """Trains with a progress bar; returns the loss of every step."""
    history: list[float] = []
    waiting: list[torch.Tensor] = []
    started = time.perf_counter()
    with tqdm(total=steps, unit="step", desc="training", mininterval=0.5) as bar:
        for step in range(steps):
            waiting.append(trainer.step())
            if len(waiting) == _LOSSES_PER_FETCH or step == steps - 1:
                history += torch.stack(waiting).tolist()
                rate = trainer.tokens_per_step * len(history) / (time.perf_counter() - started)
                bar.set_postfix(loss=f"{history[-1]:.3f}", tokens_per_s=f"{rate:,.0f}", refresh=False)
                bar.update(len(waiting))
                waiting.clear()
    return history


def compare(device: torch.device, corpus: Corpus, model: ModelSettings, settings: TrainingSettings) -> Any:
    """Losses of the first steps on both devices, and their timing; None with no timed pairs."""
    cpu = torch.device("cpu")
    masks: MaskSource | None = philox_masks(settings.seed) if device.type == "tb" else None
    torch.manual_seed(settings.seed)
    first = losses(Trainer(device, corpus, model, settings), settings.agreement_steps)
    torch.manual_seed(settings.seed)
    second = losses(Trainer(cpu, corpus, model, settings), settings.agreement_steps, masks)
    if not settings.timed_pairs:
        return first, second, None
    with tqdm(total=settings.timed_pairs, unit="pair", desc="timing") as bar:
        timing = interleaved(
            Trainer(device, corpus, model, settings),
            Trainer(cpu, corpus, model, settings),
            settings.timed_pairs,
            settings.timed_steps,
            bar.update,
        )
    return first, second, timing


def main() -> int:
    chosen = arguments()
    if chosen.driver:
        os.environ["TB_DRIVER"] = chosen.driver
    if chosen.ranks:
        return on_ranks(chosen.ranks, chosen.steps)
    device = torch.device(chosen.device)
    model = ModelSettings()
    settings = replace(TrainingSettings(), steps=chosen.steps, bf16=chosen.bf16, fp16=chosen.fp16)
    if chosen.untimed:
        settings = replace(settings, timed_pairs=0)
    corpus = read_corpus()
    print(
        f"{corpus.files} files of the standard library, {len(corpus.train):,} bytes to train on; byte-unigram entropy "
        f"{corpus.unigram_entropy:.4f} nats; device {device}, {torch.get_num_threads()} threads"
    )
    started = time.perf_counter()
    first: list[float]
    second: list[float]
    timing: Timing | None
    first, second, timing = compare(device, corpus, model, settings)

    on_tb = device.type == "tb"
    driver = torch.tb.get_device_properties(device).driver if on_tb else "none"  # type: ignore[attr-defined]
    if on_tb:
        torch.accelerator.reset_peak_memory_stats(device)
    torch.manual_seed(settings.seed)
    trainer = Trainer(device, corpus, model, settings)
    history = train(trainer, settings.steps)
    held_out = trainer.evaluate(corpus.held_out, batches=20)
    sample = generate(trainer, b"def ", length=chosen.sample, temperature=0.6, seed=settings.seed)

    tail = history[-50:]
    result = Result(
        device=str(device),
        driver=driver,
        steps=settings.steps,
        seconds=time.perf_counter() - started,
        loss_first=history[0],
        loss_last=sum(tail) / len(tail),
        unigram_entropy=corpus.unigram_entropy,
        tb_losses=first,
        cpu_losses=second,
        tb_step_ms=timing.first_ms if timing else None,
        cpu_step_ms=timing.second_ms if timing else None,
        ratio=timing.ratio if timing else None,
        peak_bytes=torch.accelerator.max_memory_allocated(device) if on_tb else 0,
        fallbacks=fallback_rows() if on_tb else [],
    )
    write_json(result, chosen.build / "demo.json")
    if chosen.page:
        write(chosen.page, pages.demo(asdict(result), held_out))
    draw_losses(history, held_out, corpus.unigram_entropy, str(device), chosen.build / "demo-loss.png")
    print(f"\nA sample, after {settings.steps} steps:\n{sample.decode('utf-8', 'replace')}\n")
    print(table(result, held_out))
    print(f"\nwritten: {chosen.build / 'demo.json'}, {chosen.build / 'demo-loss.png'}")
    return report_failures(result, settings)


def on_ranks(count: int, steps: int) -> int:
    """Trains by torchrun, a device for each rank where the driver can have them; returns its status."""
    environment = {"TB_CPU_DEVICES": str(count), "OMP_NUM_THREADS": "1", **os.environ}
    command = [sys.executable, "-m", "torch.distributed.run", "--standalone", f"--nproc-per-node={count}"]
    return subprocess.run([*command, "-m", "examples.demo.ranks", "--steps", str(steps)], env=environment).returncode


def fallback_rows() -> list[dict[str, Any]]:
    """The fallback statistics of torch.tb as rows with operator, calls, seconds."""
    rows = torch.tb.fallbacks()  # type: ignore[attr-defined]
    return [{"operator": row.operator, "calls": row.calls, "seconds": row.seconds} for row in rows]


def report_failures(result: Result, settings: TrainingSettings) -> int:
    """1 with a line on standard error for each promise that was not kept, otherwise 0."""
    failures = []
    # bfloat16 keeps two to three digits, and stock cpu runs other operators in the lower type.
    relative = 5e-3 if settings.bf16 or settings.fp16 else 1e-3
    if not agree(result.tb_losses, result.cpu_losses, relative):
        failures.append(f"the losses of the first steps differ from stock cpu's by more than {relative:.1%}")
    if result.fallbacks:
        failures.append("operators fell back to the CPU; the table lists them")
    if settings.steps >= 500 and result.loss_last > 0.75 * result.unigram_entropy:
        failures.append("the loss did not get well under the byte-unigram entropy")
    for failure in failures:
        print(f"demo: {failure}", file=sys.stderr)
    return 1 if failures else 0


if __name__ == "__main__":
    sys.exit(main())
