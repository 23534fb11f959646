"""Proves the kit: every mutant, a driver that breaks one rule, must fail the case that it names.

    python -m tb_device.contract.mutants [--only NAME]...

The case must pass on the honest driver first. Exit code 1 when a mutant is not caught, names a case that there is not,
or when there are fewer than 40.
"""

from __future__ import annotations

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass

from .. import _contract
from ..exceptions import Error
from .session import FAILED, PASSED, WARNED, Result, Session
from .target import Case, all_cases, make_target

LEAST = 40
# A mutant that hangs is caught when it takes this much longer than the honest driver did.
FACTOR, MARGIN = 5.0, 3.0


@dataclass(frozen=True)
class Mutant:
    """A driver that breaks `rule`. base: the honest driver. caught_by: the id of the case that must notice."""

    name: str
    base: str
    rule: str
    caught_by: str
    text: str


def all_mutants() -> list[Mutant]:
    """Every mutant by name."""
    return [Mutant(**facts) for facts in _contract.mutants()]


def _run(base: str, mutant: str, case: Case, limit: float | None) -> Result:
    try:
        target = make_target(base, mutant=mutant, options={})
    except Error as error:
        return Result(case, FAILED, str(error))
    with Session(target, limit=limit) as session:
        if session.problem:
            return Result(case, FAILED, session.problem)
        result = session.run(case)
        session.close()
        # A close that is refused is how a leak shows.
        if session.problem and result.outcome == PASSED:
            return Result(case, FAILED, session.problem)
        return result


def judge(mutant: Mutant, honest: dict[tuple[str, str], Result]) -> tuple[bool, str]:
    """Whether it is caught, and how or why not.

    honest: results on honest drivers by base and case, filled as needed.
    """
    cases = {case.id: case for case in all_cases()}
    case = cases.get(mutant.caught_by)
    if case is None:
        return False, f"there is no case {mutant.caught_by}, which is to catch it"
    if mutant.rule not in case.rules:
        return False, f"{case.id} does not cite {mutant.rule}, the rule that it breaks"
    key = (mutant.base, case.id)
    if key not in honest:
        honest[key] = _run(mutant.base, "", case, None)
    if honest[key].outcome not in (PASSED, WARNED):
        return False, f"{case.id} does not pass on the honest {mutant.base}: {honest[key].outcome}, {honest[key].text}"
    broken = _run(mutant.base, mutant.name, case, honest[key].seconds * FACTOR + MARGIN)
    caught = (FAILED, WARNED) if case.warn else (FAILED,)
    if broken.outcome in caught:
        return True, broken.text.splitlines()[0] if broken.text else broken.outcome
    return False, f"{case.id} {broken.outcome}"


def main(arguments: Sequence[str] | None = None) -> int:
    """Runs the command; returns its exit code."""
    parser = argparse.ArgumentParser(prog="python -m tb_device.contract.mutants", description=__doc__.splitlines()[0])
    parser.add_argument("--only", action="append", default=[], metavar="NAME")
    chosen = parser.parse_args(arguments)
    everything = all_mutants()
    unknown = set(chosen.only) - {mutant.name for mutant in everything}
    if unknown:
        print(f"there is no mutant {', '.join(sorted(unknown))}", file=sys.stderr)
        return 2
    mutants = [mutant for mutant in everything if not chosen.only or mutant.name in chosen.only]
    start = time.monotonic()
    honest: dict[tuple[str, str], Result] = {}
    caught = 0
    for mutant in mutants:
        good, how = judge(mutant, honest)
        caught += good
        print(f"{'caught' if good else 'MISSED'}  {mutant.name:<28} {mutant.caught_by:<7} {how}", flush=True)
    print(f"{caught}/{len(mutants)} mutants caught in {time.monotonic() - start:.0f} s")
    if not chosen.only and len(everything) < LEAST:
        print(f"there are {len(everything)} mutants, and at least {LEAST} must be", file=sys.stderr)
        return 1
    return 0 if caught == len(mutants) else 1


if __name__ == "__main__":
    raise SystemExit(main())
