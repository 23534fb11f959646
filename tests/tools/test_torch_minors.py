"""tools/checks/torch_minors.py, on a small tree, and the range of versions that the packages declare."""

from __future__ import annotations

import pathlib
import subprocess

import pytest
from building.torch_versions import in_order, supported_minors
from checks import torch_minors

SOURCE = "packages/tb-ops/src/launch.cpp"


@pytest.fixture
def tree(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> pathlib.Path:
    monkeypatch.setattr(torch_minors, "ALLOWED", {"shared/torch/tb/torch_versions.h": "the place"})
    for name, text in ((SOURCE, ""), ("shared/torch/tb/torch_versions.h", "// since 2.14\n")):
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    for command in (["init", "-q"], ["add", "."]):
        subprocess.run(["git", *command], cwd=tmp_path, check=True)
    return tmp_path


@pytest.mark.parametrize(
    "line",
    ["#if TORCH_VERSION_MINOR >= 14", "// Needed until torch 2.15.", 'run("torch==2.13.*")', "// as in 2.14.1+cu130"],
)
def test_a_version_of_torch_in_a_source_is_found(tree: pathlib.Path, line: str) -> None:
    (tree / SOURCE).write_text(f"int x;\n{line}\n")
    assert torch_minors.mentions(tree) == [f"{SOURCE}:2: {line}"]


@pytest.mark.parametrize("line", ["x = 12.13", "version 0.2.13", "2.1 GB", "2.134", "torch>=2"])
def test_other_numbers_are_left_alone(tree: pathlib.Path, line: str) -> None:
    (tree / SOURCE).write_text(line)
    assert torch_minors.mentions(tree) == []


def test_an_exception_that_nothing_needs_is_found(tree: pathlib.Path) -> None:
    (tree / "shared/torch/tb/torch_versions.h").write_text("")
    assert torch_minors.mentions(tree) == [
        "shared/torch/tb/torch_versions.h mentions no version any more: remove it from ALLOWED"
    ]


def declare(root: pathlib.Path, name: str, build: str, run: str) -> None:
    (root / "packages" / name).mkdir(parents=True)
    text = f'[build-system]\nrequires = ["{build}"]\n[project]\nname = "{name}"\ndependencies = ["{run}"]\n'
    (root / "packages" / name / "pyproject.toml").write_text(text)


def test_the_supported_versions_are_those_that_the_packages_declare(tmp_path: pathlib.Path) -> None:
    declare(tmp_path, "tb-one", "torch>=2.9,<2.12", "torch>=2.9,<2.12")
    declare(tmp_path, "tb-two", "meson", "torch-other==1")
    assert supported_minors(tmp_path) == ["2.9", "2.10", "2.11"]


def test_versions_that_differ_between_packages_are_refused(tmp_path: pathlib.Path) -> None:
    declare(tmp_path, "tb-one", "torch>=2.9,<2.12", "torch>=2.9,<2.12")
    declare(tmp_path, "tb-two", "torch>=2.9,<2.12", "torch>=2.9,<2.11")
    with pytest.raises(
        ValueError, match=r"torch>=2\.9,<2\.12 in packages/tb-one.*; torch>=2\.9,<2\.11 in packages/tb-two"
    ):
        supported_minors(tmp_path)


def test_a_requirement_that_is_no_range_is_refused(tmp_path: pathlib.Path) -> None:
    declare(tmp_path, "tb-one", "torch==2.9.*", "torch==2.9.*")
    with pytest.raises(ValueError, match="should declare one range"):
        supported_minors(tmp_path)


def test_versions_are_in_the_order_of_their_numbers() -> None:
    assert in_order(["2.10", "2.9", "2.11"]) == ["2.9", "2.10", "2.11"]
