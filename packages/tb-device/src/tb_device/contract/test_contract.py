"""One test a case: `pytest --pyargs tb_device.contract --tb-driver=NAME|PATH --tb-level=0..4`."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from . import expectations
from .command import explain
from .report import Report, unsupported
from .session import EXPECTED, FAILED, NOT_OFFERED, WARNED, Result, Session
from .target import Case, make_target, select


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """The cases that the options select."""
    if "case" not in metafunc.fixturenames:
        return
    option = metafunc.config.getoption
    if not option("tb_driver"):
        raise pytest.UsageError("tb_device.contract needs --tb-driver=NAME or --tb-driver=./PATH")
    try:
        cases = select(option("tb_level"), option("tb_only"), option("tb_slow"))
    except ValueError as error:
        raise pytest.UsageError(f"--tb-only: {error}") from error
    metafunc.parametrize("case", cases, ids=[case.id for case in cases])


@pytest.fixture(scope="module")
def running(request: pytest.FixtureRequest) -> Iterator[tuple[Session, Report]]:
    option = request.config.getoption
    expected = expectations.Expectations()
    if option("tb_expect"):
        expected = expectations.read(Path(option("tb_expect")))
    target = make_target(
        option("tb_driver"), image=option("tb_image") or expected.image, seed=option("tb_seed"), options={}
    )
    report = Report(target, option("tb_level"), expected, whole=not option("tb_only"))
    with Session(target) as session:
        yield session, report


def test_case(case: Case, running: tuple[Session, Report]) -> None:
    session, report = running
    assert not session.problem, session.problem
    reason = unsupported(report, case.id)
    result = report.judge(Result(case, NOT_OFFERED, f"unsupported: {reason}") if reason else session.run(case))
    if result.outcome == NOT_OFFERED:
        pytest.skip(f"not offered: {result.text}")
    if result.outcome == EXPECTED:
        pytest.xfail(result.text)
    if result.outcome == WARNED:
        pytest.skip(f"warning: {result.text}")
    if result.outcome == FAILED:
        pytest.fail(explain(result), pytrace=False)


def test_the_run_as_a_whole(running: tuple[Session, Report], request: pytest.FixtureRequest) -> None:
    """Something was executed, each declared group had a case, and the driver closed."""
    session, report = running
    report.finish(session)
    if file := request.config.getoption("tb_report"):
        Path(file).write_text(json.dumps(report.words(), indent=2) + "\n")
    if report.problems():
        pytest.fail("\n".join(report.problems()), pytrace=False)
