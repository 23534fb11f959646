"""The session that proves the OpenCL driver and tb-ops' kernels on implementations of OpenCL for processors."""

from __future__ import annotations

import argparse
import hashlib
import pathlib
import shutil
from collections.abc import Mapping, Sequence

import nox
from opencl import runtimes

from building.environments import Environment
from building.packages import ROOT
from building.testing import EVERYTHING, PACKAGES, PYTEST_ARGUMENTS, PYTHONPATH, wheels

BUILD = ROOT / "build" / "opencl"
INTEL = ["intel-opencl-rt>=2026", "intel-cmplr-lib-rt>=2026"]
COMPILER = "ziglang>=0.16,<0.18"
KERNELS = ROOT / "packages" / "tb-opencl" / "kernels"
PARTS = ("contract", "faults", "kernels", "wheel", "models", "graphs", "coverage", "demo", "compile", "conformance")
# Of torch.compile: what every device with kernels has to do.
FUSED = "operators_become_kernels or chains_of_operators or transformer_trains or index_error"
# The kinds of memory that each runtime has.
MEMORIES = {"intel": ("fine", "usm", "coarse"), "pocl": ("fine", "coarse")}
# The runtimes with tb.graph: the command buffers of pocl 3.1 copy no shared memory.
WITH_GRAPHS = ("intel",)


@nox.session
def opencl(session: nox.Session) -> None:
    """The OpenCL driver on Intel's runtime, and on pocl where it is installed. `-- --help`. Downloads 370 MB."""
    parser = argparse.ArgumentParser(prog="nox -s opencl --", description=opencl.__doc__)
    parser.add_argument("parts", nargs="*", metavar="PART", help=f"some of {' '.join(PARTS)} (default: all)")
    parser.add_argument("--runtime", choices=list(MEMORIES), help="only this one")
    chosen = parser.parse_args(session.posargs)
    if unknown := set(chosen.parts).difference(PARTS):
        session.error(f"there is no part {', '.join(sorted(unknown))}: the parts are {', '.join(PARTS)}")
    environment = Environment("opencl", torch=True).prepare(session, [*EVERYTHING, *INTEL], wheels(session, PACKAGES))
    found = _runtimes(session, environment)
    if chosen.runtime and chosen.runtime not in found:
        session.error(f"{chosen.runtime} is not installed; tools/opencl/runtimes.py says how")
    for name in [chosen.runtime] if chosen.runtime else found:
        _prove(session, environment, name, found[name], chosen.parts or PARTS)


def _runtimes(session: nox.Session, environment: Environment) -> dict[str, dict[str, str]]:
    """The variables of each implementation that is there."""
    found = {"intel": runtimes.intel(environment.path, BUILD / "intel")}
    try:
        found["pocl"] = runtimes.pocl(BUILD / "pocl")
    except FileNotFoundError as error:
        session.log(f"without pocl: {error}")
    return found


def _prove(
    session: nox.Session, environment: Environment, name: str, variables: Mapping[str, str], parts: Sequence[str]
) -> None:
    """Runs the parts on one implementation. Fallbacks raise where nothing else is said."""
    session.log(f"---- {name}")
    on_device = {**variables, "TB_DRIVER": "opencl", "PYTHONPATH": PYTHONPATH}
    if "contract" in parts:
        _prove_contract(session, environment, name, variables)
    if "faults" in parts:
        environment.run(session, "python", "-m", "opencl.faults", name, str(BUILD / "faults"), env=on_device)
    if "wheel" in parts and name == "intel":  # pocl takes no SPIR-V
        _prove_wheel(session, environment, variables)
    if set(parts) - {"contract", "faults", "wheel"}:
        on_device["TB_KERNEL_IMAGES"] = str(_pack(session, environment, name, variables))
    if "kernels" in parts:
        environment.run(session, "python", "-m", "tb_ops.device_kernels.check", env=on_device)
    strict = {**on_device, "TB_FALLBACK": "error"}
    if "models" in parts:
        environment.run(session, "python", "-m", "opencl.models", env=strict)
    if "graphs" in parts and name in WITH_GRAPHS:
        for memory in MEMORIES[name]:
            graphs = {**strict, "TB_OPENCL_MEMORY": memory}
            environment.run(session, "python", "-m", "opencl.graphs", env=graphs)
    if "coverage" in parts:
        environment.run(session, "python", "-m", "opencl.coverage", env=on_device)
    if "demo" in parts:
        environment.run(session, "python", "-m", "examples.demo", "--steps", "20", env=strict)
    if "compile" in parts:
        fused = {**variables, **_compiler(session), "TB_TESTS_DRIVER": "opencl", "PYTHONPATH": PYTHONPATH}
        test = "tests/compile/test_fused_device_kernels.py"
        environment.run(session, "pytest", *PYTEST_ARGUMENTS, test, "-k", FUSED, env=fused)
    if "conformance" in parts:
        report = str(BUILD / f"conformance-{name}")
        options = ["--device", "tb", "--profile", "quick", "--json", f"{report}.json", "--page", f"{report}.md"]
        options += ["--time-limit", "0", "--expected", str(ROOT / "tools" / "opencl" / "conformance.toml")]
        # The databases have types whose kernels are not in the core set.
        compiling = {**on_device, **_compiler(session)}
        environment.run(session, "python", "-m", "torch_backend.conformance", *options, env=compiling)


def _prove_contract(session: nox.Session, environment: Environment, name: str, variables: Mapping[str, str]) -> None:
    image = environment.site_packages / "tb_opencl" / "contract_kernels.cl"
    expectations = ROOT / "tools" / "opencl" / f"{name}.toml"
    for memory in MEMORIES[name]:
        command = ["tb-device", "contract", "--driver", "opencl", "--level", "4", "--image", str(image)]
        command += ["--option", f"memory={memory}"]
        if expectations.exists():
            command += ["--expect", str(expectations)]
        environment.run(session, *command, env=variables)


def _pack(session: nox.Session, environment: Environment, name: str, variables: Mapping[str, str]) -> pathlib.Path:
    """The images of the core set for an implementation: what is not yet there is compiled."""
    shim = environment.site_packages / "tb_opencl" / "shim_opencl.cuh"  # a pack belongs to one
    folder = BUILD / f"images-{name}-{hashlib.sha256(shim.read_bytes()).hexdigest()[:8]}"
    command = ["python", "-m", "tb_ops.device_kernels.pack", str(folder)]
    environment.run(session, *command, env={**variables, "TB_DRIVER": "opencl", **_compiler(session)})
    return folder


def _compiler(session: nox.Session) -> dict[str, str]:
    """The variable that names clang. It is in an environment of its own, so that users' programs run without it."""
    environment = Environment("spirv-compiler").prepare(session, [COMPILER])
    return {"TB_OPENCL_COMPILER": f"{environment.site_packages}/ziglang/zig clang"}


def _prove_wheel(session: nox.Session, environment: Environment, variables: Mapping[str, str]) -> None:
    """Makes the wheel tb-kernels-spirv. Installed, it serves devices with and without float64 where no compiler is."""
    images, made = BUILD / "images-wheel", BUILD / "wheels"
    for folder in (images, made):
        shutil.rmtree(folder, ignore_errors=True)
    on_device = {**variables, "TB_DRIVER": "opencl", "TB_KERNEL_CACHE": str(made / "cache")}
    for lacks in ("", "float64"):
        command = ["python", "-m", "tb_ops.device_kernels.pack", str(images), f"--lacks={lacks}"]
        environment.run(session, *command, env={**variables, "TB_DRIVER": "opencl", **_compiler(session)})
    options = [f"-Csetup-args=-Dimages={images}", "--no-build-isolation", "--no-deps"]
    environment.run(session, "python", "-m", "pip", "wheel", *options, "-w", str(made), str(KERNELS))
    (wheel,) = made.glob("tb_kernels_spirv-*.whl")
    session.log(f"{wheel.relative_to(ROOT)}: {wheel.stat().st_size / 1e6:.1f} MB")
    target = made / "installed"
    environment.run(session, "python", "-m", "pip", "install", "-q", "--no-deps", "--target", str(target), str(wheel))
    for lacks in ("", "float64"):
        command = ["python", "-m", "tb_ops.device_kernels.check"]
        environment.run(session, *command, env={**on_device, "PYTHONPATH": str(target), "TB_OPENCL_LACKS": lacks})
