"""The contract of the device ABI at level 4, by tb-device's own kit."""

from __future__ import annotations

import json
import subprocess
import sys
import tempfile
from pathlib import Path

from benchmarks.gpu.parts.part import Options, Result, main


def part(options: Options) -> Result:
    with tempfile.TemporaryDirectory() as scratch:
        report = Path(scratch) / "contract.json"
        command = [sys.executable, "-m", "tb_device.cli", "contract", "--driver", "cuda", "--level", "4"]
        command += ["--json", str(report), *(["--image", options.image] if options.image else [])]
        command += ["--only", "MEM"] if options.quick else []
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if not report.exists():
            raise RuntimeError(f"the contract gave no report: {(done.stdout + done.stderr)[-2000:]}")
        found = json.loads(report.read_text())
    text = f"{found['passed']} passed, {found['failed']} failed, {found['not_offered']} not offered"
    return Result(
        "passed" if found["passing"] else "failed",
        f"{text}; level 4{', cases MEM only' if options.quick else ''}",
        notes=[f"{each['id']}: {each['text']}" for each in found["results"] if each["outcome"] == "failed"],
    )


if __name__ == "__main__":
    sys.exit(main(__doc__, part))
