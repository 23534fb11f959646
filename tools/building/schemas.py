"""Takes the operator schemas and autocast lists of other versions of torch from their wheels."""

from __future__ import annotations

import pathlib
import shutil
import tempfile
import zipfile

import nox

from building.environments import Environment, prepare_torch
from building.packages import ROOT

_HEADER = "torch/include/ATen/autocast_mode.h"
_WANTED = ("torchgen/", _HEADER, "torch/include/ATen/ops/linalg_matrix_sqrth.h")  # the last: see tb_amp.drift


def schema_folder(session: nox.Session, environment: Environment, minor: str) -> pathlib.Path:
    """build/schemas/VERSION with torchgen and include/ATen/autocast_mode.h of a minor version's newest torch.

    They are taken from its wheel for macOS, the smallest one.
    """
    place = ROOT / "build" / "schemas"
    for found in sorted(place.glob(f"{minor}.*/{_HEADER}")):
        return found.parents[3]
    with tempfile.TemporaryDirectory() as scratch:
        platforms = [f"--platform=macosx_{release}_0_arm64" for release in (11, 14)]
        options = ["--no-deps", "--only-binary=:all:", "--python-version=3.11", *platforms, f"--dest={scratch}"]
        environment.run(session, "python", "-m", "pip", "download", "-q", *options, f"torch=={minor}.*", silent=True)
        [downloaded] = pathlib.Path(scratch).glob("torch-*.whl")
        unpacked = pathlib.Path(scratch) / "unpacked"
        with zipfile.ZipFile(downloaded) as archive:
            wanted = [name for name in archive.namelist() if name.startswith(_WANTED)]
            archive.extractall(unpacked, wanted)
        target = place / downloaded.name.split("-")[1]
        shutil.copytree(unpacked, target, dirs_exist_ok=True)
    return target


def installed_schema_folder(session: nox.Session) -> pathlib.Path:
    """build/schemas/installed/VERSION with the same files of the torch that all environments have; no download."""
    torch = prepare_torch(session)
    target = ROOT / "build" / "schemas" / "installed" / torch.version_of("torch").partition("+")[0]
    if not target.exists():
        with tempfile.TemporaryDirectory() as scratch:
            unfinished = pathlib.Path(scratch)
            shutil.copytree(torch.site_packages / "torchgen", unfinished / "torchgen")
            (unfinished / _HEADER).parent.mkdir(parents=True)
            shutil.copy2(torch.site_packages / _HEADER, unfinished / _HEADER)
            shutil.copytree(unfinished, target)
    return target
