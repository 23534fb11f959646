"""The last releases of each client: whether each finds tb, and which of its places differ from what is known.

A release is in a folder of its own in front of the search path, beside the other clients and what they declare, so
that nothing but the release changes. A release that cannot be imported there, also without torch_backend, says nothing.
"""

from __future__ import annotations

import argparse
import importlib
import json
import os
import pathlib
import re
import subprocess
import sys
import warnings
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from importlib import metadata
from typing import Any

from checks.marked import replaced

from clients.uses import USES
from clients.versions import VARIABLES

TOOLS = pathlib.Path(__file__).resolve().parents[1]
LAST = 10
SECONDS = 600
"""After this time the process of one release is ended."""
BEGIN = "<!-- releases: begin -->"
END = "<!-- releases: end -->"


@dataclass
class Seen:
    """What a process saw of one release.

    Attributes:
    left: the places that differ, and how.
    warned: the warnings of torch_backend.
    wrong: uses that gave another device than tb where nothing was asked, or than the CPU where that was asked for.
    error: why it cannot be imported; "" if it can.
    used: how many uses were tried.
    """

    left: dict[str, str] = field(default_factory=dict)
    warned: list[str] = field(default_factory=list)
    wrong: list[str] = field(default_factory=list)
    error: str = ""
    used: int = 0


@dataclass
class Release:
    """The outcome of one release: "found", "nothing to find", "cannot be imported" or "failed", and why."""

    distribution: str
    version: str
    outcome: str
    reason: str = ""


def look(package: str) -> Seen:
    """Imports the client and the modules of all its places, as a program does, and uses it.

    Without torch_backend only what asks for the CPU.
    """
    seen, ours = Seen(), False
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            importlib.import_module(package)
            import torch

            ours = "torch_backend.integrations" in sys.modules
            for module in dict.fromkeys(mend.module for mend in _client(package).mends) if ours else ():
                _import_if_there(module)
            for use in USES[package]:
                asked, got = use.of_cpu(), use.of_default() if ours else []
                seen.used += len(got)
                seen.wrong += [f"{use.name}: {device}" for device in got if torch.device(device).type != "tb"]
                seen.wrong += [f"{use.name}, asked for the cpu: {device}" for device in asked if str(device) != "cpu"]
        except Exception as error:
            seen.error = f"{type(error).__name__}: {error}".splitlines()[0]
    if ours:
        seen.left = dict(_client(package).left)
    seen.warned = [str(each.message) for each in caught if "torch_backend" in str(each.message)]
    return seen


def _import_if_there(module: str) -> None:
    try:
        importlib.import_module(module)
    except ModuleNotFoundError as error:
        if error.name is None or not f"{module}.".startswith(f"{error.name}."):
            raise  # something that the module needs


def _client(package: str) -> Any:
    from torch_backend import integrations

    return integrations.client_of(package)


def judge(distribution: str, version: str, seen: Seen, without_us: Seen | None) -> Release:
    """What counts. `without_us` is what is seen without torch_backend; None if there was no error with it."""
    if seen.error:
        alone = without_us is not None and bool(without_us.error)
        return Release(distribution, version, "cannot be imported" if alone else "failed", seen.error)
    problems = [*seen.wrong, *(f"{place} {why}" for place, why in seen.left.items()), *seen.warned]
    if problems:
        return Release(distribution, version, "failed", "; ".join(problems))
    return Release(distribution, version, "found" if seen.used else "nothing to find")


def versions(distribution: str, count: int) -> list[str]:
    """The newest ones on the index, the newest first."""
    command = [sys.executable, "-m", "pip", "index", "versions", distribution]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = re.search(r"^Available versions: (.*)$", text, re.MULTILINE)
    return found[1].split(", ")[:count] if found else []


def install(distribution: str, version: str, folder: pathlib.Path) -> pathlib.Path:
    """The folder of a release, which is made once."""
    target = folder / f"{distribution}-{version}"
    if not target.exists():
        command = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--no-compile", "--target"]
        made = target.with_suffix(".part")
        subprocess.run([*command, str(made), f"{distribution}=={version}"], check=True, stderr=subprocess.DEVNULL)
        made.rename(target)
    return target


def look_apart(package: str, target: pathlib.Path, *, with_us: bool) -> Seen:
    path = os.pathsep.join([str(target), str(TOOLS)])
    environment = {**os.environ, **VARIABLES.get(package, {}), "PYTHONPATH": path, "HF_HUB_OFFLINE": "1"}
    environment |= {"OMP_NUM_THREADS": "1", "TORCH_DEVICE_BACKEND_AUTOLOAD": "1" if with_us else "0"}
    command = [sys.executable, "-m", "clients.releases", "--here", package]
    try:
        done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=SECONDS, cwd=target)
        return Seen(**json.loads(done.stdout.splitlines()[-1]))
    except subprocess.TimeoutExpired:
        return Seen(error=f"it had not ended after {SECONDS} s")
    except (IndexError, ValueError, TypeError):
        return Seen(error=f"the process ended with status {done.returncode}: {done.stderr[-200:]}")


def check(package: str, version: str, folder: pathlib.Path) -> Release:
    distribution = _client(package).distribution
    target = install(distribution, version, folder)
    seen = look_apart(package, target, with_us=True)
    release = judge(distribution, version, seen, look_apart(package, target, with_us=False) if seen.error else None)
    print(f"{release.outcome:<18} {distribution} {version} {release.reason}", flush=True)
    return release


def table(releases: Sequence[Release], torch: str) -> str:
    """The part of the page."""
    lines = [f"The last releases of each client beside torch {torch}:", ""]
    lines += ["| client | releases | tb is found | not in |", "| --- | --- | --- | --- |"]
    for name in dict.fromkeys(release.distribution for release in releases):
        some = [release for release in releases if release.distribution == name]
        found = [release for release in some if release.outcome == "found"]
        others = [f"{each.version} ({each.outcome})" for each in some if each not in found]
        lines.append(
            f"| {name} | {some[-1].version} to {some[0].version} | {len(found)} of {len(some)} | {', '.join(others)} |"
        )
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Returns 0 if no release failed and some release of each client finds tb."""
    parser = argparse.ArgumentParser(prog="nox -s check-client-releases --", description=__doc__)
    parser.add_argument("clients", nargs="*", metavar="CLIENT", help=f"some of {' '.join(USES)} (default: all)")
    parser.add_argument("--last", type=int, default=LAST, help="how many releases of each")
    parser.add_argument("--folder", type=pathlib.Path, help="where releases are kept")
    parser.add_argument("--page", type=pathlib.Path, help="the page that gets the table")
    parser.add_argument("--here", help=argparse.SUPPRESS)
    chosen = parser.parse_args(arguments)
    if chosen.here:
        print(json.dumps(asdict(look(chosen.here))))
        return 0
    unknown = [name for name in chosen.clients if name not in USES]
    if unknown:
        parser.error(f"there are no uses of {', '.join(unknown)}; there are some of {', '.join(USES)}")
    releases: list[Release] = []
    for package in chosen.clients or USES:
        names = versions(_client(package).distribution, chosen.last)
        releases += [check(package, version, chosen.folder) for version in names]
    if chosen.page:
        part = table(releases, metadata.version("torch"))
        chosen.page.write_text(replaced(chosen.page.read_text(), BEGIN, END, part))
    found = {release.distribution for release in releases if release.outcome == "found"}
    never = sorted({release.distribution for release in releases} - found)
    failed = [release for release in releases if release.outcome == "failed"]
    for release in failed:
        print(f"failed: {release.distribution} {release.version}: {release.reason}")
    for name in never:
        print(f"no release of {name} found tb")
    passed = sum(release.outcome == "found" for release in releases)
    print(f"{passed} passed, {len(failed) + len(never)} failed")
    return 1 if failed or never or not releases else 0


if __name__ == "__main__":
    sys.exit(importlib.import_module("clients.releases").main())
