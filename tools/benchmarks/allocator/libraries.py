"""The peers' published libraries: wheels and Debian packages, downloaded once into a folder and unpacked there.

The repository contains none of them. Of PyTorch's CUDA wheel (about 530 MB), only the two libraries of the allocator
and their headers are kept, about 5 MB.
"""

from __future__ import annotations

import contextlib
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator
from pathlib import Path

CUDA_HEADERS = ("nvidia-cuda-runtime==13.0.*", "nvidia-cuda-crt==13.0.*", "nvidia-nvml-dev==13.0.*")
RMM = ("librmm-cu13==25.10.*", "rapids-logger==0.1.*")  # the last RMM whose pool is a template in its headers
TORCH = ("torch===2.13.0",)  # === excludes wheels with a local version (+cpu)
TORCH_PARTS = (
    "torch/lib/libc10.so",
    "torch/lib/libc10_cuda.so",
    "torch/include/c10/",
    "torch/include/torch/headeronly/",
)
HOST_ALLOCATORS = {
    "tcmalloc": ("libtcmalloc-minimal4", "libtcmalloc_minimal.so.4"),
    "jemalloc": ("libjemalloc2", "libjemalloc.so.2"),
    "mimalloc": ("libmimalloc2.0", "libmimalloc.so.2.0"),
}


class Unavailable(Exception):
    """A peer cannot be measured on this machine; the text says why."""


def _run(command: list[str], folder: Path) -> None:
    try:
        done = subprocess.run(command, cwd=folder, capture_output=True, text=True, timeout=900, check=False)
    except (OSError, subprocess.TimeoutExpired) as error:
        raise Unavailable(f"{' '.join(command[:3])} failed: {error}") from error
    if done.returncode:
        last = (done.stderr or done.stdout).strip().splitlines()[-1:] or ["no message"]
        raise Unavailable(f"{' '.join(command[:4])} failed: {last[0]}")


@contextlib.contextmanager
def _arriving(place: Path) -> Iterator[tuple[Path, Path]]:
    """Yields a scratch folder, and a folder that becomes `place` if the block succeeds: `place` is always complete."""
    place.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.TemporaryDirectory(dir=place.parent) as scratch:
        unpacked = Path(scratch) / "unpacked"
        unpacked.mkdir()
        yield Path(scratch), unpacked
        shutil.rmtree(place, ignore_errors=True)
        unpacked.rename(place)


def wheels(place: Path, requirements: tuple[str, ...], parts: tuple[str, ...] = ("",)) -> Path:
    """The folder `place` with the unpacked wheels, which are downloaded if it does not exist.

    Only files whose names begin with one of `parts` are unpacked. Raises Unavailable if the download fails.
    """
    if place.exists():
        return place
    with _arriving(place) as (scratch, unpacked):
        options = ["--no-deps", "--no-cache-dir", "--only-binary=:all:", "--dest", str(scratch)]
        _run([sys.executable, "-m", "pip", "download", "-q", *options, *requirements], scratch)
        for wheel in scratch.glob("*.whl"):
            with zipfile.ZipFile(wheel) as archive:
                archive.extractall(unpacked, [name for name in archive.namelist() if name.startswith(parts)])
    return place


def host_allocator(place: Path, name: str) -> Path:
    """The library of one of HOST_ALLOCATORS, taken from Debian's package. Raises Unavailable."""
    package, library = HOST_ALLOCATORS[name]
    if not place.exists():
        with _arriving(place) as (scratch, unpacked):
            _run(["apt-get", "download", "-q", package], scratch)
            for archive in scratch.glob("*.deb"):
                _run(["dpkg-deb", "-x", str(archive), str(unpacked)], scratch)
    for found in place.rglob(library):
        return found
    raise Unavailable(f"Debian's package {package} holds no {library}")
