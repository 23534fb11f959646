"""Sessions that measure: operators, graphs, ranks, compiled steps, profiler, allocator, generator and builds."""

from __future__ import annotations

import nox

from building.archives import native_library
from building.packages import ROOT
from building.testing import PACKAGES, component_environment, everything, run_module
from building.wheels import build_environment


@nox.session
def bench(session: nox.Session) -> None:
    """Time tb against stock cpu, interleaved, at the default thread count and at one. `-- --sweep`: operators only."""
    run_module(session, everything(session), "benchmarks.operators", *session.posargs)


@nox.session(name="bench-graphs")
def bench_graphs(session: nox.Session) -> None:
    """Replays of captured training steps against the same steps run eagerly."""
    run_module(session, everything(session), "benchmarks.compile.graphs", *session.posargs)


@nox.session(name="bench-distributed")
def bench_distributed(session: nox.Session) -> None:
    """Steps and calls of ranks on tb against gloo on the CPU, interleaved. `-- --ranks N`, `-- --page FILE`"""
    run_module(session, everything(session), "benchmarks.distributed", *session.posargs)


@nox.session(name="bench-compile")
def bench_compile(session: nox.Session) -> None:
    """Training steps on tb, captured and compiled, against stock cpu's. `-- NAME... --json FILE`; `-- --lazy`"""
    module, arguments = "benchmarks.compile.compiled", list(session.posargs)
    if "--lazy" in arguments:
        arguments.remove("--lazy")
        module = "benchmarks.compile.lazy"
    run_module(session, everything(session), module, *arguments)


@nox.session(name="bench-profiler")
def bench_profiler(session: nox.Session) -> None:
    """Training steps of an MLP with torch.profiler, and without before and after it. `-- --rounds N`"""
    run_module(session, everything(session), "benchmarks.profiler", *session.posargs)


@nox.session(name="bench-allocator")
def bench_allocator(session: nox.Session) -> None:
    """tb-allocator and its peers on traces of allocations. `-- --trace FILE`. The first run downloads 540 MB."""
    package = PACKAGES["tb-allocator"]
    environment = component_environment(session, package)
    folder = ROOT / "build" / "bench-allocator"
    library = native_library(session, PACKAGES, package, folder / "native", "tests/cpp/liballocator_under_test.a")
    arguments = ["--library", str(library), "--folder", str(folder), *session.posargs]
    run_module(session, environment, "benchmarks.allocator", *arguments)


@nox.session(name="bench-generator")
def bench_generator(session: nox.Session) -> None:
    """tb-generator against torch's CPU and NumPy on one thread. `-- NAME...`; writes build/bench-generator.json."""
    run_module(session, everything(session), "benchmarks.generator", *session.posargs)


@nox.session(name="bench-build")
def bench_build(session: nox.Session) -> None:
    """Compile all packages from nothing, with one job: seconds of each, the dearest files and headers. `-- NAME...`"""
    environment = build_environment(session, PACKAGES, PACKAGES["tb-ops"])
    run_module(session, environment, "benchmarks.compilation", *session.posargs)
