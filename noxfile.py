"""Every task that a person or CI runs: `nox -l` lists them, the README explains the first two.

Needs Python 3.11, pip and a C++20 compiler. Sessions share the environments and the wheelhouse that tools/building
describes; what is tested is always the wheel of the sources as they are now.
"""

from __future__ import annotations

import functools
import json
import os
import pathlib
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterable, Mapping

import nox

ROOT = pathlib.Path(__file__).resolve().parent
sys.path.insert(0, str(ROOT / "tools"))

from building.archives import check_archive, native_library  # noqa: E402
from building.environments import Environment, Wheel, build_environment, wheel  # noqa: E402
from building.packages import Package, closure, read_packages  # noqa: E402
from building.sanitized import LESS_RANDOM, overlay, preloaded  # noqa: E402
from building.schemas import schema_folder  # noqa: E402
from docs.session import build_site  # noqa: E402

nox.needs_version = ">=2024.10.9"
nox.options.sessions = ["tests"]
# The sessions make their environments themselves: nox knows one per session only, and torch is large.
nox.options.default_venv_backend = "none"

PACKAGES = read_packages()
PYTEST = "pytest==9.*"
XDIST = "pytest-xdist==3.*"
CLANG_FORMAT = "clang-format==19.*"
RUFF = "ruff==0.17.*"
MYPY = "mypy==2.4.*"
STUBGEN = "pybind11-stubgen==3.0.*"
SCHEMAS = ["2.11", "2.12", "2.13", "2.14", "2.15"]
# Demo, benchmark and integration tests share one environment with everything in it.
EVERYTHING = [PYTEST, XDIST, "numpy", "expecttest", "matplotlib", "tqdm", STUBGEN]
# docs/new-device.md builds a driver and its wheel, without a network; docs/custom-operators.md generates code.
EVERYTHING += ["meson-python==0.22.*", "meson>=1.5", "ninja", "pyyaml"]

PYTEST_ARGUMENTS = ["--rootdir", str(ROOT), "-ra", "-p", "tests_on_cpu", "-p", "strict_skips"]
PYTEST_ARGUMENTS += ["--strict-skips", "tests/expected_skips.txt"]
# A test that hangs ends the run, with the stacks of all threads.
PYTEST_ARGUMENTS += ["-o", "faulthandler_timeout=300", "-o", "faulthandler_exit_on_timeout=true"]
TOOLS_ON_PATH = {"PYTHONPATH": str(ROOT / "tools")}

# The C++ tests that the sanitizers watch: all of the torch-free packages.
SANITIZED = ["tb-device", "tb-stream", "tb-allocator", "tb-generator"]
SANITIZERS = {
    "thread": {"TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1"},
    "address,undefined": {"ASAN_OPTIONS": "detect_leaks=1", "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1"},
}
# The extensions that they watch while random programs run. No search for leaks: Python and torch keep much until the
# process ends; the fuzzer looks for device memory that nobody gives back.
FUZZED = ["tb-device", "tb-stream", "tb-allocator", "tb-generator", "tb-ops", "torch-backend"]
FUZZ_SANITIZERS = {
    "address,undefined": {**SANITIZERS["address,undefined"], "ASAN_OPTIONS": "detect_leaks=0"},
    # What happens inside torch, OpenMP and Python counts for nothing: their own synchronisation cannot be seen.
    "thread": {"TSAN_OPTIONS": "halt_on_error=1:ignore_noninstrumented_modules=1"},
}


def wheels(session: nox.Session, names: Iterable[str]) -> list[Wheel]:
    """The wheels of these packages and of those that they declare."""
    return [wheel(session, PACKAGES, package) for package in closure(PACKAGES, names)]


def component_environment(session: nox.Session, package: Package) -> Environment:
    """The package, what it declares, pytest; nothing else."""
    return Environment(package.name).prepare(
        session,
        [PYTEST, *package.test_requirements],
        wheels(session, [package.name]),
        torch=any(needed.uses_torch for needed in closure(PACKAGES, [package.name])),
    )


def everything(session: nox.Session) -> Environment:
    """All packages, and what the demo, the benchmark and the integration tests need."""
    return Environment("everything").prepare(session, EVERYTHING, wheels(session, PACKAGES), torch=True)


def run_pytest(session: nox.Session, environment: Environment, tests: str, arguments: Iterable[str]) -> None:
    """Zero tests fail (pytest's exit 5), and so does a skip that tests/expected_skips.txt does not list."""
    environment.run(session, "pytest", *PYTEST_ARGUMENTS, tests, *arguments, env=TOOLS_ON_PATH)


def component_tests(session: nox.Session, package: Package) -> None:
    environment = component_environment(session, package)
    if not package.uses_torch:
        code = "import importlib.util as i, sys; sys.exit('torch is here' if i.find_spec('torch') else 0)"
        environment.run(session, "python", "-c", code)
    run_pytest(session, environment, f"packages/{package.name}/tests", session.posargs)


def integration_tests(session: nox.Session) -> None:
    """Files go to two processes: most tests keep one processor busy. With arguments of yours there is one."""
    run_pytest(session, everything(session), "tests", session.posargs or ["-n", "2", "--dist", "loadfile"])


def _component_session(package: Package) -> None:
    def run(session: nox.Session) -> None:
        component_tests(session, package)

    run.__doc__ = f"{package.name} alone: build and tests{'' if package.uses_torch else ', without torch'}."
    nox.session(name=package.name)(run)


for _package in PACKAGES.values():
    _component_session(_package)


@nox.session
def demo(session: nox.Session) -> None:
    """Train a small language model on device tb. `-- --bf16`, `--steps N`, `--driver NAME [--simulated]`."""
    module, arguments = ["demo"], list(session.posargs)
    if "--simulated" in arguments:
        arguments.remove("--simulated")
        module = ["building.simulated", "demo"]
    everything(session).run(session, "python", "-m", *module, *arguments, env=TOOLS_ON_PATH)


@nox.session
def tests(session: nox.Session) -> None:
    """Each component with its declared dependencies only, the integration tests, the quick conformance profile.

    All run; any failure fails. `-- ARGUMENTS` go to pytest, and leave the conformance out.
    """
    tasks: dict[str, Callable[[], None]] = {
        package.name: functools.partial(component_tests, session, package) for package in PACKAGES.values()
    }
    tasks["integration"] = functools.partial(integration_tests, session)
    if not session.posargs:  # these are pytest's
        on_cpu = {"TB_DRIVER": os.environ.get("TB_DRIVER", "cpu")}
        tasks["conformance"] = functools.partial(run_conformance, session, ["--profile", "quick"], on_cpu)
    run_all(session, tasks)


def run_all(session: nox.Session, tasks: Mapping[str, Callable[[], None]]) -> None:
    """Runs every task, also after a failure, and fails at the end if any did."""
    failed = []
    for name, task in tasks.items():
        session.log(f"---- {name}")
        try:
            task()
        except nox.command.CommandFailed as error:
            session.warn(f"{name} failed: {error}")
            failed.append(name)
    if failed:
        session.error(f"failed: {', '.join(failed)}")


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
    environment.run(session, "python", "-m", "building.simulated", "contract", *arguments, env=TOOLS_ON_PATH)


@nox.session
def mutants(session: nox.Session) -> None:
    """Prove the contract kit: every mutant must fail the case that it names. `-- --only NAME`"""
    kit_environment(session).run(session, "python", "-m", "tb_device.contract.mutants", *session.posargs)


def run_conformance(session: nox.Session, arguments: Iterable[str], env: Mapping[str, str] | None = None) -> None:
    reports = ROOT / "build" / "conformance"
    reports.mkdir(parents=True, exist_ok=True)
    options = ["--device", "tb", "--json", f"{reports}/report.json", "--page", f"{reports}/report.md", *arguments]
    everything(session).run(session, "python", "-m", "torch_backend.conformance", *options, env=env)


@nox.session
def conformance(session: nox.Session) -> None:
    """PyTorch's operator, module and optimizer databases on device tb. `-- --profile full`, `-- --help`."""
    run_conformance(session, session.posargs)


@nox.session
def bench(session: nox.Session) -> None:
    """Time tb against stock cpu, interleaved, at the default thread count and at one thread."""
    everything(session).run(session, "python", "-m", "bench", *session.posargs, env=TOOLS_ON_PATH)


@nox.session(name="bench-graphs")
def bench_graphs(session: nox.Session) -> None:
    """Replays of captured training steps against the same steps run eagerly."""
    everything(session).run(session, "python", "-m", "bench.graphs", *session.posargs, env=TOOLS_ON_PATH)


@nox.session(name="bench-compile")
def bench_compile(session: nox.Session) -> None:
    """Training steps on tb, captured and compiled, against stock cpu's. `-- NAME... --json FILE`; `-- --lazy`"""
    module, arguments = "bench.compiled", list(session.posargs)
    if "--lazy" in arguments:
        arguments.remove("--lazy")
        module = "bench.lazy"
    everything(session).run(session, "python", "-m", module, *arguments, env=TOOLS_ON_PATH)


@nox.session(name="bench-allocator")
def bench_allocator(session: nox.Session) -> None:
    """tb-allocator and its peers on traces of allocations. `-- --trace FILE`. The first run downloads 540 MB."""
    package = PACKAGES["tb-allocator"]
    environment = component_environment(session, package)
    folder = ROOT / "build" / "bench-allocator"
    library = native_library(session, PACKAGES, package, folder / "native", "tests/cpp/liballocator_under_test.a")
    arguments = ["--library", str(library), "--folder", str(folder), *session.posargs]
    environment.run(session, "python", "-m", "allocator_bench", *arguments, env=TOOLS_ON_PATH)


@nox.session
def adapters(session: nox.Session) -> None:
    """tb-allocator under the real CuPy, Numba and RMM, as far as they go without a GPU. Downloads 220 MB."""
    environment = Environment("adapters").prepare(
        session, [PYTEST, "numpy", "cupy-cuda12x==14.*", "numba-cuda", "rmm-cu12"], wheels(session, ["tb-allocator"])
    )
    run_pytest(session, environment, "packages/tb-allocator/adapter_tests", session.posargs)


@nox.session(name="bench-generator")
def bench_generator(session: nox.Session) -> None:
    """tb-generator against torch's CPU and NumPy on one thread. `-- NAME...`; writes build/bench-generator.json."""
    everything(session).run(session, "python", "-m", "generator_bench", *session.posargs, env=TOOLS_ON_PATH)


@nox.session
def statistics(session: nox.Session) -> None:
    """10^8 samples of every distribution, dieharder's (Debian's) tests on the words, for hours. `-- --help`."""
    environment = component_environment(session, PACKAGES["tb-generator"])
    environment.run(session, "python", "-m", "generator_statistics", *session.posargs, env=TOOLS_ON_PATH)


@nox.session(name="soak-allocator")
def soak_allocator(session: nox.Session) -> None:
    """10^8 random operations on tb-allocator against a map of what is allocated. `-- OPERATIONS`"""
    environment = component_environment(session, PACKAGES["tb-allocator"])
    environment.run(session, "python", "-m", "allocator_bench.soak", *session.posargs, env=TOOLS_ON_PATH)


@nox.session
def schemas(session: nox.Session) -> None:
    """Generate from the operator schemas of torch 2.11 to 2.15 and check it. `-- 2.14` for one. Downloads 500 MB."""
    environment = Environment("schemas").prepare(session, ["pyyaml", "typing-extensions"])
    folders = [schema_folder(session, environment, minor) for minor in session.posargs or SCHEMAS]
    environment.run(session, "python", "packages/tb-ops/tests/schema_check.py", *map(str, folders))


@nox.session(name="autocast-drift")
def autocast_drift(session: nox.Session) -> None:
    """Which autocast rules changed between torch 2.11 and 2.15. `-- 2.13 2.14` for some. Downloads 500 MB."""
    environment = component_environment(session, PACKAGES["tb-amp"])
    folders = [schema_folder(session, environment, minor) for minor in session.posargs or SCHEMAS]
    environment.run(session, "python", "-m", "tb_amp.drift", *map(str, folders))


@nox.session
def sanitize(session: nox.Session) -> None:
    """The C++ tests under ThreadSanitizer, then AddressSanitizer with UndefinedBehaviorSanitizer. `-- NAME...`"""
    run_all(
        session,
        {
            f"{name} ({sanitizer})": functools.partial(sanitized_tests, session, PACKAGES[name], sanitizer)
            for sanitizer in SANITIZERS
            for name in session.posargs or SANITIZED
        },
    )


def sanitized_tests(session: nox.Session, package: Package, sanitizer: str) -> None:
    """Builds the C++ tests alone and runs them; no test that ran and passed is a failure."""
    environment = build_environment(session, PACKAGES, package)
    folder = ROOT / "build" / f"sanitize-{sanitizer.replace(',', '-')}" / package.name
    known = ["--reconfigure"] if (folder / "meson-private" / "coredata.dat").exists() else []
    environment.run(
        session,
        *("meson", "setup", *known, str(folder), str(package.directory)),
        *(f"-Db_sanitize={sanitizer}", "-Db_lundef=false", "-Dnative_tests=true"),
        # Lines are all that reports need; the rest of what debuggers like takes a quarter of the compiler's time.
        *("-Dbuildtype=debugoptimized", "-Dcpp_args=-g1", "-Db_ndebug=false"),
        silent=True,
    )
    logs = folder / "meson-logs"
    for log in logs.glob("testlog*.json"):
        log.unlink()
    command = ["meson", "test", "-C", str(folder), "--print-errorlogs", "--timeout-multiplier", "10"]
    command += ["--wrapper", " ".join(LESS_RANDOM)] if LESS_RANDOM else []
    environment.run(session, *command, env=SANITIZERS[sanitizer])
    # testlog.json or, behind a wrapper, testlog-WRAPPER.json
    ran = [json.loads(line) for log in logs.glob("testlog*.json") for line in log.read_text().splitlines()]
    if not any(test["result"] == "OK" for test in ran):
        raise nox.command.CommandFailed(f"meson ran no C++ test of {package.name}: a run without tests proves nothing")


@nox.session
def fuzz(session: nox.Session) -> None:
    """Random operator programs on tb against stock cpu. `-- --cases 500 --seed 0`, `-- --help`."""
    everything(session).run(session, "python", "-m", "fuzz", *session.posargs, env=TOOLS_ON_PATH)


@nox.session(name="sanitize-ops")
def sanitize_ops(session: nox.Session) -> None:
    """The fuzzer's programs with all extensions under Address- and UndefinedBehaviorSanitizer, then ThreadSanitizer."""
    tasks = {name: functools.partial(sanitized_fuzzing, session, name) for name in FUZZ_SANITIZERS}
    run_all(session, tasks)


def sanitized_fuzzing(session: nox.Session, sanitizer: str) -> None:
    arguments = session.posargs or ["--cases", "500", "--seed", "0"]
    run_instrumented(session, everything(session), FUZZED, sanitizer, "fuzz", *arguments)


def run_instrumented(
    session: nox.Session, environment: Environment, names: Iterable[str], sanitizer: str, *module: str
) -> None:
    """A module and its arguments, with these packages' extensions built for a sanitizer; a report fails."""
    folder = overlay(session, PACKAGES, names, sanitizer, environment)
    variables = {**FUZZ_SANITIZERS[sanitizer], "PYTHONPATH": f"{folder}{os.pathsep}{ROOT / 'tools'}"}
    python = ["env", f"LD_PRELOAD={preloaded(sanitizer)}", str(environment.bin / "python")]
    session.run(*LESS_RANDOM, *python, "-m", *module, env=variables, external=True)


def _sanitized_session(package: Package, name: str, *more: str) -> None:
    """`more`: tests that need all packages."""

    def run(session: nox.Session) -> None:
        tasks = {kind: functools.partial(sanitized_package, session, package, kind, *more) for kind in FUZZ_SANITIZERS}
        run_all(session, tasks)

    title = f"{package.name}'s tests with its extension under Address- and UndefinedBehaviorSanitizer"
    run.__doc__ = f"{title}, then ThreadSanitizer."
    nox.session(name=name)(run)


_sanitized_session(PACKAGES["tb-amp"], "sanitize-amp")
_sanitized_session(
    PACKAGES["tb-compile"],
    "sanitize-compile",
    *(f"tests/test_{name}.py" for name in ("compile", "compiled_step", "lazy", "reduce_overhead")),
    "tests/test_torchscript_delegate.py",
)


def sanitized_package(session: nox.Session, package: Package, sanitizer: str, *more: str) -> None:
    arguments = [*PYTEST_ARGUMENTS, *session.posargs]
    own = f"packages/{package.name}/tests"
    alone = component_environment(session, package)
    run_instrumented(session, alone, [package.name], sanitizer, "pytest", own, *arguments)
    if more:  # a sanitizer keeps memory that was freed
        arguments += ["--deselect", "tests/test_compiled_step.py::test_ten_thousand_replays_leak_nothing"]
        run_instrumented(session, everything(session), [package.name], sanitizer, "pytest", *more, *arguments)


@nox.session
def stubs(session: nox.Session) -> None:
    """Write the .pyi files of the extensions anew; `-- --check` fails where one is stale instead."""
    environment = everything(session)
    check = "--check" in session.posargs
    stale = []
    extensions = [(package, "_core") for package in PACKAGES.values()]
    for package, extension in [*extensions, (PACKAGES["tb-device"], "_contract")]:
        committed = package.directory / "src" / package.module / f"{extension}.pyi"
        with tempfile.TemporaryDirectory() as scratch:
            command = ["python", "tools/stubgen.py", "--exit-code", "-o", scratch, f"{package.module}.{extension}"]
            environment.run(session, *command, silent=True)
            written = (pathlib.Path(scratch) / package.module / f"{extension}.pyi").read_text()
        if not check:
            committed.write_text(written)
        elif not committed.exists() or committed.read_text() != written:
            stale.append(str(committed.relative_to(ROOT)))
    if stale:
        session.error(f"stale: {', '.join(stale)}. Run nox -s stubs and commit what it writes")


def tracked(*patterns: str) -> list[str]:
    """Files of the tree, committed or new, without what git ignores."""
    command = ["git", "ls-files", "-z", "--cached", "--others", "--exclude-standard", "--", *patterns]
    names = subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout.split("\0")
    return sorted(name for name in names if name and (ROOT / name).is_file() and not (ROOT / name).is_symlink())


@nox.session
def lint(session: nox.Session) -> None:
    """ruff, clang-format, and the checkers of tools/."""
    environment = Environment("lint").prepare(session, [RUFF, CLANG_FORMAT])
    environment.run(session, "ruff", "check", ".")
    environment.run(session, "ruff", "format", "--check", ".")
    environment.run(session, "clang-format", "--dry-run", "-Werror", *tracked("*.h", "*.hpp", "*.c", "*.cpp"))
    environment.run(session, "python", str(ROOT / "tools" / "abi.py"), "--check")
    environment.run(session, "python", str(ROOT / "tools" / "rules.py"))


@nox.session
def types(session: nox.Session) -> None:
    """mypy --strict over the packages, the tools and the tests of more than one package."""
    environment = Environment("types").prepare(
        session, [MYPY, PYTEST, "nox", "numpy", "matplotlib", "types-tqdm", "nanobind-backend", STUBGEN], torch=True
    )
    sources = [f"packages/{p.name}/src/{p.module}" for p in PACKAGES.values()]
    environment.run(
        session,
        *("mypy", "--strict", *sources, "tools", "tests", "noxfile.py"),
        env={"MYPYPATH": f"{ROOT / 'tools'}:{ROOT / 'tests'}"},
    )


@nox.session
def docs(session: nox.Session) -> None:
    """The documentation as a site in build/site. Dead links and names that are on no page fail. `-- --write`"""
    build_site(session, everything(session))


@nox.session
def sdist(session: nox.Session) -> None:
    """Each source archive of what is committed, unpacked elsewhere and built alone. `-- NAME...` chooses packages."""
    for name in session.posargs or PACKAGES:
        check_archive(session, PACKAGES, PACKAGES[name])
