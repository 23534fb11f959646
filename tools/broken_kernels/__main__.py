"""Runs a module that judges devices once for each fault: `python -m broken_kernels FOLDER MODULE [ARGUMENT...]`.

The module must name a failed test and end with status 1 for each fault; its output is in FOLDER/FAULT.log. It gets
`--results FOLDER/FAULT/results`.
"""

from __future__ import annotations

import os
import pathlib
import re
import subprocess
import sys

from broken_kernels.faults import FAULTS

# What a judge prints of a test or a case, not of a file; a reason of its verdict has a colon there.
TEST_FAILED = re.compile(r"FAILED [\w/.]+ (?!\(import\))")
METADATA = "Metadata-Version: 2.1\nName: broken-kernels\nVersion: 1.0\n"


def install(fault: str, folder: pathlib.Path) -> None:
    """Makes the folder look, on PYTHONPATH, as if a package with this fault as a backend of PyTorch was installed."""
    metadata = folder / "broken_kernels-1.0.dist-info"
    metadata.mkdir(parents=True, exist_ok=True)
    (metadata / "METADATA").write_text(METADATA)
    (metadata / "entry_points.txt").write_text(f"[torch.backends]\nbroken = broken_kernels.faults:{fault}\n")


def finds(fault: str, folder: pathlib.Path, command: list[str]) -> bool:
    """Whether the command fails where the fault is, and not otherwise than by finding failures."""
    install(fault, folder / fault / "installed")
    path = [str(folder / fault / "installed"), str(pathlib.Path(__file__).parents[1]), os.environ.get("PYTHONPATH", "")]
    with (folder / f"{fault}.log").open("w") as log:
        done = subprocess.run(
            [sys.executable, "-m", *command, "--results", str(folder / fault / "results")],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(path)},
            stdout=log,
            stderr=subprocess.STDOUT,
            check=False,
        )
    lines = (folder / f"{fault}.log").read_text().splitlines()
    first = next((line for line in lines if TEST_FAILED.match(line)), None)
    found = done.returncode == 1 and first is not None
    print(f"{'found' if found else 'NOT FOUND'}: {fault}: {(first or lines[-1])[:200]}", flush=True)
    return found


def main() -> int:
    folder, *command = sys.argv[1:]
    missed = [fault for fault in FAULTS if not finds(fault.__name__, pathlib.Path(folder).absolute(), command)]
    print(f"{len(FAULTS) - len(missed)} of {len(FAULTS)} broken kernels are found")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
