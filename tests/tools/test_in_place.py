"""Packages that are brought up to date where they are installed: what is copied, removed and recorded for pip."""

from __future__ import annotations

import csv
import json
import os
import pathlib

import pytest
from building.environments import Environment
from building.in_place import copy_installed
from building.packages import Package


@pytest.fixture
def environment(tmp_path: pathlib.Path) -> Environment:
    """With the wheel of a package tb-one installed: __init__.py, gone.py and torch-2.13/_core.so."""
    made = Environment("one")
    made.path = tmp_path / "env"
    files = {"tb_one/__init__.py": "1", "tb_one/gone.py": "", "tb_one/torch-2.13/_core.so": "old"}
    for name, content in files.items():
        (made.site_packages / name).parent.mkdir(parents=True, exist_ok=True)
        (made.site_packages / name).write_text(content)
    record = made.site_packages / "tb_one-0.1.0.dist-info" / "RECORD"
    record.parent.mkdir()
    rows = [[name, "sha256=x", "1"] for name in files]
    rows += [["tb_one/__pycache__/gone.cpython-311.pyc", "", ""], ["tb_one-0.1.0.dist-info/RECORD", "", ""]]
    with record.open("w", newline="") as file:
        csv.writer(file).writerows(rows)
    return made


@pytest.fixture
def plan(tmp_path: pathlib.Path) -> pathlib.Path:
    """Meson's install plan of the next state: _core.so has changed, and a folder of headers is new."""
    sources = {"__init__.py": "1", "_core.so": "new", "include/a.h": "a", "include/skipped/b.h": "b"}
    for name, content in sources.items():
        (tmp_path / "src" / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "src" / name).write_text(content)

    def entry(name: str, **more: list[str]) -> dict[str, object]:
        return {"destination": f"{{py_platlib}}/tb_one/{name}", "tag": "runtime", **more}

    written = tmp_path / "plan.json"
    groups = {
        "targets": {str(tmp_path / "src/_core.so"): entry("torch-2.13/_core.so")},
        "python": {str(tmp_path / "src/__init__.py"): entry("__init__.py")},
        "install_subdirs": {str(tmp_path / "src/include"): entry("include", exclude_dirs=["skipped"])},
    }
    written.write_text(json.dumps(groups))
    return written


def one() -> Package:
    nothing = pathlib.Path()
    return Package("tb-one", nothing, nothing, (), (), ())


def content(environment: Environment) -> dict[str, str]:
    top = environment.site_packages / "tb_one"
    return {path.relative_to(top).as_posix(): path.read_text() for path in top.rglob("*") if path.is_file()}


def test_what_differs_is_copied_and_what_the_sources_lack_is_removed(
    environment: Environment, plan: pathlib.Path
) -> None:
    assert copy_installed(plan, one(), environment) == 2
    assert content(environment) == {"__init__.py": "1", "torch-2.13/_core.so": "new", "include/a.h": "a"}
    assert copy_installed(plan, one(), environment) == 0


def test_pip_can_uninstall_all_of_it(environment: Environment, plan: pathlib.Path) -> None:
    copy_installed(plan, one(), environment)
    record = environment.site_packages / "tb_one-0.1.0.dist-info" / "RECORD"
    rows = list(csv.reader(record.read_text().splitlines()))
    assert {row[0] for row in rows} == {
        "tb_one/__init__.py",
        "tb_one/torch-2.13/_core.so",
        "tb_one/include/a.h",
        "tb_one/__pycache__/gone.cpython-311.pyc",
        "tb_one-0.1.0.dist-info/RECORD",
    }
    assert ["tb_one/torch-2.13/_core.so", "", ""] in rows  # its old hash is not that of the new file


def test_a_process_that_has_loaded_the_old_extension_keeps_it(environment: Environment, plan: pathlib.Path) -> None:
    target = environment.site_packages / "tb_one/torch-2.13/_core.so"
    with target.open() as loaded:
        copy_installed(plan, one(), environment)
        assert loaded.read() == "old"
        assert os.fstat(loaded.fileno()).st_ino != target.stat().st_ino


def test_a_place_outside_of_site_packages_is_refused(environment: Environment, plan: pathlib.Path) -> None:
    plan.write_text(plan.read_text().replace("{py_platlib}/tb_one/include", "{bindir}/include"))
    with pytest.raises(ValueError, match=r"would be installed to \{bindir\}/include"):
        copy_installed(plan, one(), environment)
    assert content(environment)["torch-2.13/_core.so"] == "old"


def test_a_digest_that_is_no_wheels_makes_the_next_session_install_the_wheel(environment: Environment) -> None:
    assert environment.installed_digests() == {}
    (environment.path / "tb-environment.json").write_text(json.dumps({"key": "k", "wheels": {"tb-one": "abc"}}))
    environment.note_digest("tb-one", "in place abc")
    assert environment.installed_digests() == {"tb-one": "in place abc"}
