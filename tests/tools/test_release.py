"""The checks of `nox -s release` find each planted error, in a release of two tiny packages."""

from __future__ import annotations

import pathlib
import struct
import subprocess
import sys
import tarfile
import zipfile
from collections.abc import Callable

import pytest
from building.packages import Package, read_packages
from release import changelog
from release.checks import Project, changelog_problems, folder_problems, read_project
from release.elf import library_path
from release.examples import Example, examples
from release.wheel_file import read_wheel, write_empty_project, write_wheel

MINORS = ["2.8", "2.9"]
MACHINE = ["/work/tree"]
CHANGELOG = "# Changelog\n\n## [Unreleased]\n\n## [0.2.0] - 2026-11-26\n\n## [0.1.0] - 2026-01-31\n"
PYPROJECT = '[project]\nname = "{}"\nrequires-python = ">=3.11"\ndependencies = [{}]\n'
DEPENDENCIES = {"tb-base": [], "tb-part": ["tb-base>=0.1,<2", "torch>=2.8,<2.10"]}

Change = Callable[[dict[str, bytes]], None]


def elf(path: str) -> bytes:
    """A shared library without code that looks for others in this path; "" for none."""
    entries = [(5, 0x1000 + 400), *([(29, 1)] if path else []), (0, 0)]  # the table of strings, RUNPATH, the end
    dynamic = b"".join(struct.pack("<QQ", *entry) for entry in entries)
    data = bytearray(400 + 2 + len(path))
    data[:6] = b"\x7fELF\x02\x01"
    struct.pack_into("<Q", data, 0x20, 64)
    struct.pack_into("<HH", data, 0x36, 56, 2)
    struct.pack_into("<IIQQQQ", data, 64, 1, 0, 0, 0x1000, 0, len(data))
    struct.pack_into("<IIQQQQ", data, 120, 2, 0, 200, 0x1000 + 200, 0, len(dynamic))
    data[200 : 200 + len(dynamic)] = dynamic
    data[401 : 401 + len(path)] = path.encode()
    return bytes(data)


class Release:
    """Two packages, and a folder with their wheels and source archives."""

    def __init__(self, root: pathlib.Path) -> None:
        self.packages, self.files = root / "packages", root / "dist"
        self.files.mkdir()
        for name, dependencies in DEPENDENCIES.items():
            folder = self.packages / name
            folder.mkdir(parents=True)
            texts = {"VERSION": "0.2.0\n", "README.md": f"# {name}\n", "LICENSE": "yes\n", "CHANGELOG.md": CHANGELOG}
            texts["pyproject.toml"] = PYPROJECT.format(name, ", ".join(f'"{need}"' for need in dependencies))
            for file, text in texts.items():
                (folder / file).write_text(text)
            self.write_wheel(name)
            self.write_archive(name)

    def project(self, name: str) -> Project:
        return read_project(self.packages / name)

    def write_wheel(self, name: str, change: Change = lambda files: None, tag: str = "manylinux_2_28_x86_64") -> None:
        project, module = self.project(name), name.replace("-", "_")
        described = f"{module}-0.2.0.dist-info"
        fields = [f"Name: {name}", "Version: 0.2.0", "Requires-Python: >=3.11"]
        fields += [f"Requires-Dist: {need}" for need in DEPENDENCIES[name]]
        files = {
            f"{module}/__init__.py": b"",
            f"{described}/METADATA": "\n".join(["Metadata-Version: 2.4", *fields, "", f"# {name}\n"]).encode(),
            f"{described}/WHEEL": b"Wheel-Version: 1.0\nTag: cp311-abi3-manylinux_2_28_x86_64\n",
            f"{described}/licenses/LICENSE": b"yes\n",
        }
        if project.torch:
            files |= {f"{module}/torch-{minor}/_core.abi3.so": elf("$ORIGIN/../../torch/lib") for minor in MINORS}
        else:
            files[f"{module}/_core.abi3.so"] = elf("")
        change(files)
        for old in self.files.glob(f"{module}-*.whl"):
            old.unlink()
        path = self.files / f"{module}-0.2.0-cp311-abi3-{tag}.whl"
        write_wheel(path, {file: (data, 0) for file, data in files.items()}, f"{described}/RECORD")

    def write_archive(self, name: str, change: Callable[[pathlib.Path], None] = lambda folder: None) -> None:
        stem = f"{name.replace('-', '_')}-0.2.0"
        folder = self.files.parent / "archives" / stem
        folder.mkdir(parents=True, exist_ok=True)
        for file in (self.packages / name).iterdir():
            (folder / file.name).write_bytes(file.read_bytes())
        (folder / "PKG-INFO").write_text(f"Metadata-Version: 2.4\nName: {name}\nVersion: 0.2.0\n")
        change(folder)
        with tarfile.open(self.files / f"{stem}.tar.gz", "w:gz") as archive:
            archive.add(folder, stem)

    def problems(self, supported: list[str] = MINORS, limit: int = 10**6) -> str:
        projects = [self.project(name) for name in DEPENDENCIES]
        return "\n".join(folder_problems(self.files, projects, MINORS, supported, MACHINE, limit))


@pytest.fixture
def release(tmp_path: pathlib.Path) -> Release:
    return Release(tmp_path)


def test_a_right_release_passes(release: Release) -> None:
    assert release.problems() == ""


def replaced(file: str, old: bytes, new: bytes) -> Change:
    def change(files: dict[str, bytes]) -> None:
        assert old in files[file]
        files[file] = files[file].replace(old, new)

    return change


def put(file: str, data: bytes) -> Change:
    return lambda files: files.update({file: data})


def without(file: str) -> Change:
    def change(files: dict[str, bytes]) -> None:
        del files[file]

    return change


INFO = "tb_part-0.2.0.dist-info"
CORE = "tb_part/torch-2.9/_core.abi3.so"
PLANTED: dict[str, tuple[Change, str]] = {
    "version": (replaced(f"{INFO}/METADATA", b"Version: 0.2.0", b"Version: 0.3"), "Version is 0.3, but the tree says"),
    "python": (replaced(f"{INFO}/METADATA", b">=3.11", b">=3.12"), "Requires-Python is >=3.12"),
    "torch": (replaced(f"{INFO}/METADATA", b"<2.10", b"<2.11"), "requires torch <2.11,>=2.8, but it should require"),
    "no torch": (replaced(f"{INFO}/METADATA", b"torch>=2.8,<2.10", b"numpy"), "requires torch None"),
    "readme": (replaced(f"{INFO}/METADATA", b"# tb-part", b"# tb"), "the description is not the package's README.md"),
    "license": (without(f"{INFO}/licenses/LICENSE"), "licenses/LICENSE is not the package's LICENSE"),
    "other release": (
        replaced(f"{INFO}/METADATA", b"tb-base>=0.1,<2", b"tb-base>=1,<2"),
        "requires tb-base<2,>=1, but",
    ),
    "tag": (replaced(f"{INFO}/WHEEL", b"cp311", b"cp312"), "but the file's name has cp311-abi3-manylinux"),
    "missing extension": (without(CORE), r"extensions for torch ['2.8'], but it should for ['2.8', '2.9']"),
    "other extension": (
        put("tb_part/torch-2.10/_core.abi3.so", elf("")),
        "extensions for torch ['2.10', '2.8', '2.9']",
    ),
    "empty extension": (put(CORE, b""), f"{CORE} is no 64-bit little-endian ELF file"),
    "one Python": (put("tb_part/_x.cpython-311-x86_64-linux-gnu.so", elf("")), "is for one version of Python only"),
    "library path": (put(CORE, elf("/usr/lib")), "looks for libraries in '/usr/lib', but it should in '$ORIGIN/"),
    "foreign library": (put("tb_part.libs/libgomp.so.1", elf("")), "tb_part.libs/libgomp.so.1 is a library of others"),
    "path": (put(CORE, elf("$ORIGIN/../../torch/lib") + b"\0/work/tree/a.h:7"), "mentions a path of the machine"),
}


@pytest.mark.parametrize("planted", PLANTED)
def test_an_error_in_a_wheel_is_found(release: Release, planted: str) -> None:
    change, text = PLANTED[planted]
    release.write_wheel("tb-part", change)
    assert text in release.problems()


def test_a_wheel_for_one_linux_is_found(release: Release) -> None:
    release.write_wheel(
        "tb-base", replaced("tb_base-0.2.0.dist-info/WHEEL", b"manylinux_2_28", b"linux"), "linux_x86_64"
    )
    assert "the tag cp311-abi3-linux_x86_64 is not one of" in release.problems()


@pytest.mark.parametrize("path", [b"see packages/work/tree/a.h", b"/work/tree-2/a.h", b"../work/tree/a.h"])
def test_other_paths_are_left_alone(release: Release, path: bytes) -> None:
    release.write_wheel("tb-base", put("tb_base/notes.txt", path))
    assert release.problems() == ""


def test_a_record_that_differs_from_the_files_is_found(release: Release) -> None:
    [path] = release.files.glob("tb_base-*.whl")
    contents = {**read_wheel(path).contents, "tb_base/__init__.py": b"changed = True\n", "tb_base/new.py": b""}
    del contents["tb_base-0.2.0.dist-info/licenses/LICENSE"]
    with zipfile.ZipFile(path, "w") as archive:
        for name, data in contents.items():
            archive.writestr(name, data)
    found = release.problems()
    assert "RECORD has another digest or size for tb_base/__init__.py than the file" in found
    assert "RECORD lacks tb_base/new.py" in found
    assert "RECORD lists tb_base-0.2.0.dist-info/licenses/LICENSE, which is not there" in found


def test_a_range_that_differs_from_the_supported_versions_is_found(release: Release) -> None:
    found = release.problems(supported=["2.8", "2.9", "2.10"])
    assert "it requires torch <2.10,>=2.8, but it should require <2.11,>=2.8" in found


def test_wheels_that_are_too_large_are_found(release: Release) -> None:
    size = sum(path.stat().st_size for path in release.files.glob("*.whl"))
    assert release.problems(limit=size + 1) == ""
    assert "all wheels together have" in release.problems(limit=size)


def test_files_that_are_missing_or_too_many_are_found(release: Release) -> None:
    for path in release.files.glob("tb_base-*"):
        path.unlink()
    (release.files / "tb_part-0.1.0.tar.gz").write_bytes(b"")
    found = release.problems()
    assert "there are 0 wheels tb_base-0.2.0-*.whl; there should be one" in found
    assert "tb_base-0.2.0.tar.gz: the source archive is missing" in found
    assert "tb_part-0.1.0.tar.gz is not of this release" in found


def test_an_archive_with_a_link_is_found(release: Release) -> None:
    release.write_archive("tb-base", lambda folder: (folder / "shared").symlink_to("../shared"))
    assert "tb_base-0.2.0/shared is a link: it would not build elsewhere" in release.problems()


def test_an_archive_of_another_state_is_found(release: Release) -> None:
    def change(folder: pathlib.Path) -> None:
        (folder / "CHANGELOG.md").unlink()
        (folder / "README.md").write_text("# older\n")
        (folder / "PKG-INFO").write_text("Name: tb-base\nVersion: 0.1.0\n")
        (folder / "notes.txt").write_text("built in /work/tree/packages")

    release.write_archive("tb-base", change)
    found = release.problems()
    assert "CHANGELOG.md is missing, or differs" in found
    assert "README.md is missing, or differs" in found
    assert "PKG-INFO has not the version 0.2.0" in found
    assert "tb_base-0.2.0/notes.txt mentions a path" in found


def test_a_changelog_of_another_version_is_found(release: Release) -> None:
    (release.packages / "tb-base" / "CHANGELOG.md").write_text("# Changelog\n\n## 0.1.0 - 2026-01-31\n")
    release.write_archive("tb-base")
    assert release.problems() == (
        "tb-base: CHANGELOG.md: the newest section is of version 0.1.0, but VERSION says 0.2.0"
    )


@pytest.mark.parametrize(
    ("sections", "problem"),
    [
        (["0.2.0 - 2026-11-26"], None),
        (["[0.2.0] - unreleased", "[0.1.0] - 2026-01-31"], None),
        (["[Unreleased]", "[0.2.0] - 2026-11-26"], None),
        (["[Unreleased]"], "there is no section for version 0.2.0"),
        (["0.2.0 - 2026-11-26", "Unreleased"], "the section Unreleased is not the first"),
        (["0.2.0"], "version 0.2.0 has no date"),
        (["0.2.0 - 26.11.2026"], "version 0.2.0 has no date"),
        (["0.2.0 - 2026-11-26", "0.1.0 - unreleased"], "version 0.1.0 has no date"),
        (["0.2.0 - 2026-11-26", "0.2.0 - 2026-11-25"], "version 0.2.0 stands before 0.2.0"),
        (["0.2.0 - 2026-11-26", "0.9.0 - 2026-11-25", "0.10.0 - 2026-11-24"], "version 0.9.0 stands before 0.10.0"),
        (["0.2.0 - 2026-11-26", "soon - 2026-11-25"], "'soon' is neither Unreleased nor a version"),
    ],
)
def test_the_sections_of_a_changelog(sections: list[str], problem: str | None) -> None:
    text = "# Changelog\n\n" + "".join(f"## {section}\n\n### Added\n\n- A.\n\n" for section in sections)
    found = changelog.problems(text, "0.2.0")
    assert (problem is None) == (found == [])
    assert problem is None or any(problem in text for text in found)


@pytest.mark.parametrize("package", read_packages().values(), ids=lambda package: package.name)
def test_a_packages_changelog_fits_its_version_and_its_readme_has_an_example(package: Package) -> None:
    assert changelog_problems(read_project(package.directory)) == []
    assert examples((package.directory / "README.md").read_text())


def test_an_example_says_what_it_needs() -> None:
    page = "```python\na\n```\n\n```python with numpy, torch-backend\nb\nc\n```\n\n```py\nd\n```\n"
    assert examples(page) == [Example(1, "a\n", ()), Example(2, "b\nc\n", ("numpy", "torch-backend"))]


@pytest.mark.parametrize("path", ["", "$ORIGIN/../../torch/lib"])
def test_the_library_path_of_a_library(path: str) -> None:
    assert library_path(elf(path)) == path


@pytest.mark.parametrize("data", [b"", b"!<arch>\n", elf("$ORIGIN")[:100], elf("$ORIGIN")[:400]])
def test_a_damaged_library_is_refused(data: bytes) -> None:
    with pytest.raises(ValueError, match="ELF file"):
        library_path(data)


def test_pip_installs_an_empty_project(tmp_path: pathlib.Path) -> None:
    path = write_empty_project(tmp_path, "example", "2.99.0")
    options = ["-q", "--no-index", "--no-deps", "--target", str(tmp_path / "target")]
    subprocess.run([sys.executable, "-m", "pip", "install", *options, str(path)], check=True)
    code = "import example, importlib.metadata as m; print(example.__version__, m.version('example'))"
    done = subprocess.run([sys.executable, "-c", code], cwd=tmp_path / "target", capture_output=True, text=True)
    assert done.stdout == "2.99.0 2.99.0\n"
