"""The sessions check-NAME: proofs that take long, need other programs, or look at other versions."""

from __future__ import annotations

import os

import nox

from building.environments import Environment, Target, prepare_torch
from building.packages import ROOT
from building.schemas import installed_schema_folder, schema_folder
from building.testing import (
    PACKAGES,
    PYTEST,
    XDIST,
    component_environment,
    everything,
    run_module,
    run_pytest,
    wheels,
)
from building.torch_versions import MINORS
from building.wheels import build_environment

DRIFT = ROOT / "build" / "drift"
# HTA 0.5 puts numbers into columns that pandas 3 keeps narrow.
HTA = ["HolisticTraceAnalysis==0.5.*", "pandas<3"]
SCHEMAS = ["2.11", "2.12", *MINORS]


@nox.session(name="check-adapters")
def adapters(session: nox.Session) -> None:
    """tb-allocator under the real CuPy, Numba and RMM, as far as they go without a GPU. Downloads 220 MB."""
    environment = Environment("adapters").prepare(
        session,
        [PYTEST, XDIST, "numpy", "cupy-cuda12x==14.*", "numba-cuda", "rmm-cu12"],
        wheels(session, ["tb-allocator"]),
    )
    run_pytest(session, environment, "packages/tb-allocator/adapter_tests", session.posargs)


@nox.session(name="check-allocator")
def allocator(session: nox.Session) -> None:
    """10^8 random operations on tb-allocator against a map of what is allocated. `-- OPERATIONS`"""
    environment = component_environment(session, PACKAGES["tb-allocator"])
    run_module(session, environment, "benchmarks.allocator.soak", *session.posargs)


@nox.session(name="check-autocast")
def autocast(session: nox.Session) -> None:
    """Which autocast rules changed since torch 2.11. `-- MINOR...` for some versions. Downloads 500 MB."""
    environment = component_environment(session, PACKAGES["tb-amp"])
    folders = [schema_folder(session, environment, minor) for minor in session.posargs or SCHEMAS]
    environment.run(session, "python", "-m", "tb_amp.drift", *map(str, folders))


@nox.session(name="check-drift")
def drift(session: nox.Session) -> None:
    """What the newest supported torch offers that the oldest does not. `-- MINOR...`; one version: only our overrides.

    Fails if a virtual function of a class that ours derive from is neither overridden nor listed as left out.
    """
    minors = session.posargs or [MINORS[0], MINORS[-1]]
    needed = Environment("drift").prepare(session, ["numpy", "expecttest"])  # torch's databases of tests import these
    path = os.pathsep.join([str(ROOT / "tools"), str(needed.site_packages)])
    for minor in minors:
        torch = prepare_torch(session, Target(torch=minor))
        record = ["python", "-m", "drift", "record", str(DRIFT / f"{minor}.json")]
        torch.run(session, *record, env={"PYTHONPATH": path})
    run_module(session, needed, "drift", "report", str(DRIFT), *(str(DRIFT / f"{minor}.json") for minor in minors))


@nox.session(name="check-includes")
def includes(session: nox.Session) -> None:
    """Compile each C++ file by itself: it includes what it uses, whatever else is compiled with it.

    The wheels compile files together (shared/units/meson.build).
    """
    grouped = [p for p in PACKAGES.values() if "subdir('shared/units')" in (p.directory / "meson.build").read_text()]
    if not grouped:
        session.error("no package compiles files together: this session has nothing to prove")
    for package in grouped:
        environment = build_environment(session, PACKAGES, package)
        folder = ROOT / "build" / "check-includes" / package.name
        options = ["-Deach_file=true", "-Doptimization=0", "-Ddebug=false"]
        environment.configure(session, folder, package.directory, *options)
        environment.run(session, "ninja", f"-j{os.cpu_count() or 1}", "-k0", "-C", str(folder))


@nox.session(name="check-nvrtc")
def nvrtc(session: nox.Session) -> None:
    """Compile the device kernels for NVIDIA's architectures without a GPU. `-- sm_90` for one. Downloads 105 MB."""
    compilers = Environment("nvrtc").prepare(session, ["nvidia-cuda-nvrtc==13.*", "nvidia-cuda-nvcc==13.*"])
    path = os.pathsep.join([str(ROOT / "tools"), str(compilers.site_packages)])
    everything(session).run(session, "python", "-m", "checks.nvrtc_check", *session.posargs, env={"PYTHONPATH": path})


@nox.session(name="check-schemas")
def schemas(session: nox.Session) -> None:
    """Generate from the operator schemas of torch from 2.11 on and check it. `-- MINOR...` for some. Downloads 500 MB.

    `-- installed`: those of the torch that the environments have, without a download.
    """
    environment = Environment("schemas").prepare(session, ["pyyaml", "typing-extensions"])
    folders = [
        installed_schema_folder(session) if minor == "installed" else schema_folder(session, environment, minor)
        for minor in session.posargs or SCHEMAS
    ]
    environment.run(session, "python", "packages/tb-ops/tests/schema_check.py", *map(str, folders))


@nox.session(name="check-statistics")
def statistics(session: nox.Session) -> None:
    """10^8 samples of every distribution, dieharder's (Debian's) tests on the words, for hours. `-- --help`."""
    environment = component_environment(session, PACKAGES["tb-generator"])
    run_module(session, environment, "benchmarks.generator.statistics", *session.posargs)


@nox.session(name="check-traces")
def traces(session: nox.Session) -> None:
    """A trace of torch.profiler on tb, read by Holistic Trace Analysis, which is installed without torch."""
    file = ROOT / "build" / "traces" / "training.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    run_module(session, everything(session), "traces.record", str(file))
    run_module(session, Environment("traces").prepare(session, HTA), "traces.analyse", str(file))
