"""The operator schemas and autocast lists of other versions of torch, out of their wheels."""

from __future__ import annotations

import pathlib
import shutil
import tempfile
import zipfile

import nox

from building.environments import Environment
from building.packages import ROOT


def schema_folder(session: nox.Session, environment: Environment, minor: str) -> pathlib.Path:
    """build/schemas/VERSION with torchgen and include/ATen/autocast_mode.h of a minor version's newest torch.

    Out of its smallest wheel.
    """
    place = ROOT / "build" / "schemas"
    header = "torch/include/ATen/autocast_mode.h"
    for found in sorted(place.glob(f"{minor}.*/{header}")):
        return found.parents[3]
    with tempfile.TemporaryDirectory() as scratch:
        platforms = [f"--platform=macosx_{release}_0_arm64" for release in (11, 14)]
        options = ["--no-deps", "--only-binary=:all:", "--python-version=3.11", *platforms, f"--dest={scratch}"]
        environment.run(session, "python", "-m", "pip", "download", "-q", *options, f"torch=={minor}.*", silent=True)
        [downloaded] = pathlib.Path(scratch).glob("torch-*.whl")
        unpacked = pathlib.Path(scratch) / "unpacked"
        with zipfile.ZipFile(downloaded) as archive:
            wanted = [name for name in archive.namelist() if name.startswith("torchgen/") or name == header]
            archive.extractall(unpacked, wanted)
        target = place / downloaded.name.split("-")[1]
        shutil.copytree(unpacked, target, dirs_exist_ok=True)
    return target
