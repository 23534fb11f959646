"""Sessions under sanitizers (address, undefined behaviour, thread): C++ tests, random programs, packages' tests."""

from __future__ import annotations

import argparse
import functools
import json
import os
from collections.abc import Iterable, Sequence

import nox

from building.environments import Environment
from building.packages import Package
from building.sanitized import LESS_RANDOM, configured, overlay, preloaded
from building.testing import (
    PACKAGES,
    PYTEST_ARGUMENTS,
    PYTHONPATH,
    component_environment,
    everything,
    run_all,
)
from building.wheels import build_environment

# The packages whose C++ tests run under sanitizers: all that do not use torch.
SANITIZED = ["tb-device", "tb-stream", "tb-allocator", "tb-generator"]
SANITIZERS = {
    "thread": {"TSAN_OPTIONS": "halt_on_error=1:second_deadlock_stack=1"},
    "address,undefined": {"ASAN_OPTIONS": "detect_leaks=1", "UBSAN_OPTIONS": "halt_on_error=1:print_stacktrace=1"},
}
# The packages whose extensions are instrumented while random programs run. Leaks are not searched for, because Python
# and torch keep much memory until the process ends; the fuzzer itself looks for leaks of device memory.
FUZZED = ["tb-device", "tb-stream", "tb-allocator", "tb-generator", "tb-ops", "torch-backend"]
FUZZ_SANITIZERS = {
    "address,undefined": {**SANITIZERS["address,undefined"], "ASAN_OPTIONS": "detect_leaks=0"},
    # Accesses inside torch, OpenMP and Python are ignored, because ThreadSanitizer does not see their synchronisation.
    "thread": {"TSAN_OPTIONS": "halt_on_error=1:ignore_noninstrumented_modules=1"},
}


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
    """Builds the package's C++ tests only and runs them. It is a failure if no test ran and passed."""
    environment = build_environment(session, PACKAGES, package)
    folder = configured(session, environment, package, sanitizer)
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


@nox.session(name="sanitize-ops")
def sanitize_ops(session: nox.Session) -> None:
    """The fuzzer's programs with all extensions under Address- and UndefinedBehaviorSanitizer, then ThreadSanitizer.

    `-- --sanitizer NAME` runs one of them, "address,undefined" or "thread"; other arguments are the fuzzer's.
    """
    parser = argparse.ArgumentParser(prog="nox -s sanitize-ops --", description=sanitize_ops.__doc__)
    parser.add_argument("--sanitizer", choices=FUZZ_SANITIZERS)
    chosen, rest = parser.parse_known_args(session.posargs)
    arguments = rest or ["--cases", "500", "--seed", "0"]
    names = [chosen.sanitizer] if chosen.sanitizer else list(FUZZ_SANITIZERS)
    run_all(session, {name: functools.partial(sanitized_fuzzing, session, name, arguments) for name in names})


def sanitized_fuzzing(session: nox.Session, sanitizer: str, arguments: Sequence[str]) -> None:
    run_instrumented(session, everything(session), FUZZED, sanitizer, "fuzz", *arguments)


def run_instrumented(
    session: nox.Session, environment: Environment, names: Iterable[str], sanitizer: str, *module: str
) -> None:
    """Runs a module with these packages' extensions built for a sanitizer. A report of the sanitizer is a failure."""
    folder = overlay(session, PACKAGES, names, sanitizer, environment)
    variables = {**FUZZ_SANITIZERS[sanitizer], "PYTHONPATH": f"{folder}{os.pathsep}{PYTHONPATH}"}
    python = ["env", f"LD_PRELOAD={preloaded(sanitizer)}", str(environment.bin / "python")]
    session.run(*LESS_RANDOM, *python, "-m", *module, env=variables, external=True)


def _sanitized_session(package: Package, name: str, *more: str) -> None:
    """Adds a session for a package's tests. `more`: further tests, which need all packages."""

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
    *(
        f"tests/compile/test_{name}.py"
        for name in ("captured_programs", "compile", "compiled_step", "lazy", "reduce_overhead")
    ),
    "tests/compile/test_torchscript_delegate.py",
)


@nox.session(name="sanitize-distributed")
def sanitize_distributed(session: nox.Session) -> None:
    """Process groups with all extensions under Address- and UndefinedBehaviorSanitizer, then ThreadSanitizer.

    `-- FILE...` and what pytest takes: other tests than those of threads, memory, random calls and failures.
    """
    files = session.posargs or [
        f"tests/distributed/test_{name}.py" for name in ("threads", "memory", "random_calls", "failures")
    ]
    environment = everything(session)
    run_all(
        session,
        {
            name: functools.partial(
                run_instrumented, session, environment, FUZZED, name, "pytest", *PYTEST_ARGUMENTS, *files
            )
            for name in FUZZ_SANITIZERS
        },
    )


def sanitized_package(session: nox.Session, package: Package, sanitizer: str, *more: str) -> None:
    arguments = [*PYTEST_ARGUMENTS, *session.posargs]
    own = f"packages/{package.name}/tests"
    alone = component_environment(session, package)
    run_instrumented(session, alone, [package.name], sanitizer, "pytest", own, *arguments)
    if more:  # the deselected test measures memory, and a sanitizer keeps freed memory for a while
        arguments += ["--deselect", "tests/compile/test_compiled_step.py::test_ten_thousand_replays_leak_nothing"]
        run_instrumented(session, everything(session), [package.name], sanitizer, "pytest", *more, *arguments)
