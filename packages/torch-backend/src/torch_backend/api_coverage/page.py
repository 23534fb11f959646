"""The page of some reports: what is native everywhere in a paragraph for each module, the other names in a table.

`python -m torch_backend.api_coverage.page REPORT... PAGE` writes the page with a column for each report.
"""

from __future__ import annotations

import json
import pathlib
import sys
import textwrap
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from torch_backend.api_coverage.names import MODULES
from torch_backend.api_coverage.state import (
    FALLBACK,
    MEANINGS,
    NATIVE,
    NO_DEVICE,
    NOT_ON_THE_CPU,
    NOT_TRIED,
    TRIED,
    State,
)
from torch_backend.conformance.page import cell

Report = Mapping[str, Any]
WIDTH = 130
INTRODUCTION = (
    "Every public name of these modules, by a run on the device beside the CPU: the samples of PyTorch's own databases "
    "of operators, modules and optimizers, in one dtype, single precision where there is a choice, or a short program "
    "for what they lack. `python -m torch_backend.api_coverage` makes this page for any driver; nothing in it is "
    "written by hand. Other dtypes, shapes, layouts and errors are what `python -m torch_backend.conformance` runs."
)
READING = (
    "The states of modules and optimizers are of results, gradients and steps together. Operators in brackets are "
    "PyTorch's own names, of the namespace `aten`."
)
MOST_OPERATORS = 4  # that a cell of the table names


def _driver(report: Report) -> str:
    return str(report.get("driver") or report["device"])


def _run(report: Report) -> str:
    gradients = [entry["gradients"]["state"] for entry in report["names"].values() if "gradients" in entry]
    return (
        f"- {_driver(report)}: torch {report['torch']}, {report['date']}, {report['seconds']} s. Gradients of "
        f"{len(gradients)} functions and methods were computed, {gradients.count(NATIVE)} natively."
    )


def _shown(state: State) -> str:
    """A state with its operators, without their overloads, or with what went wrong."""
    names = list(dict.fromkeys(operator.partition(".")[0] for operator in state.operators))
    if state.name == FALLBACK:
        more = f", {len(names) - MOST_OPERATORS} more" if len(names) > MOST_OPERATORS else ""
        return f"{state.name} ({', '.join(f'`{name}`' for name in names[:MOST_OPERATORS])}{more})"
    return f"{state.name}: {cell(state.text)}" if state.text and state.name in TRIED else state.name


def _cell(entry: Mapping[str, Any] | None) -> str:
    """What a report says of a name. Gradients are named if their state or their operators are others."""
    if entry is None:
        return "not there"
    own = State.from_json(entry)
    if "gradients" not in entry:
        return _shown(own)
    gradients = State.from_json(entry["gradients"])
    if gradients.name == NATIVE == own.name or _shown(gradients) == _shown(own):
        return _shown(own)
    return f"{_shown(own)}; gradients: {_shown(gradients)}"


def _state(report: Report, path: str) -> str:
    return str(report["names"].get(path, {}).get("state", NOT_TRIED))


def _paragraph(title: str, paths: Sequence[str]) -> list[str]:
    if not paths:
        return []
    names = ", ".join(path.rpartition(".")[2] for path in paths)
    return [*textwrap.wrap(f"*{title}* ({len(paths)}): {names}", WIDTH, break_on_hyphens=False), ""]


def _module(module: str, reports: Sequence[Report], paths: Sequence[str]) -> Iterator[str]:
    """A section. Names that no report has tried are in paragraphs by the first report's state."""
    with_gradients: list[str] = []
    native: list[str] = []
    untried: dict[str, list[str]] = {NOT_TRIED: [], NOT_ON_THE_CPU: [], NO_DEVICE: []}
    rows: dict[tuple[str, ...], list[str]] = {}
    for path in paths:
        cells = tuple(_cell(report["names"].get(path)) for report in reports)
        if set(cells) == {NATIVE}:
            gradients = any("gradients" in report["names"][path] for report in reports)
            (with_gradients if gradients else native).append(path)
        elif len(set(cells)) == 1 and cells[0] in untried:
            untried[cells[0]].append(path)
        else:
            rows.setdefault(cells, []).append(path)
    yield from (f"## {module}", "")
    yield from _paragraph("native, and so are the gradients", with_gradients)
    yield from _paragraph("native", native)
    if rows:
        yield from (f"| name | {' | '.join(map(_driver, reports))} |", f"| --- |{' --- |' * len(reports)}")
        for cells, those in rows.items():
            yield f"| {', '.join(path.rpartition('.')[2] for path in those)} | {' | '.join(cells)} |"
        yield ""
    for title, those in untried.items():
        yield from _paragraph(title, those)


def _totals(reports: Sequence[Report]) -> Iterator[str]:
    yield f"| state | {' | '.join(map(_driver, reports))} | means |"
    yield f"| --- |{' ---: |' * len(reports)} --- |"
    for name, meaning in MEANINGS.items():
        numbers = [report["counts"].get(name, 0) for report in reports]
        if any(numbers):
            yield f"| {name} | {' | '.join(map(str, numbers))} | {meaning} |"
    yield f"| all names | {' | '.join(str(len(report['names'])) for report in reports)} | |"


def _by_module(reports: Sequence[Report], modules: Mapping[str, Sequence[str]]) -> Iterator[str]:
    yield f"| module | names | concern a device | {' | '.join(f'native on {_driver(report)}' for report in reports)} |"
    yield f"| --- | ---: | ---: |{' ---: |' * len(reports)}"
    for module, paths in modules.items():
        concerned = [path for path in paths if _state(reports[0], path) not in (NO_DEVICE, NOT_ON_THE_CPU)]
        native = [sum(_state(report, path) == NATIVE for path in paths) for report in reports]
        yield f"| {module} | {len(paths)} | {len(concerned)} | {' | '.join(map(str, native))} |"


def page(reports: Sequence[Report]) -> str:
    """The page.

    Raises:
        ValueError: there is no report, or one without a name that ran.
    """
    if not reports or not all(any(_state(one, path) in TRIED for path in one["names"]) for one in reports):
        raise ValueError("a report has no name that ran: run python -m torch_backend.api_coverage for all names")
    every = dict.fromkeys(path for report in reports for path in report["names"])
    modules = {module: [path for path in every if path.rpartition(".")[0] == module] for module in MODULES}
    modules = {module: paths for module, paths in modules.items() if paths}
    lines = [
        "# What of PyTorch works",
        "",
        *textwrap.wrap(INTRODUCTION, WIDTH),
        "",
        *map(_run, reports),
        "",
        *_totals(reports),
        "",
        *textwrap.wrap(READING, WIDTH),
        "",
        *_by_module(reports, modules),
        "",
    ]
    for module, paths in modules.items():
        lines += _module(module, reports, paths)
    return "\n".join(lines).rstrip() + "\n"


def main(arguments: Sequence[str]) -> int:
    """Writes the page of some reports."""
    *reports, file = map(pathlib.Path, arguments)
    try:
        file.write_text(page([json.loads(report.read_text()) for report in reports]))
    except (ValueError, OSError) as error:
        print(f"the page cannot be written: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
