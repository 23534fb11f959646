"""Wheels for several torches are joined to one, and results of runs are recorded."""

from __future__ import annotations

import base64
import csv
import hashlib
import json
import pathlib
import re
import subprocess
import sys
import zipfile

import pytest
from building import wheels
from building.environments import Environment, Target
from building.packages import ROOT, read_packages
from building.results import Results, read_report, record
from building.wheels import join, keep_wheel
from packaging.requirements import Requirement
from release.wheel_file import declare_torch, read_wheel

WHEEL = "Wheel-Version: 1.0\nRoot-Is-Purelib: true\nTag: py3-none-any\n"
METADATA = """\
Metadata-Version: 2.1
Name: example
Version: 1.0
Requires-Dist: torch>=2.13,<2.16
Requires-Dist: torch-tools>=1

The readme.
Requires-Dist: torch>=1
"""


def make_wheel(folder: pathlib.Path, minor: str, **files: str) -> pathlib.Path:
    folder.mkdir()
    path = folder / "example-1.0-py3-none-any.whl"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("example/__init__.py", files.get("init", "name = 'example'\n"))
        archive.writestr(f"example/torch-{minor}/part.py", f"minor = {minor!r}\n")
        archive.writestr("example-1.0.dist-info/METADATA", METADATA)
        archive.writestr("example-1.0.dist-info/WHEEL", WHEEL)
        archive.writestr("example-1.0.dist-info/RECORD", "not that of the joined wheel")
    return path


def test_the_joined_wheel_has_all_files_and_a_record_of_them(tmp_path: pathlib.Path) -> None:
    parts = [make_wheel(tmp_path / minor, minor) for minor in ("2.13", "2.14")]
    joined = tmp_path / parts[0].name
    join(parts, joined)
    with zipfile.ZipFile(joined) as archive:
        contents = {name: archive.read(name) for name in archive.namelist()}
    assert {"example/torch-2.13/part.py", "example/torch-2.14/part.py", "example/__init__.py"} < set(contents)
    rows = list(csv.reader(contents["example-1.0.dist-info/RECORD"].decode().splitlines()))
    assert {name for name, _, _ in rows} == set(contents)
    for name, digest, size in rows:
        if not name.endswith("RECORD"):
            expected = base64.urlsafe_b64encode(hashlib.sha256(contents[name]).digest()).rstrip(b"=").decode()
            assert (digest, size) == (f"sha256={expected}", str(len(contents[name])))


@pytest.mark.parametrize(
    ("minors", "declared"),
    [
        (["2.13", "2.14", "2.15"], "<2.16,>=2.13"),
        (["2.13", "2.14"], "<2.15,>=2.13"),
        (["2.13", "2.15"], "!=2.14.*,<2.16,>=2.13"),
    ],
)
def test_a_joined_wheel_requires_a_torch_that_it_has_extensions_for(
    tmp_path: pathlib.Path, minors: list[str], declared: str
) -> None:
    parts = [make_wheel(tmp_path / minor, minor) for minor in minors]
    for part in parts:
        declare_torch(part)
    join(parts, tmp_path / parts[0].name)
    assert required(tmp_path / parts[0].name) == {"torch": declared, "torch-tools": ">=1"}


def test_a_kept_wheel_requires_the_torch_that_it_was_built_for(tmp_path: pathlib.Path) -> None:
    part = make_wheel(tmp_path / "2.14", "2.14")
    keep_wheel(part, tmp_path / "kept" / "digest")
    assert required(tmp_path / "kept" / "digest" / part.name) == {"torch": "<2.15,>=2.14", "torch-tools": ">=1"}


def test_a_wheel_that_declares_what_it_has_stays_as_it_is(tmp_path: pathlib.Path) -> None:
    part = make_wheel(tmp_path / "2.14", "2.14")
    declare_torch(part)
    before = part.read_bytes()
    declare_torch(part)
    assert part.read_bytes() == before
    assert read_wheel(part).readme.endswith("Requires-Dist: torch>=1\n")


@pytest.mark.parametrize("page", ["new-device.md", "user-guide.md"])
def test_the_pages_install_the_wheels_from_where_they_are_kept(
    page: str, tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(wheels, "WHEELHOUSE", tmp_path / "wheelhouse")
    package = read_packages(ROOT)["tb-device"]
    folder, _ = wheels.wheelhouse_folder(package, Environment("build", Target(), torch=False))
    part = make_wheel(tmp_path / "2.14", "2.14")
    wheels.keep_wheel(part, folder)
    text = (ROOT / "docs" / page).read_text(encoding="utf-8")
    [pattern] = re.findall(r"pip\s+install (wheelhouse/\S+\.whl)", text)
    assert [path.name for path in tmp_path.glob(pattern)] == [part.name]


def required(path: pathlib.Path) -> dict[str, str]:
    needs = [Requirement(text) for text in read_wheel(path).metadata.get_all("Requires-Dist", [])]
    return {need.name: str(need.specifier) for need in needs}


def test_pip_installs_a_joined_wheel(tmp_path: pathlib.Path) -> None:
    parts = [make_wheel(tmp_path / minor, minor) for minor in ("2.13", "2.14")]
    joined = tmp_path / parts[0].name
    join(parts, joined)
    options = ["-q", "--no-index", "--no-deps", "--target", str(tmp_path / "target")]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, str(joined)], check=True)
    assert (tmp_path / "target/example/torch-2.14/part.py").read_text() == "minor = '2.14'\n"


def test_the_same_wheels_give_the_same_joined_wheel(tmp_path: pathlib.Path) -> None:
    parts = [make_wheel(tmp_path / minor, minor) for minor in ("2.13", "2.14")]
    for name in ("first", "second"):
        join(parts, tmp_path / name)
    assert (tmp_path / "first").read_bytes() == (tmp_path / "second").read_bytes()


def test_wheels_that_differ_in_a_common_file_are_not_joined(tmp_path: pathlib.Path) -> None:
    parts = [make_wheel(tmp_path / "2.13", "2.13"), make_wheel(tmp_path / "2.14", "2.14", init="name = 'other'\n")]
    with pytest.raises(ValueError, match=r"^example/__init__\.py: not the same in"):
        join(parts, tmp_path / "joined.whl")
    assert not (tmp_path / "joined.whl").exists()


def test_a_report_of_pytest_is_counted(tmp_path: pathlib.Path) -> None:
    suite = '<testsuite tests="10" skipped="2" failures="1" errors="1"/>'
    (tmp_path / "tb-ops.xml").write_text(f"<testsuites>{suite}</testsuites>")
    assert read_report(tmp_path, "tb-ops") == (6, 2)
    assert read_report(tmp_path, "tb-amp") is None


def test_a_report_of_the_conformance_is_counted(tmp_path: pathlib.Path) -> None:
    checks = {"forward": {"passed": 5, "xfailed": 1, "failed": 0}, "out": {"passed": 2, "xfailed": 0, "failed": 3}}
    (tmp_path / "conformance.json").write_text(json.dumps({"checks": checks}))
    assert read_report(tmp_path, "conformance") == (8, 3)


def results(torch: str, python: str, passed: int) -> Results:
    made = Results("unused", python)
    made.torch, made.counts, made.complete = torch, {"tb-amp": (passed, 0)}, True
    return made


def test_a_new_result_replaces_that_of_the_same_minor_versions(tmp_path: pathlib.Path) -> None:
    path = tmp_path / "compatibility.json"
    record([results("2.14.0+cpu", "3.11.7", 1), results("", "3.12.1", 2), results("2.9.0", "3.11.7", 3)], path)
    interrupted = results("2.9.0", "3.11.7", 5)
    interrupted.complete = False
    record([results("2.14.1+cu130", "3.11.8", 4), interrupted], path)
    rows = json.loads(path.read_text())
    assert [(row["torch"], row["python"], row["counts"]["tb-amp"]["passed"]) for row in rows] == [
        ("2.9.0", "3.11.7", 3),
        ("2.14.1+cu130", "3.11.8", 4),
        ("", "3.12.1", 2),
    ]


def test_wheels_of_which_one_lacks_a_file_are_not_joined(tmp_path: pathlib.Path) -> None:
    parts = [make_wheel(tmp_path / minor, minor) for minor in ("2.13", "2.14")]
    with zipfile.ZipFile(parts[1], "a") as archive:
        archive.writestr("example/more.py", "")
    with pytest.raises(ValueError, match=r"^example/more\.py: not the same in"):
        join(parts, tmp_path / "joined.whl")


def test_a_wheel_that_is_kept_takes_the_place_of_older_ones(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("building.environments.PLACE", tmp_path / "locks")
    built = make_wheel(tmp_path / "built", "2.14")
    declare_torch(built)  # as a kept wheel is
    old = make_wheel(tmp_path / "example-of-the-test", "2.14")
    folder = old.parent / "digest"
    keep_wheel(built, folder)
    assert [path.relative_to(folder).as_posix() for path in folder.parent.rglob("*.whl")] == [built.name]
    assert (folder / built.name).read_bytes() == built.read_bytes()
