"""The environments in which tests run, the arguments of pytest, and a function that runs several tasks."""

from __future__ import annotations

import os
import pathlib
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import nox

from building.environments import Environment, Target, Wheel
from building.in_place import updated
from building.packages import ROOT, Package, closure, read_packages
from building.wheels import for_each, wheel

PACKAGES = read_packages()
PYTEST = "pytest==9.*"
XDIST = "pytest-xdist==3.*"
STUBGEN = "pybind11-stubgen==3.0.*"
# The demo, the benchmarks and the integration tests share one environment that has everything.
EVERYTHING = [PYTEST, XDIST, "numpy", "expecttest", "matplotlib", "tqdm", STUBGEN]
# docs/new-device.md builds a driver and its wheel without a network; docs/custom-operators.md generates code.
EVERYTHING += ["meson-python==0.22.*", "meson>=1.5", "ninja", "pyyaml"]
EVERYTHING += ["nox"]  # tests of tools/building

PYTEST_ARGUMENTS = ["--rootdir", str(ROOT), "-ra", "-p", "pytest_plugins.tests_on_cpu"]
PYTEST_ARGUMENTS += ["-p", "pytest_plugins.strict_skips", "--strict-skips", "tests/expected_skips.txt"]
# A test that hangs ends the run, with the stacks of all threads.
PYTEST_ARGUMENTS += ["-o", "faulthandler_timeout=300", "-o", "faulthandler_exit_on_timeout=true"]
# Where the time goes: the slowest tests of a run, in seconds.
PYTEST_ARGUMENTS += ["--durations=20", "--durations-min=4"]
# The packages of tools/, and the packages of tests/ that several tests import.
PYTHONPATH = os.pathsep.join([str(ROOT / "tools"), str(ROOT / "tests")])


@dataclass(frozen=True)
class Installation:
    """Where and how packages are installed for tests."""

    target: Target = field(default_factory=Target)
    torch_minors: tuple[str, ...] = ()
    """The versions of torch for which the wheels have extensions; () for the target's only."""

    def wheels(self, session: nox.Session, names: Iterable[str]) -> list[Wheel]:
        """The wheels of these packages and of those that they declare."""
        minors = self.torch_minors or (self.target.torch,)
        return for_each(closure(PACKAGES, names), lambda package: wheel(session, PACKAGES, package, minors))

    def component(self, session: nox.Session, package: Package, *, in_place: bool = False) -> Environment:
        """An environment with the package, its dependencies, pytest and its plugin for several processes only.

        Arguments:
            in_place: what is installed there already is brought up to date without wheels.
        """
        torch = any(needed.uses_torch for needed in closure(PACKAGES, [package.name]))
        environment = Environment(package.name, self.target, torch=torch)
        if in_place and updated(session, PACKAGES, environment, [package.name]):
            return environment
        tools = [PYTEST, XDIST, *package.test_requirements]
        return environment.prepare(session, tools, self.wheels(session, [package.name]))

    def everything(self, session: nox.Session, *, in_place: bool = False) -> Environment:
        """The environment with all packages, and what the demo, the benchmarks and the integration tests need.

        Arguments:
            in_place: as above.
        """
        environment = Environment("everything", self.target, torch=True)
        if in_place and updated(session, PACKAGES, environment, PACKAGES):
            return environment
        return environment.prepare(session, EVERYTHING, self.wheels(session, PACKAGES))


def wheels(session: nox.Session, names: Iterable[str]) -> list[Wheel]:
    """The wheels of these packages and of those that they declare, for the torch on which sessions run."""
    return Installation().wheels(session, names)


def component_environment(session: nox.Session, package: Package) -> Environment:
    """See Installation.component."""
    return Installation().component(session, package)


def everything(session: nox.Session) -> Environment:
    """See Installation.everything."""
    return Installation().everything(session)


def run_module(session: nox.Session, environment: Environment, module: str, *arguments: str) -> None:
    """Runs a module of tools/ or tests/ as a program of the environment."""
    environment.run(session, "python", "-m", module, *arguments, env={"PYTHONPATH": PYTHONPATH})


def run_pytest(session: nox.Session, environment: Environment, tests: str, arguments: Iterable[str]) -> None:
    """Runs pytest on the folder `tests`, or on the files and folders in it that `arguments` name.

    Files go to two processes: most tests keep one processor busy. With arguments of pytest there is one.
    It fails if no test runs, and for a skip that tests/expected_skips.txt does not list.
    """
    arguments = list(arguments)
    paths = [argument for argument in arguments if argument.startswith(f"{tests}/")]
    chosen = arguments if paths else [tests, *arguments]
    if all((ROOT / path).is_dir() for path in arguments):
        chosen += ["-n", "2", "--dist", "loadfile"]
    environment.run(session, "pytest", *PYTEST_ARGUMENTS, *chosen, env={"PYTHONPATH": PYTHONPATH})


def component_tests(
    session: nox.Session, package: Package, arguments: Iterable[str], installation: Installation | None = None
) -> None:
    """The package's tests, beside what it declares only: without torch if it needs none."""
    environment = (installation or Installation()).component(session, package)
    if not package.uses_torch:
        code = "import importlib.util as i, sys; sys.exit('torch is here' if i.find_spec('torch') else 0)"
        environment.run(session, "python", "-c", code)
    run_pytest(session, environment, f"packages/{package.name}/tests", arguments)


def run_conformance(
    session: nox.Session,
    environment: Environment,
    report: pathlib.Path,
    arguments: Iterable[str],
    env: Mapping[str, str] | None = None,
) -> None:
    """The conformance on tb; `report` is the path of its two reports without .json and .md."""
    report.parent.mkdir(parents=True, exist_ok=True)
    options = ["--device", "tb", "--json", f"{report}.json", "--page", f"{report}.md", *arguments]
    environment.run(session, "python", "-m", "torch_backend.conformance", *options, env=env)


def quick_conformance(session: nox.Session, environment: Environment, report: pathlib.Path) -> None:
    """The quick profile, on the CPU driver unless TB_DRIVER names another."""
    on_cpu = {"TB_DRIVER": os.environ.get("TB_DRIVER", "cpu")}
    run_conformance(session, environment, report, ["--profile", "quick"], on_cpu)


def run_all(session: nox.Session, tasks: Mapping[str, Callable[[], None]]) -> None:
    """Runs every task, also after a failure. CommandFailed, at the end: some did; a task may be such a run itself."""
    failed = []
    for name, task in tasks.items():
        session.log(f"---- {name}")
        try:
            task()
        except nox.command.CommandFailed as error:
            session.warn(f"{name} failed: {error}")
            failed.append(name)
    if failed:
        session.warn(f"failed: {', '.join(failed)}")
        raise nox.command.CommandFailed(", ".join(failed))
