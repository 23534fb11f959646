"""What the gate leaves out: parts that were green with the sources as they are, but for those that the commit draws."""

from __future__ import annotations

import pathlib
import re
import subprocess
import sys

import pytest
from building import green_runs
from building.green_runs import (
    DRAWN_OF,
    RECORD,
    changed,
    chosen,
    drawn,
    integration_folders,
    keep,
    parts,
    recorded,
    turn,
)
from building.packages import ROOT

PYPROJECT = '[build-system]\nrequires = ["nanobind"]\n[project]\nname = "{}"\ndependencies = [{}]\n'


@pytest.fixture
def root(tmp_path: pathlib.Path) -> pathlib.Path:
    """A repository with two packages, of which the second needs the first, and two folders of tests."""
    texts = {
        ".ci/run": "",
        "shared/a.h": "",
        "packages/tb-device/pyproject.toml": PYPROJECT.format("tb-device", ""),
        "packages/tb-device/src/a.cpp": "",
        "packages/tb-device/tests/test_a.py": "",
        "packages/tb-ops/pyproject.toml": PYPROJECT.format("tb-ops", '"tb-device"'),
        "packages/tb-ops/src/a.cpp": "",
        "packages/tb-ops/tests/test_a.py": "",
        "tests/conftest.py": "",
        "tests/ops/test_a.py": "",
        "tests/ops/cases.py": "",
        "tests/documents/test_a.py": "",
        "docs/a.md": "",
        "README.md": "",
    }
    for name, text in texts.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    for command in (["init", "-q"], ["add", "-A"], ["-c", "user.name=a", "-c", "user.email=a", "commit", "-qm", "a"]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    return tmp_path


def record_all(root: pathlib.Path) -> None:
    """Records a green run of every part on the sources as they are."""
    begun, noted = root / "begun", root / "noted"
    begun.write_text("".join(f"{part.name} {part.digest(root)}\n" for part in parts(root).values()))
    noted.write_text("".join(f"{name}\n" for name in parts(root)))
    keep(noted, begun, root)
    begun.unlink()
    noted.unlink()


@pytest.mark.parametrize(
    ("name", "affected", "others"),
    [
        ("packages/tb-device/src/a.cpp", "tb-device tb-ops tests/ops tests/documents mutants check-includes docs", ""),
        ("packages/tb-device/src/new.cpp", "tb-device tb-ops tests/ops tests/documents mutants contract", ""),
        (
            "packages/tb-device/tests/test_a.py",
            "tb-device tests/ops tests/documents mutants contract",
            "tb-ops schemas",
        ),
        ("packages/tb-ops/src/a.cpp", "tb-ops tests/ops schemas sanitize-ops clients", "tb-device contract mutants"),
        ("packages/tb-ops/src/tb_ops/device_kernels/a.cuh", "tb-ops nvrtc", "tb-device"),
        ("shared/a.h", "tb-device tb-ops tests/ops mutants docs check-includes", ""),
        ("tests/ops/test_a.py", "tests/ops next-torch", "tests/documents tb-device tb-ops docs sanitize-ops"),
        ("tests/ops/cases.py", "tests/ops tests/documents next-torch", "tb-device tb-ops docs sanitize-ops"),
        ("tests/conftest.py", "tb-device tb-ops tests/ops tests/documents next-torch", "docs mutants"),
        ("docs/a.md", "tests/documents docs", "tests/ops tb-device next-torch mutants check-includes"),
        ("tests/sim_vendor/new.c", "tb-device tests/ops tests/documents mutants", "tb-ops torch-backend docs"),
        (".ci/run", "tb-device tb-ops tests/ops tests/documents docs sanitize next-torch", ""),
    ],
)
def test_what_a_changed_file_affects(root: pathlib.Path, name: str, affected: str, others: str) -> None:
    names = list(parts(root))
    assert changed(names, root) == names  # nothing is recorded
    record_all(root)
    assert changed(names, root) == []
    (root / name).parent.mkdir(exist_ok=True, parents=True)
    (root / name).write_text("changed")
    found = set(changed(names, root))
    assert found >= set(affected.split())
    assert not found & set(others.split())
    subprocess.run(["git", "clean", "-qfd"], cwd=root, check=True)
    subprocess.run(["git", "checkout", "-q", "."], cwd=root, check=True)
    record_all(root)
    assert changed(names, root) == []


def test_a_third_of_what_did_not_change_is_drawn() -> None:
    names = list(parts())
    counts = [sum(name in drawn(names, f"{commit:040x}") for commit in range(1000)) for name in names]
    assert all(abs(count - 1000 / DRAWN_OF) < 70 for count in counts), counts
    assert drawn(names, "a") == drawn(names, "a") != drawn(names, "b")


def test_a_gate_runs_what_changed_and_what_is_drawn(root: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    record_all(root)
    (root / "docs/a.md").write_text("changed")
    monkeypatch.setattr(green_runs, "drawn", lambda names, commit: ["mutants"])
    assert chosen(list(parts(root)), root) == ["tests/documents", "mutants", "docs"]


def test_the_turn_is_of_what_changed(root: pathlib.Path) -> None:
    long = ["sanitize", "sanitize-ops", "check-includes"]
    assert turn(long, root) == "none"  # nothing is recorded, so everything else runs
    record_all(root)
    assert turn(long, root) in long
    (root / "tests/fuzz").mkdir()
    (root / "tests/fuzz/a.py").write_text("new")
    assert turn(long, root) == "sanitize-ops"


def test_a_record_is_of_the_sources_of_the_beginning(root: pathlib.Path) -> None:
    record_all(root)
    before = recorded(root)
    (root / "docs/a.md").write_text("changed")
    (root / "begun").write_text("".join(f"{part.name} {part.digest(root)}\n" for part in parts(root).values()))
    (root / "docs/a.md").write_text("changed while it ran")
    (root / "noted").write_text("docs\n")
    keep(root / "noted", root / "begun", root)
    assert recorded(root)["docs"] != before["docs"]
    assert {**recorded(root), "docs": ""} == {**before, "docs": ""}
    assert changed(["docs", "tb-ops"], root) == ["docs"]


def test_this_repository_has_parts_for_all_its_tests_and_their_inputs_are_there() -> None:
    assert {"compile", "distributed", "ops", "tools"} <= set(integration_folders())
    for part in parts().values():
        for name in part.inputs:
            assert name.startswith(":(exclude)") or "*" in name or (ROOT / name).exists(), (part.name, name)
    with pytest.raises(KeyError):
        changed(["nothing of this name"])
    assert RECORD.parts[0] == ".ci"


def test_the_gate_names_parts_that_there_are() -> None:
    """One that it cannot know would never run."""
    text = (ROOT / RECORD.parent / "run").read_text()
    named = set(
        re.findall(r"^ *(?:part|turn) ([a-z-]+) &&", text, re.MULTILINE) + re.findall("green note ([a-z-]+)", text)
    )
    assert {"docs", "opencl", "pytorch-tests", "sanitize"} <= named
    assert named <= set(parts())
    command = [sys.executable, "-m", "building.green_runs", "chosen", "no-such-part"]
    done = subprocess.run(command, cwd=ROOT / "tools", capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "error: no part of the gate is called no-such-part" in done.stderr
