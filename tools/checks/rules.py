"""Checks that every rule of the device ABI is proved: each id of the specification is cited by a case or a test.

    python tools/checks/rules.py     exit code 1 with what is wrong

The rules are the sentences of shared/include/tb/{driver.h,driver_slots.inc,graph_slots.inc}. A case cites them in its
TB_CASE, and a test of tb-device in a comment `rules: mem_alloc.3 E1`. Cited rules must exist, ids of cases must be
unique, and every mutant must name a case that cites the rule that it breaks.
"""

from __future__ import annotations

import importlib.util
import pathlib
import re
import sys
from collections.abc import Iterable
from dataclasses import dataclass

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGE = pathlib.Path("packages/tb-device")

# Rules for callers, which no driver can prove. The layer validate finds callers that break them.
CALLERS = {"stream_host_call.5", "closure_commit.2", "ipc_export_memory.2"}

_STRINGS = r'((?:"[^"]*"\s*)+)'
_CASE = re.compile(r"\bTB_CASE\(\s*(\w+),\s*(\w+),[^\"]*?" + _STRINGS)
_MUTANT = re.compile(r'\bTB_MUTANT\(\s*(\w+),\s*"\w+",\s*"([^"]*)",\s*"([^"]*)"')
_CITED = re.compile(r"(?:#|//|\*) *rules: *([^\n]*)")


@dataclass(frozen=True)
class Citation:
    """The rules that the case `id`, or a test (""), cites at `place`."""

    place: str
    id: str
    rules: tuple[str, ...]


def read_rules(root: pathlib.Path) -> dict[str, str]:
    """The sentences by their ids, read by tb-device's own reader."""
    source = root / PACKAGE / "src" / "tb_device" / "contract" / "rules.py"
    spec = importlib.util.spec_from_file_location("tb_contract_rules", source)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    rules: dict[str, str] = module.read(root / "shared" / "include" / "tb")
    return rules


def _without_comments(text: str) -> str:
    return re.sub(r"^\s*//.*$", "", text, flags=re.MULTILINE)


def read_citations(root: pathlib.Path) -> list[Citation]:
    """The citations of all cases and of tb-device's tests."""
    found = []
    for file in sorted((root / PACKAGE / "contract").rglob("*.cpp")):
        for case in _CASE.finditer(_without_comments(file.read_text())):
            cited = " ".join(re.findall(r'"([^"]*)"', case[3])).split()
            found.append(Citation(str(file.relative_to(root)), f"{case[1]}-{case[2]}", tuple(cited)))
    for file in sorted((root / PACKAGE / "tests").rglob("*")):
        if file.suffix not in (".py", ".c", ".cpp", ".h"):
            continue
        for comment in _CITED.finditer(file.read_text()):
            rules = tuple(comment[1].replace(",", " ").replace("*/", " ").split())
            found.append(Citation(str(file.relative_to(root)), "", rules))
    return found


def check_mutants(root: pathlib.Path, citations: Iterable[Citation]) -> list[str]:
    """Reports mutants that name no case, or a case that does not cite the rule that they break."""
    rules_of = {citation.id: citation.rules for citation in citations if citation.id}
    problems = []
    for file in sorted((root / PACKAGE / "contract").rglob("*.cpp")):
        for name, rule, case in _MUTANT.findall(_without_comments(file.read_text())):
            if case not in rules_of:
                problems.append(f"the mutant {name} is to be caught by {case}, and there is no such case")
            elif rule not in rules_of[case]:
                problems.append(f"the mutant {name} breaks {rule}, which {case} does not cite")
    return problems


def check(root: pathlib.Path) -> list[str]:
    """The problems, one line each."""
    rules, citations = read_rules(root), read_citations(root)
    problems = check_mutants(root, citations)
    cited: set[str] = set()
    places: dict[str, str] = {}
    for citation in citations:
        who = citation.id or "a comment"
        problems += [
            f"{citation.place}: {who} cites {rule}, and no rule has this id"
            for rule in citation.rules
            if rule not in rules
        ]
        cited.update(citation.rules)
        if citation.id and not citation.rules:
            problems.append(f"{citation.place}: {who} cites no rule")
        if citation.id in places:
            problems.append(f"{citation.place}: the id {citation.id} is in {places[citation.id]} already")
        if citation.id:
            places[citation.id] = citation.place
    problems += [
        f"no case and no test cites {rule}: {text}" for rule, text in rules.items() if rule not in cited | CALLERS
    ]
    return problems


def main() -> int:
    """Runs the check; returns 0 if there is no problem."""
    problems = check(ROOT)
    for problem in problems:
        print(problem, file=sys.stderr)
    if problems:
        print(f"{len(problems)} problems. Cite the rule in the TB_CASE or test that proves it", file=sys.stderr)
    return 1 if problems else 0


if __name__ == "__main__":
    raise SystemExit(main())
