"""The command `tb-device contract`."""

from __future__ import annotations

import argparse
import functools
import json
import shutil
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TextIO

from ..exceptions import Error
from ..headers import get_include
from . import expectations, rules
from .report import Report, unsupported
from .session import EXPECTED, FAILED, NOT_OFFERED, PASSED, WARNED, Result, Session
from .target import Case, Target, make_target, select

MARKS = {PASSED: "passed", FAILED: "FAILED", EXPECTED: "expected failure", NOT_OFFERED: "not offered", WARNED: "WARNED"}


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the command."""
    parser.add_argument("--driver", required=True, help="a name, or the path of a library, with a slash")
    parser.add_argument("--level", type=int, choices=range(5), default=4, help="0 core, 1 streams, ... 4 all (default)")
    parser.add_argument("--json", metavar="FILE", help="write the result for programs")
    parser.add_argument("--expect", metavar="FILE", help="the vendor's expectations (tb-contract.toml)")
    parser.add_argument("--only", action="append", default=[], metavar="AREA|ID", help="such as MEM or MEM-04")
    parser.add_argument("--seed", type=int, default=1, help="for cases and drivers that choose at random")
    parser.add_argument("--image", default="", metavar="FILE", help="the kernels of tb/contract_kernels.h, compiled")
    parser.add_argument("--slow", action="store_true", help="also the cases that take long")
    parser.add_argument("--repeat", type=int, default=1, metavar="N", help="that often, each time with the next seed")
    parser.add_argument("--layers", default="", metavar="SPEC", help="put around the driver, as in TB_LAYERS")
    parser.add_argument("--option", action="append", default=[], metavar="KEY=VALUE", help="a driver option")


@functools.cache
def _sentences() -> dict[str, str]:
    return rules.read(Path(get_include()) / "tb")


def explain(result: Result) -> str:
    """A failed case in full: the rules that it proves with their sentences, the check, what was found."""
    lines = [f"{MARKS[result.outcome]}  {result.case.id}  {result.case.title}  ({result.seconds:.2f} s)"]
    lines += [f"    {rule}: {_sentences().get(rule, 'no such rule')}" for rule in result.case.rules]
    lines += [f"    {result.where}"] if result.where else []
    lines += [f"    {line}" for line in result.text.splitlines()]
    lines += [f"    | {line}" for line in result.output.splitlines()]
    return "\n".join(lines)


class Progress:
    """What a person sees while cases run: one moving line on a terminal, a line an area in a log."""

    def __init__(self, out: TextIO, total: int) -> None:
        self._out = out
        self._total = total
        self._moving = out.isatty()
        self._done = 0
        self._area: list[Result] = []

    def starts(self, case: Case) -> None:
        if self._moving:
            width = shutil.get_terminal_size().columns - 1
            self._line(f"[{self._done + 1:3}/{self._total}] {case.id} {case.title}"[:width])

    def ended(self, result: Result) -> None:
        self._done += 1
        if self._area and self._area[0].case.area != result.case.area:
            self.area_ended()
        self._area.append(result)
        if result.outcome in (FAILED, WARNED):
            self._say(explain(result))

    def area_ended(self) -> None:
        if not self._area:
            return
        counts = [(sum(r.outcome == mark for r in self._area), MARKS[mark]) for mark in MARKS]
        counted = ", ".join(f"{count} {mark}" for count, mark in counts if count)
        self._say(f"{self._area[0].case.area}  {counted}  {sum(r.seconds for r in self._area):.1f} s")
        self._area = []

    def _say(self, text: str) -> None:
        if self._moving:
            self._line("")
        print(text, file=self._out, flush=True)

    def _line(self, text: str) -> None:
        self._out.write(f"\r\x1b[K{text}")
        self._out.flush()


def run_cases(
    target: Target,
    cases: Sequence[Case],
    report: Report,
    starts: Callable[[Case], None],
    ended: Callable[[Result], None],
) -> None:
    """Runs the cases into the report, telling before and after each."""
    with Session(target) as session:
        for case in cases:
            if session.problem:
                break
            reason = unsupported(report, case.id)
            starts(case)
            result = Result(case, NOT_OFFERED, f"unsupported: {reason}") if reason else session.run(case)
            ended(report.judge(result))
        report.finish(session)


def _options(pairs: Sequence[str]) -> dict[str, str]:
    strange = [pair for pair in pairs if "=" not in pair]
    if strange:
        raise ValueError(f"--option wants KEY=VALUE, not {strange[0]!r}")
    return dict(pair.split("=", 1) for pair in pairs)


def run(chosen: argparse.Namespace) -> int:
    """Runs the command; 0 when everything passed, 1 when not, 2 for wrong usage."""
    try:
        expected = expectations.read(Path(chosen.expect)) if chosen.expect else expectations.Expectations()
        cases = select(chosen.level, chosen.only, chosen.slow)
        targets = [
            make_target(
                chosen.driver,
                image=chosen.image or expected.image,
                layers=chosen.layers,
                seed=chosen.seed + round_,
                options=_options(chosen.option),
            )
            for round_ in range(chosen.repeat)
        ]
    except (ValueError, OSError, Error) as error:
        print(f"tb-device contract: {error}", file=sys.stderr)
        return 2
    worst: Report | None = None
    for target in targets:
        report = Report(target, chosen.level, expected, whole=not chosen.only)
        progress = Progress(sys.stdout, len(cases))
        run_cases(target, cases, report, progress.starts, progress.ended)
        progress.area_ended()
        for problem in report.problems():
            print(f"problem: {problem}")
        print(report.line() + (f" · seed {target.seed}" if chosen.repeat > 1 else ""))
        print(report.proved_line(), flush=True)
        if worst is None or (worst.passed() and not report.passed()):
            worst = report
    assert worst is not None
    if chosen.json:
        Path(chosen.json).write_text(json.dumps(worst.words(), indent=2) + "\n")
    return 0 if worst.passed() else 1
