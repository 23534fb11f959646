"""A pytest plugin: a skipped test fails the run unless a file lists it with a reason.

`pytest -p pytest_plugins.strict_skips --strict-skips FILE`. A line of FILE is `PATTERN | REASON`: PATTERN is matched
against the node id with the wildcards of fnmatch ([ means itself), and # starts a comment. A listed test that does not
skip is no error.
"""

from __future__ import annotations

import fnmatch

import pytest


def read_expected(text: str) -> list[tuple[str, str]]:
    """The pairs of pattern and reason. ValueError: a line has no reason."""
    expected = []
    for number, line in enumerate(text.splitlines(), 1):
        stripped = line.split("#", 1)[0].strip()
        if not stripped:
            continue
        pattern, separator, reason = (part.strip() for part in stripped.partition("|"))
        if not separator or not pattern or not reason:
            raise ValueError(f"line {number} of the expected skips should read 'pattern | reason', not {stripped!r}")
        expected.append((pattern.replace("[", "[[]"), reason))
    return expected


class StrictSkips:
    """Collects skips. The session fails if there are unexpected ones."""

    def __init__(self, expected: list[tuple[str, str]]) -> None:
        self.expected = expected
        self.unexpected: list[str] = []

    def _note(self, report: pytest.TestReport | pytest.CollectReport) -> None:
        listed = any(fnmatch.fnmatchcase(report.nodeid, pattern) for pattern, _ in self.expected)
        if report.skipped and not hasattr(report, "wasxfail") and not listed:
            self.unexpected.append(report.nodeid)

    def pytest_runtest_logreport(self, report: pytest.TestReport) -> None:
        self._note(report)

    def pytest_collectreport(self, report: pytest.CollectReport) -> None:
        self._note(report)

    @pytest.hookimpl(trylast=True)
    def pytest_sessionfinish(self, session: pytest.Session, exitstatus: int) -> None:
        if self.unexpected and exitstatus == pytest.ExitCode.OK:
            session.exitstatus = pytest.ExitCode.TESTS_FAILED

    def pytest_terminal_summary(self, terminalreporter: pytest.TerminalReporter) -> None:
        for nodeid in self.unexpected:
            terminalreporter.write_line(
                f"UNEXPECTED SKIP {nodeid}: make it run, or list it with its reason in the expected skips", red=True
            )


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--strict-skips", metavar="FILE", help="fail for skips that FILE does not list")


def pytest_configure(config: pytest.Config) -> None:
    name = config.getoption("--strict-skips")
    if name:
        text = (config.invocation_params.dir / name).read_text()
        config.pluginmanager.register(StrictSkips(read_expected(text)), "strict_skips_collector")
