"""Reports what the CUDA driver does on this machine. Needs no network.

python tools/benchmarks/gpu/report.py [--only PART] [--simulated]

Each part runs in its own process with a time limit, so that a part that fails loses no other part's result. Prints
tables, and writes JSON to build/gpu_report.json after each part. Statuses: 0 every part ran, passed and met its aims;
1 something failed; 2 wrong usage; 3 no CUDA device; 4 nothing failed, but something could not run here; 5 an aim was
missed.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

TOOLS = Path(__file__).resolve().parents[2]
TESTS = TOOLS.parent / "tests"
PACKAGE = "benchmarks.gpu.parts"
SIMULATED = "SIMULATION, not a GPU"
FAILED, NO_DEVICE, NOT_RUN, AIM_MISSED = 1, 3, 4, 5
FACTS_SECONDS = 120
TAIL = 3000  # characters of a failed part's output that the report shows


@dataclass(frozen=True)
class Part:
    """A module of benchmarks.gpu.parts and its time limit in seconds."""

    title: str
    seconds: float


PARTS = {
    "contract": Part("Contract of the device ABI, level 4", 600),
    "calls": Part("Cost of map, unmap, event record and query", 300),
    "operators": Part("Host cost of operators, tb beside torch.cuda", 600),
    "steps": Part("Training steps, tb beside torch.cuda", 1200),
    "process_groups": Part("Collectives of process groups, tb beside torch.cuda", 600),
    "allocator": Part("tb-allocator as PyTorch's CUDA allocator", 900),
    "conformance": Part("Conformance, profile quick", 1800),
}


def end(process: subprocess.Popen[str]) -> None:
    """Kills a part and all processes that it started, some of which may still run after it ended."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    process.wait()


def failure(text: str) -> dict[str, Any]:
    return {"outcome": "failed", "text": text, "columns": [], "rows": [], "notes": [], "aims": []}


def run_part(name: str, seconds: float, options: list[str], environment: dict[str, str]) -> dict[str, Any]:
    """Runs a part and returns its result with the seconds that it took. A crash or the time limit is a failure."""
    with tempfile.TemporaryDirectory() as scratch:
        out, text = Path(scratch) / "result.json", Path(scratch) / "text"
        command = [sys.executable, "-m", f"{PACKAGE}.{name}", "--out", str(out), "--seconds", str(seconds), *options]
        started = time.monotonic()
        with text.open("w") as log:
            process = subprocess.Popen(
                command, env=environment, stdout=log, stderr=subprocess.STDOUT, start_new_session=True, text=True
            )
            try:
                status = process.wait(seconds)
                problem = f"the part ended with status {status}" if status or not out.exists() else ""
            except subprocess.TimeoutExpired:
                problem = f"the part was not done after {seconds:.0f} s and was ended"
            finally:
                end(process)  # also if a signal ends the report
        result = failure(f"{problem}: {text.read_text()[-TAIL:]}") if problem else json.loads(out.read_text())
    return {**result, "seconds": time.monotonic() - started}


def read_facts(environment: dict[str, str]) -> dict[str, Any] | None:
    """The machine, device and versions. Without a CUDA device: None, and the reason on standard error."""
    command = [sys.executable, "-m", f"{PACKAGE}.facts"]
    try:
        done = subprocess.run(
            command, env=environment, stdout=subprocess.PIPE, text=True, timeout=FACTS_SECONDS, check=False
        )
    except subprocess.TimeoutExpired:
        print(f"libcuda did not answer within {FACTS_SECONDS} s: see nvidia-smi", file=sys.stderr)
        return None
    facts: dict[str, Any] | None = json.loads(done.stdout) if done.returncode == 0 else None
    return facts


def cell(value: object) -> str:
    return f"{value:.4g}" if isinstance(value, float) else str(value).replace("|", "/")


def readable_part(name: str, result: dict[str, Any], label: str) -> list[str]:
    """A part as lines of Markdown."""
    lines = ["", f"## {PARTS[name].title}{label}", "", f"{result['outcome'].upper()}: {result['text']}"]
    if result["rows"]:
        columns = result["columns"]
        lines += ["", f"| {' | '.join(columns)} |", f"|{' --- |' * len(columns)}"]
        lines += [f"| {' | '.join(map(cell, row))} |" for row in result["rows"]]
    notes = [
        f"aim {'met' if aim['met'] else 'MISSED'}: {aim['what']}: {cell(aim['found'])} <= {aim['bound']}"
        for aim in result["aims"]
    ]
    notes += result["notes"]
    return [*lines, "", *(f"- {note}" for note in notes)] if notes else lines


def header(facts: dict[str, Any], label: str) -> list[str]:
    packages = ", ".join(f"{name} {version}" for name, version in facts["versions"].items())
    return [
        f"# {facts['device']}{label}",
        "",
        f"{facts['date']}; {facts['devices']} x {facts['device']}, {facts['arch']}, "
        f"{facts['memory_bytes'] / (1 << 30):.0f} GiB; {facts['driver']}; kernel module: {facts['kernel_module']}; "
        f"{facts['machine']}; Python {facts['python']}; {packages}",
    ]


def summary(parts: dict[str, Any]) -> str:
    counts = {kind: sum(part["outcome"] == kind for part in parts.values()) for kind in ("passed", "failed", "not run")}
    aims = [aim["met"] for part in parts.values() for aim in part["aims"]]
    parts_text = ", ".join(f"{count} {kind}" for kind, count in counts.items())
    return f"{len(parts)} parts: {parts_text}; aims met: {sum(aims)} of {len(aims)}"


def status_of(parts: dict[str, Any]) -> int:
    outcomes = {part["outcome"] for part in parts.values()}
    if "failed" in outcomes:
        return FAILED
    if "not run" in outcomes:
        return NOT_RUN
    return 0 if all(aim["met"] for part in parts.values() for aim in part["aims"]) else AIM_MISSED


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", action="append", choices=PARTS, metavar="PART", help=f"of {', '.join(PARTS)}")
    parser.add_argument("--json", type=Path, default=Path("build/gpu_report.json"), metavar="FILE")
    parser.add_argument("--page", type=Path, metavar="FILE", help="write the tables there too, as Markdown")
    parser.add_argument("--limit", type=float, metavar="SECONDS", help="no part gets more time than this")
    parser.add_argument("--quick", action="store_true", help="does everything run? The figures mean nothing then")
    parser.add_argument(
        "--simulated", action="store_true", help="on the libcuda of tests/sim_vendor, which this builds"
    )
    parser.add_argument("--reference", default="cuda", help="compare tb with another device (default %(default)s)")
    parser.add_argument("--image", help="the contract's kernels, instead of the kit's PTX")
    return parser.parse_args()


def main() -> int:
    asked = arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))  # so that run_part() ends its part
    environment = {**os.environ, "TB_DRIVER": "cuda"}
    environment["PYTHONPATH"] = os.pathsep.join(filter(None, [str(TOOLS), environment.get("PYTHONPATH", "")]))
    if asked.simulated:
        sys.path.insert(0, str(TESTS))
        from sim_vendor.simulated import IMAGES, variables

        environment.update(variables("cuda"))
        asked.image = asked.image or str(Path(environment["TB_CUDA_LIBRARY"]).parent / IMAGES["cuda"])
    facts = read_facts(environment)
    if facts is None:
        return NO_DEVICE
    options = ["--reference", asked.reference, *(["--quick"] if asked.quick else [])]
    options += ["--image", asked.image] if asked.image else []
    label = f" ({SIMULATED})" if facts["simulated"] else ""
    label += " (QUICK: the figures mean nothing)" if asked.quick else ""
    parts: dict[str, Any] = {}
    asked.json.parent.mkdir(parents=True, exist_ok=True)
    lines = header(facts, label)
    print("\n".join(lines), flush=True)
    for name in [each for each in PARTS if not asked.only or each in asked.only]:
        seconds = min(PARTS[name].seconds, asked.limit or PARTS[name].seconds)
        parts[name] = run_part(name, seconds, options, environment)
        report = {**facts, "label": label.strip(), "quick": asked.quick, "parts": parts}
        asked.json.write_text(json.dumps(report, indent=1) + "\n")
        tables = readable_part(name, parts[name], label)
        lines += tables
        print("\n".join(tables), flush=True)
        if asked.page:
            asked.page.parent.mkdir(parents=True, exist_ok=True)
            asked.page.write_text("\n".join(lines) + "\n", encoding="utf-8")
    print(f"\n{summary(parts)}{label}")
    return status_of(parts)


if __name__ == "__main__":
    sys.exit(main())
