"""Every task that a person or CI runs: `nox -l` lists them, the README explains the first two.

Needs Python 3.11, pip and a C++20 compiler. Sessions share the environments and the wheelhouse that tools/building
describes; what is tested is always the wheel of the sources as they are now. The sessions of the groups bench-,
check- and sanitize-, the matrices and the release are in tools/building/sessions.
"""

from __future__ import annotations

import functools
import pathlib
import sys
import tempfile
from collections.abc import Callable

import nox

ROOT = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT / "tools"))

from building import green_runs  # noqa: E402
from building.archives import check_archive  # noqa: E402
from building.environments import Environment  # noqa: E402
from building.packages import Package  # noqa: E402
from building.testing import (  # noqa: E402
    PACKAGES,
    PYTEST,
    STUBGEN,
    Installation,
    component_environment,
    component_tests,
    everything,
    quick_conformance,
    run_all,
    run_conformance,
    run_module,
    run_pytest,
)
from building.wheels import for_each  # noqa: E402
from checks.tree import listed  # noqa: E402
from docs.session import build_site  # noqa: E402

nox.needs_version = ">=2024.10.9"
nox.options.sessions = ["tests"]
# The sessions make their environments themselves: nox knows one per session only, and torch is large.
nox.options.default_venv_backend = "none"

CLANG_FORMAT = "clang-format==19.*"
RUFF = "ruff==0.17.*"
CHECKS = ROOT / "tools" / "checks"
CONFORMANCE = ROOT / "build" / "conformance" / "report"
MYPY = "mypy==2.4.*"
EXTENSIONS = ["_core", "_contract", "_distributed", "_testing"]  # those of a package that have a stub


@nox.session
def integration(session: nox.Session) -> None:
    """The tests of all packages together: `-- -k PATTERN`, and what pytest takes."""
    run_pytest(session, everything(session), "tests", session.posargs)


def _component_session(package: Package) -> None:
    def run(session: nox.Session) -> None:
        component_tests(session, package, session.posargs)

    run.__doc__ = f"{package.name} alone: build and tests{'' if package.uses_torch else ', without torch'}."
    nox.session(name=package.name)(run)


for _package in PACKAGES.values():
    _component_session(_package)


@nox.session
def dev(session: nox.Session) -> None:
    """For quick turns: compile what changed and run tests. `-- PACKAGE`, and pytest's arguments.

    `-- tb-ops -k fill` runs tests of tb-ops alone, `-- tb-ops tests/ops/test_kernels.py` some of all packages together.
    Nothing is packed or installed again; the environments' metadata is that of the last wheels.
    """
    name, *arguments = session.posargs or [""]
    if name not in PACKAGES:
        session.error(f"name a package to compile, one of {', '.join(PACKAGES)}: nox -s dev -- tb-ops -k fill")
    if any(argument.startswith("tests") for argument in arguments):
        run_pytest(session, Installation().everything(session, in_place=True), "tests", arguments)
    else:
        environment = Installation().component(session, PACKAGES[name], in_place=True)
        run_pytest(session, environment, f"packages/{name}/tests", arguments)


@nox.session
def demo(session: nox.Session) -> None:
    """Train a small language model on device tb. `-- --bf16`, `--steps`, `--ranks N`, `--driver NAME [--simulated]`."""
    module, arguments = ["examples.demo"], list(session.posargs)
    if "--simulated" in arguments:
        arguments.remove("--simulated")
        module = ["sim_vendor.run", "demo"]
    run_module(session, everything(session), *module, *arguments)


@nox.session
def tests(session: nox.Session) -> None:
    """Each component with its declared dependencies only, the integration tests, the quick conformance profile.

    All run; any failure fails. `-- ARGUMENTS` go to pytest, and leave the conformance out. `-- --changed`: what differs
    from the last green run, and a third of the rest (tools/building/green_runs.py).
    """
    arguments = [argument for argument in session.posargs if argument != "--changed"]  # pytest's
    folders = [f"tests/{folder}" for folder in green_runs.integration_folders()]
    parts = [*PACKAGES, *folders, *([] if arguments else ["conformance"])]
    run = green_runs.chosen(parts) if "--changed" in session.posargs else parts
    if left_out := [part for part in parts if part not in run]:
        session.log(f"green with these sources, says {green_runs.RECORD}: {' '.join(left_out)}")
    integrated = [folder for folder in folders if folder in run]

    tasks: dict[str, tuple[list[str], Callable[[], None]]] = {
        package.name: ([package.name], functools.partial(component_tests, session, package, arguments))
        for package in PACKAGES.values()
        if package.name in run
    }
    if integrated:
        chosen = [*arguments, *integrated]
        tasks["integration"] = (integrated, lambda: run_pytest(session, everything(session), "tests", chosen))
    if "conformance" in run:
        tasks["conformance"] = (["conformance"], lambda: quick_conformance(session, everything(session), CONFORMANCE))

    def noted(parts: list[str], task: Callable[[], None]) -> None:
        task()
        for part in [] if arguments else parts:
            green_runs.note(part)

    run_all(session, {name: functools.partial(noted, *task) for name, task in tasks.items()})


@nox.session(name="all-checks")
def all_checks(session: nox.Session) -> None:
    """What CI runs, with nothing left out. Two hours on two processors."""
    session.run("bash", ".ci/run", external=True, env={"TB_CI_ALL": "1"})


def kit_environment(session: nox.Session) -> Environment:
    """tb-device, what it declares, and pytest."""
    return component_environment(session, PACKAGES["tb-device"])


@nox.session
def contract(session: nox.Session) -> None:
    """Prove a driver against the device ABI: `-- --driver cpu --level 4`, and what tb-device contract takes.

    `--simulated`: drivers of a vendor's library run on the one of tests/sim_vendor.
    """
    arguments = list(session.posargs) or ["--driver", "cpu", "--level", "4"]
    environment = kit_environment(session)
    if "--simulated" not in arguments:
        environment.run(session, "tb-device", "contract", *arguments)
        return
    arguments.remove("--simulated")
    run_module(session, environment, "sim_vendor.run", "contract", *arguments)


@nox.session
def mutants(session: nox.Session) -> None:
    """Prove the contract kit: every mutant must fail the case that it names. `-- --only NAME`"""
    kit_environment(session).run(session, "python", "-m", "tb_device.contract.mutants", *session.posargs)


@nox.session
def conformance(session: nox.Session) -> None:
    """PyTorch's operator, module and optimizer databases on device tb. `-- --profile full`, `-- --help`."""
    run_conformance(session, everything(session), CONFORMANCE, session.posargs)


@nox.session
def fuzz(session: nox.Session) -> None:
    """Random operator programs on tb against stock cpu. `-- --cases 500 --seed 0`, `-- --help`."""
    run_module(session, everything(session), "fuzz", *session.posargs)


@nox.session
def stubs(session: nox.Session) -> None:
    """Write the .pyi files of the extensions again; `-- --check` fails instead if one is stale."""
    environment = everything(session)
    check = "--check" in session.posargs
    stale = []
    stubs_of = {package: package.directory / "src" / package.module for package in PACKAGES.values()}
    extensions = [(p, name) for p in stubs_of for name in EXTENSIONS if (stubs_of[p] / f"{name}.pyi").exists()]
    for package, extension in extensions:
        committed = stubs_of[package] / f"{extension}.pyi"
        with tempfile.TemporaryDirectory() as scratch:
            command = ["python", "tools/building/stubgen.py", "--exit-code", "-o", scratch]
            environment.run(session, *command, f"{package.module}.{extension}", silent=True)
            written = (pathlib.Path(scratch) / package.module / f"{extension}.pyi").read_text()
        if not check:
            committed.write_text(written)
        elif not committed.exists() or committed.read_text() != written:
            stale.append(str(committed.relative_to(ROOT)))
    if stale:
        session.error(f"stale: {', '.join(stale)}. Run nox -s stubs and commit what it writes")


def tracked(*patterns: str) -> list[str]:
    """Files of the tree, committed or new, without what git ignores."""
    names = listed(ROOT, *patterns, new=True)
    return [name for name in names if (ROOT / name).is_file() and not (ROOT / name).is_symlink()]


@nox.session
def lint(session: nox.Session) -> None:
    """ruff, clang-format, and the checkers of tools/checks."""
    environment = Environment("lint").prepare(session, [RUFF, CLANG_FORMAT])
    environment.run(session, "ruff", "check", ".")
    environment.run(session, "ruff", "format", "--check", ".")
    environment.run(session, "clang-format", "--dry-run", "-Werror", *tracked("*.h", "*.hpp", "*.c", "*.cpp"))
    for checker in (
        ["abi.py", "--check"],
        ["rules.py"],
        ["rooms.py"],
        ["words.py"],
        ["environment.py"],
        ["named_files.py"],
        ["torch_minors.py"],
        ["compatibility.py", "--check"],
    ):
        environment.run(session, "python", str(CHECKS / checker[0]), *checker[1:])


@nox.session
def types(session: nox.Session) -> None:
    """mypy --strict over the packages, the tools and the tests of more than one package."""
    environment = Environment("types", torch=True).prepare(
        session, [MYPY, PYTEST, "nox", "numpy", "matplotlib", "types-tqdm", "nanobind-backend", STUBGEN]
    )
    sources = [f"packages/{p.name}/src/{p.module}" for p in PACKAGES.values()]
    environment.run(
        session,
        *("mypy", "--strict", *sources, "tools", "tests", "noxfile.py"),
    )


@nox.session
def docs(session: nox.Session) -> None:
    """The documentation as a site in build/site. Dead links and names that are on no page fail. `-- --write`"""
    build_site(session, everything(session))


@nox.session
def sdist(session: nox.Session) -> None:
    """Each source archive of what is committed, unpacked elsewhere and built alone. `-- NAME...` chooses packages.

    `--keep`: the wheels of packages that have none yet are kept for the other sessions.
    """
    names = [argument for argument in session.posargs if argument != "--keep"]
    keep = "--keep" in session.posargs
    chosen = [PACKAGES[name] for name in names or PACKAGES]
    for_each(chosen, lambda package: check_archive(session, PACKAGES, package, keep=keep))


# Importing them defines their sessions; nox lists sessions in the order of their definition.
from building.sessions import (  # noqa: E402, F401, I001
    api_coverage,
    benchmarks,
    checks,
    clients,
    opencl,
    pytorch_tests,
    sanitizers,
    torches,
    pythons,
    release,
    suites,
)
