"""Digests, by which a wheel is built again, and the order of dependencies, in which wheels are installed."""

from __future__ import annotations

import pathlib

import pytest
from building.packages import Package, closure, read_package, read_packages, requirement_name

TORCH_FREE = {"tb-device", "tb-stream", "tb-allocator", "tb-generator", "tb-opencl"}


@pytest.fixture
def tree(tmp_path: pathlib.Path) -> pathlib.Path:
    for name, needs in (("tb-one", []), ("tb-two", ["tb-one>=0.1"])):
        folder = tmp_path / "packages" / name
        (folder / "tests").mkdir(parents=True)
        dependencies = ", ".join(f'"{need}"' for need in needs)
        (folder / "pyproject.toml").write_text(
            f'[build-system]\nrequires = ["meson"]\n[project]\nname = "{name}"\ndependencies = [{dependencies}]\n'
        )
        (folder / "core.cpp").write_text("int x;\n")
        (folder / "tests" / "test_it.py").write_text("def test_it(): assert True\n")
    (tmp_path / "shared").mkdir()
    (tmp_path / "shared" / "a.h").write_text("// a\n")
    (tmp_path / "packages" / "tb-one" / "shared").symlink_to("../../shared")
    return tmp_path


def package(tree: pathlib.Path) -> Package:
    return read_package(tree / "packages" / "tb-one", tree / "shared")


@pytest.mark.parametrize("changed", ["packages/tb-one/core.cpp", "packages/tb-one/pyproject.toml", "shared/a.h"])
def test_the_digest_changes_with_every_source(tree: pathlib.Path, changed: str) -> None:
    before = package(tree).digest("")
    (tree / changed).write_text((tree / changed).read_text() + "\n")
    assert package(tree).digest("") != before


def test_the_digest_changes_with_a_new_or_renamed_file_and_with_the_torch_version(tree: pathlib.Path) -> None:
    digests = {package(tree).digest(""), package(tree).digest("2.13.0")}
    (tree / "packages/tb-one/core.cpp").rename(tree / "packages/tb-one/kernel.cpp")
    digests.add(package(tree).digest(""))
    (tree / "packages/tb-one/new.h").write_text("")
    digests.add(package(tree).digest(""))
    assert len(digests) == 4


def test_the_digest_ignores_tests_the_changelog_and_build_leftovers(tree: pathlib.Path) -> None:
    before = package(tree).digest("")
    (tree / "packages/tb-one/CHANGELOG.md").write_text("# Changelog\n")
    (tree / "packages/tb-one/tests/test_it.py").write_text("# changed\n")
    for leftover in ("build/core.o", "__pycache__/a.pyc", ".mesonpy-abc/x"):
        path = tree / "packages/tb-one" / leftover
        path.parent.mkdir()
        path.write_text("x")
    assert package(tree).digest("") == before


def test_dependencies_come_first_and_come_along(tree: pathlib.Path) -> None:
    packages = read_packages(tree)
    assert [p.name for p in closure(packages, ["tb-two"])] == ["tb-one", "tb-two"]
    assert [p.name for p in closure(packages, ["tb-one"])] == ["tb-one"]


def test_a_circle_of_dependencies_is_refused(tree: pathlib.Path) -> None:
    pyproject = tree / "packages/tb-one/pyproject.toml"
    pyproject.write_text(pyproject.read_text().replace("[]", '["tb-two"]'))
    with pytest.raises(ValueError, match="circle"):
        read_packages(tree)


def test_dependencies_of_packages_go_one_way_and_five_need_no_torch() -> None:
    packages = read_packages()
    assert len(packages) == 9
    assert {p.name for p in packages.values() if not p.uses_torch} == TORCH_FREE
    for name in TORCH_FREE:
        assert {p.name for p in closure(packages, [name])} <= TORCH_FREE
    assert list(packages)[-1] == "torch-backend"


@pytest.mark.parametrize("written", ["torch==2.13.*", "Torch >=2", "torch ; python_version > '3'", "torch[extra]"])
def test_the_name_of_a_requirement(written: str) -> None:
    assert requirement_name(written) == "torch"
