"""The matrix of drivers and features in docs/status.md, made from `tb-device explain` of each driver.

`PYTHONPATH=tools:tests python tools/checks/status.py` writes it between the page's markers; `--check` fails if the page
has a different one. Needs tb-device, and meson, ninja and a compiler for the simulated libraries of vendors' drivers.
"""

from __future__ import annotations

import json
import pathlib
import subprocess
import sys
from typing import Any

from checks.marked import replaced
from sim_vendor.simulated import FILES

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "status.md"
BEGIN, END = "<!-- matrix: tools/checks/status.py -->", "<!-- end of matrix -->"
OWN = [sys.executable, "-m", "tb_device.cli"]
SIMULATED = [sys.executable, "-m", "sim_vendor.run"]
DRIVERS = {"cpu": OWN, "sim": OWN, **dict.fromkeys(FILES, SIMULATED)}
WORDS = {
    "native": "native",
    "emulated by the host": "emulated",
    "on the CPU": "on the CPU",
    "not needed": "not needed",
    "not available": "-",
}


def explained(driver: str) -> dict[str, Any]:
    """The output of `tb-device explain` for a driver. subprocess.CalledProcessError: the driver cannot be opened."""
    command = [*DRIVERS[driver], "explain", "--driver", driver, "--json"]
    text = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
    found: dict[str, Any] = json.loads(text)
    return found


def matrix(by_driver: dict[str, dict[str, Any]]) -> str:
    """A row for each feature, a column for each driver."""
    titles = [name if DRIVERS[name] is OWN else f"{name}, simulated" for name in by_driver]
    lines = [f"| feature | in PyTorch | {' | '.join(titles)} |", "| --- " * (len(titles) + 2) + "|"]
    levels = [str(found["level"]) for found in by_driver.values()]
    lines.append(f"| level of the contract kit | | {' | '.join(levels)} |")
    features = [{row["feature"]: row for row in found["features"]} for found in by_driver.values()]
    for name, row in features[0].items():
        seen_as = "" if row["seen_as"] == "-" else f"`{row['seen_as']}`" if "(" in row["seen_as"] else row["seen_as"]
        lines.append(f"| {name} | {seen_as} | {' | '.join(WORDS[each[name]['state']] for each in features)} |")
    return "\n".join(lines)


def with_matrix(page: str, table: str) -> str:
    """The page with its matrix replaced by this one."""
    try:
        return replaced(page, BEGIN, END, table)
    except ValueError as error:
        raise SystemExit(f"{PAGE.name}: {error}") from error


def main(arguments: list[str]) -> int:
    page = PAGE.read_text(encoding="utf-8")
    wanted = with_matrix(page, matrix({driver: explained(driver) for driver in DRIVERS}))
    if page == wanted:
        return 0
    if "--check" in arguments:
        print(f"docs/{PAGE.name} is not what the drivers offer; run tools/checks/status.py without --check")
        return 1
    PAGE.write_text(wanted, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
