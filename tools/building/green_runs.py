"""What a gate need not prove once more: parts whose inputs are those of a green run that the tree's history records.

`.ci/green.toml` has, for each part of the gate, the digest of its inputs at its last green run. The gate runs a part
whose inputs differ. Of the others it runs those that the commit's hash draws, one of three: a record may be wrong,
and another machine may differ. The longest take turns: a gate runs one of those whose inputs differ. The gate writes
what it found green to the file; who lands a change commits it. `nox -s all-checks` runs every part.
"""

from __future__ import annotations

import dataclasses
import hashlib
import os
import pathlib
import subprocess
import sys
import tomllib
from collections.abc import Iterable, Sequence

from checks.tree import listed

from building.packages import ROOT, closure, read_packages

RECORD = pathlib.PurePath(".ci/green.toml")
DRAWN_OF = 3
# What decides how everything is built and run.
MEANS = [".ci/run", "noxfile.py", "shared", "tools/building", "tools/pytest_plugins"]
PAGES = ["docs", "README.md"]
NVRTC_INPUTS = [
    "packages/tb-ops/src/tb_ops/device_kernels",
    "packages/tb-ops/src/backends/jit/compiler",
    "packages/tb-device/contract/kernels_cuda.ptx",
    "packages/tb-device/drivers/cuda/README.md",
]
# The folders of tests/ that read pages, and those that read the tests of packages.
OF_PAGES = {"distributed", "documents", "tools"}
OF_TESTS = {"documents", "tools"}


@dataclasses.dataclass(frozen=True)
class Part:
    """A part of the gate, and the files and folders on which its result depends.

    Attributes:
        others: folders of tests/ whose files named test_*.py do not matter.
    """

    name: str
    inputs: tuple[str, ...]
    others: tuple[str, ...] = ()

    def digest(self, root: pathlib.Path = ROOT) -> str:
        """SHA-256 over the names and contents of the inputs, as they are in the working tree."""
        digest = hashlib.sha256()
        for name in listed(root, *self.inputs, new=True):
            path = pathlib.PurePath(name)
            unrelated = path.parts[:1] == ("tests",) and path.parts[1] in self.others
            if (unrelated and path.name.startswith("test_")) or not (root / name).is_file():
                continue
            content = (root / name).read_bytes()
            digest.update(f"{name}\0{len(content)}\0".encode() + content)
        return digest.hexdigest()[:32]


def integration_folders(root: pathlib.Path = ROOT) -> list[str]:
    """The folders of tests/ that have tests."""
    return sorted({path.relative_to(root / "tests").parts[0] for path in (root / "tests").glob("*/**/test_*.py")})


def parts(root: pathlib.Path = ROOT) -> dict[str, Part]:
    """Every part that a record can have, by its name."""
    packages = read_packages(root)
    found = []
    for name in packages:
        needed = [f"packages/{package.name}" for package in closure(packages, [name])]
        tests_of_others = [f":(exclude){folder}/tests" for folder in needed if folder != f"packages/{name}"]
        simulated = ["tests/sim_vendor"] if name == "tb-device" else []
        found.append(Part(name, (*MEANS, ":(glob)tests/*.py", *simulated, *needed, *tests_of_others)))
    folders = integration_folders(root)
    for folder in folders:
        others = tuple(other for other in folders if other != folder)
        pages = PAGES if folder in OF_PAGES else []
        tests = [] if folder in OF_TESTS else [":(exclude)packages/*/tests"]
        found.append(Part(f"tests/{folder}", (*MEANS, "packages", "tools", "tests", *pages, *tests), others))
    kit = [*MEANS, "packages/tb-device", "tests/sim_vendor"]
    found += [
        Part("conformance", (*MEANS, "packages")),
        Part("contract", tuple(kit)),
        Part("mutants", tuple(kit)),
        Part("schemas", (*MEANS, "packages/tb-ops")),
        Part("opencl", (*MEANS, "packages", "tools/opencl", "tools/examples")),
        Part("pytorch-tests", (*MEANS, "packages")),
        Part("nvrtc", (".ci/run", "tools/checks/nvrtc_check.py", *NVRTC_INPUTS)),
        Part("docs", (*MEANS, "packages", "tools", *PAGES)),
        Part("sanitize", (*MEANS, "packages", "tests/sim_vendor")),
        Part("sanitize-ops", (*MEANS, "packages", "tests/fuzz")),
        Part("check-includes", (*MEANS, "packages")),
        Part("clients", (*MEANS, "packages", "tools")),
        Part("next-torch", (*MEANS, "packages", "tools", "tests")),
    ]
    return {part.name: part for part in found}


def recorded(root: pathlib.Path = ROOT) -> dict[str, str]:
    """The digests of the record."""
    path = root / RECORD
    return dict(tomllib.loads(path.read_text())["digests"]) if path.exists() else {}


def changed(names: Iterable[str], root: pathlib.Path = ROOT) -> list[str]:
    """Those parts whose inputs are not those of their last green run. KeyError: there is no such part."""
    known, record = parts(root), recorded(root)
    return [name for name in names if known[name].digest(root) != record.get(name)]


def drawn(names: Iterable[str], commit: str) -> list[str]:
    """The parts that a commit draws, each by a chance of one in DRAWN_OF."""
    return [n for n in names if hashlib.sha256(f"{commit} {n}".encode()).digest()[0] % DRAWN_OF == 0]


def _commit(root: pathlib.Path) -> str:
    command = ["git", "rev-parse", "HEAD"]
    return subprocess.run(command, cwd=root, check=True, capture_output=True, text=True).stdout.strip()


def chosen(names: Sequence[str], root: pathlib.Path = ROOT) -> list[str]:
    """What a gate on the present commit runs of these parts: what changed, and what the commit draws."""
    run = {*changed(names, root), *drawn(names, _commit(root))}
    return [name for name in names if name in run]


def turn(names: Sequence[str], root: pathlib.Path = ROOT) -> str:
    """The one that the present commit draws among those that changed, or among all if none did.

    "none" if most of the other parts changed: a gate that runs them has no time for a long one. Who lands the change
    records them green first.
    """
    known = parts(root)
    differ = changed(known, root)
    if len(set(differ) - set(names)) * 2 > len(set(known) - set(names)):
        return "none"
    candidates = [name for name in names if name in differ] or names
    return candidates[int(_commit(root)[:6], 16) % len(candidates)]


def note(name: str) -> None:
    """Notes a green run of a part in the file TB_CI_GREEN, if that variable is set."""
    if variable := os.environ.get("TB_CI_GREEN"):
        with open(variable, "a") as file:
            file.write(f"{name}\n")


def keep(noted: pathlib.Path, begun: pathlib.Path, root: pathlib.Path = ROOT) -> None:
    """Records the green runs that `note` noted, beside what the record has of parts that still exist.

    Arguments:
        begun: what `digests` printed when the gate began. Files may have changed while it ran.
    """
    digests = dict(line.rsplit(" ", 1) for line in begun.read_text().splitlines())
    kept = {name: digest for name, digest in recorded(root).items() if name in digests}
    kept |= {name: digests[name] for name in noted.read_text().splitlines()}
    lines = ["# Written by .ci/run (tools/building/green_runs.py).", "[digests]"]
    lines += [f'"{name}" = "{digest}"' for name, digest in sorted(kept.items())]
    (root / RECORD).write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    match sys.argv[1:]:
        case [
            "chosen",
            *names,
        ]:  # exit status 0: at least one is to run; 1: none is; 2: there is no such part
            if unknown := [name for name in names if name not in parts()]:
                print(f"error: no part of the gate is called {', '.join(unknown)}", file=sys.stderr)
                sys.exit(2)
            print(*(found := chosen(names)))
            sys.exit(not found)
        case ["turn", *names]:
            print(turn(names))
        case ["note", name]:
            note(name)
        case ["digests"]:
            print(*(f"{part.name} {part.digest()}" for part in parts().values()), sep="\n")
        case ["keep", noted, begun]:
            keep(pathlib.Path(noted), pathlib.Path(begun))
        case _:
            sys.exit(__doc__)
