"""The quick conformance profile on device tb with the CUDA driver."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.gpu.parts.needs import missing_backend, missing_torch
from benchmarks.gpu.parts.part import Options, Result, main

FAILURES_LISTED = 20
SHARE = 0.8  # of the part's time; after it the suite begins no further case, so that it can still write a report


def part(options: Options) -> Result:
    missing = missing_torch() or missing_backend()
    if missing:
        return Result("not run", missing)
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "conformance.json"
        command = [sys.executable, "-m", "torch_backend.conformance", "--device", "tb", "--profile", "quick"]
        command += ["--json", str(report), "--time-limit", str(options.seconds * SHARE)]
        if options.quick:
            command += ["--op", "add,sub", "--check", "forward", "--dtype", "float32", "--samples", "1"]
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if not report.exists():
            raise RuntimeError(f"the conformance suite gave no report: {(done.stdout + done.stderr)[-2000:]}")
        found = json.loads(report.read_text())
    checks = found["checks"]
    total, executed = (sum(each[key] for each in checks.values()) for key in ("total", "executed"))
    failed = sum(each["failed"] for each in checks.values())
    failures = [
        f"{name} {each['op']} {each['dtype']}: {each['message']}"
        for name, check in checks.items()
        for each in check["failures"]
    ]
    return Result(
        "failed" if done.returncode or executed < total else "passed",
        f"{executed} of {total} cases ran, {failed} failed; profile quick{', two operators' if options.quick else ''}",
        ["check", "cases", "run", "passed", "expected failures", "failed", "native"],
        [
            [
                name,
                *(each[key] for key in ("total", "executed", "passed", "xfailed", "failed")),
                each.get("native_rate", ""),
            ]
            for name, each in checks.items()
        ],
        failures[:FAILURES_LISTED],
    )


if __name__ == "__main__":
    sys.exit(main(__doc__, part))
