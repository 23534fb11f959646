"""Runs tb-device, or the demo, with a driver on its simulated library.

`python -m sim_vendor.run contract --driver npu --level 4`, `python -m sim_vendor.run demo --driver cuda`;
 tests/ and tools/ are on PYTHONPATH.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from sim_vendor.simulated import IMAGES, variables

# A simulated step takes seconds, and its time says nothing about a device. So the demo compares the losses of its first
# 20 steps with stock cpu's, as always, but times nothing and trains for 5 steps only.
DEMO = ["--untimed", "--steps", "5", "--sample", "20"]


def main(command: list[str]) -> int:
    """Runs a command, whose first word is `demo` or a command of tb-device, and returns its status."""
    name = command[command.index("--driver") + 1]
    environment = {**os.environ, **variables(name)}
    if name in IMAGES and command[0] == "contract" and "--image" not in command:
        library = Path(environment[f"TB_{name.upper()}_LIBRARY"])
        command = [*command, "--image", str(library.parent / IMAGES[name])]
    module = ["examples.demo", *DEMO, *command[1:]] if command[0] == "demo" else ["tb_device.cli", *command]
    return subprocess.run([sys.executable, "-m", *module], env=environment, check=False).returncode


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
