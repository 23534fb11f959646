"""The pages of docs/results, each from the results of its command (`--page FILE`)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from benchmarks.page import Table, page
from benchmarks.sweep.rows import FASTER, SLOWER

Results = Mapping[str, Any]


def _number(value: float | None, digits: int) -> str:
    return "" if value is None else f"{value:.{digits}f}"


def _percent(share: float) -> str:
    return f"{100 * share:.2f} %"


def _met(aims: Sequence[Results], name: str) -> list[str]:
    """Notes on how many aims are met, and which are not. `name`: the key under which an aim has its text."""
    judged = [aim for aim in aims if aim["met"] is not None]
    unmeasured = [aim[name] for aim in aims if aim["met"] is None]
    notes = [f"{sum(bool(aim['met']) for aim in judged)} of {len(judged)} aims met"]
    notes += [f"not met: {aim[name]}" for aim in judged if not aim["met"]]
    return notes + [f"not measured here: {text}" for text in unmeasured]


def _aim(aim: Results) -> str:
    return f"{aim['name']}, threads {aim['threads']}: {aim['found']:.3f} of {aim['against']}, aim {aim['bound']}"


SINGLE_COLUMNS = ["family", "operator", "elements", "threads", "stock cpu, us", "tb, us", "tb/cpu"]


def _single(row: Results) -> list[object]:
    """The cells of a row of the sweep."""
    times = [f"{row[key]:.2f}" for key in ("stock_us", "tb_us", "ratio")]
    return [row["family"], f"`{row['name']}`", f"{row['elements']:,}", row["threads"], *times]


def operators_and_steps(report: Results) -> str:
    """The page of `nox -s bench`. report: its JSON."""
    columns = [
        "",
        "threads",
        "tb, us",
        "stock cpu, us",
        "cpu, 1 thread",
        "tb/cpu",
        "to the better",
        "least",
        "greatest",
    ]
    rows = []
    for row in report["rows"]:
        digits = 0 if row["kind"] == "step" else 2
        times = [f"{row[key]:.{digits}f}" for key in ("tb_us", "cpu_us", "cpu_one_thread_us")]
        ratios = [f"{row[key]:.2f}" for key in ("ratio", "ratio_to_better", "ratio_least", "ratio_greatest")]
        rows.append([row["name"], row["threads"], *times, *ratios])
    aims = [{**aim, "text": _aim(aim)} for aim in report["aims"]]
    text = (
        "Host time of a call for operators on one element, whole training steps for models; medians of interleaved "
        'rounds. "To the better": to the faster of stock cpu\'s two settings of threads.'
    )
    tables = [Table(columns, rows, text)]
    if report.get("sweep"):
        text = (
            "Some operators of `nox -s bench -- --sweep`, each called for some milliseconds and then waited for once."
        )
        tables.append(Table(SINGLE_COLUMNS, [_single(row) for row in report["sweep"]], text))
    return page("Operators and training steps", "nox -s bench", tables, _met(aims, "text"))


def graphs(rows: Sequence[Results], aim: float) -> str:
    """The page of `nox -s bench-graphs`. rows: its JSON."""
    listed = [
        [row["name"], f"{row['eager']:.3f}", f"{row['replay']:.3f}", f"{row['ratio']:.2f}", row["operations"]]
        for row in rows
    ]
    text = (
        "A training step run eagerly without waiting, and as a replay of the captured step; losses are bit-identical."
    )
    table = Table(["step", "eager, ms", "replay, ms", "replay/eager", "operations"], listed, text)
    aims = [{"met": row["ratio"] <= aim, "text": f"{row['name']}: {row['ratio']:.2f}, aim {aim}"} for row in rows]
    return page("Device graphs", "nox -s bench-graphs", [table], _met(aims, "text"))


def distributed(report: Results) -> str:
    """The page of `nox -s bench-distributed`. report: its JSON."""
    steps = [
        [row["name"], *(f"{row[key]:.2f}" for key in ("cpu_ms", "tb_ms", "ratio", "least", "greatest"))]
        for row in report["steps"]
    ]
    text = (
        f"A step under `DistributedDataParallel` on {report['ranks']} ranks, one thread each; both devices in the same "
        "processes. Medians of interleaved blocks; the ratio is that of neighbouring blocks."
    )
    tables = [Table(["step", "cpu with gloo, ms", "tb, ms", "tb/cpu", "least", "greatest"], steps, text)]
    calls = [
        [row["name"], way, f"{value:.0f}"] for row in report["calls"] for way, value in row["microseconds"].items()
    ]
    tables.append(Table(["call", "way", "us"], calls, "Calls; medians of interleaved blocks."))
    overlap = report["overlap"]
    notes = [f"losses of {row['name']} {'are equal' if row['equal'] else 'differ'}" for row in report["steps"]]
    notes.append(
        f"a step of {overlap['name']}: {overlap['collectives']:.0f} collectives of {overlap['collectives_ms']:.2f} ms, "
        f"{overlap['overlapped']:.0%} of it beside kernels; the stream waits {overlap['waits_ms']:.2f} ms for them"
    )
    return page("Distributed training", "nox -s bench-distributed", tables, notes)


def profiler(rows: Sequence[Results], sets: int, aim: str) -> str:
    """The page of `nox -s bench-profiler`. rows: its JSON. sets: processes of each way."""
    listed = [[row["width"], row["way"], f"{row['microseconds']:.0f}", f"{row['ratio']:.2f}"] for row in rows]
    text = (
        f"A training step of an MLP. Each way has {sets} processes, which take turns with those of the other ways; "
        "medians. *again*: a second process that has never profiled; ratios are to the mean of both. *off*: one that "
        "has profiled before; *host*, *device* and *both*: the activities of the `torch.profiler.profile` that runs."
    )
    table = Table(["width", "profiler", "us", "ratio"], listed, text)
    return page("The profiler", "nox -s bench-profiler", [table], [aim])


def compiled(rows: Sequence[Results], ways: Sequence[str], met: Sequence[bool]) -> str:
    """The page of `nox -s bench-compile`. rows: its JSON. met: whether each row meets its aim."""
    columns = ["a training step", "threads", *(f"{way}, us" for way in ways), "host, us", "captured to cpu compiled"]
    columns += ["to cpu plain"]
    listed = []
    for row in rows:
        times = [_number(row["microseconds"][way], 0) for way in ways]
        ratios = [_number(row[key], 2) for key in ("to_cpu_compiled", "to_cpu_plain")]
        listed.append([row["name"], row["threads"], *times, _number(row["host"], 1), *ratios])
    aims = [
        {
            "met": good,
            "text": f"{row['name']}: {row['to_cpu_compiled']:.2f}, aim {row['aim']}; host {row['host']:.1f} us",
        }
        for row, good in zip(rows, met, strict=True)
    ]
    text = (
        '*captured* is `tb_compile.step`, *graphs* `backend="tb"` with `mode="reduce-overhead"`, *compiled* '
        "`torch.compile(model)`; *host* is the calling thread's part of a captured step."
    )
    return page(
        "Compiled and captured steps", "nox -s bench-compile", [Table(columns, listed, text)], _met(aims, "text")
    )


def _trace(name: str) -> str:
    return Path(name).name.removesuffix(".txt.xz").removeprefix("generate:")


def allocator(report: Results) -> str:
    """The page of `nox -s bench-allocator`. report: its JSON. Without measured peers it has no tables against them."""
    traces, plans = [], []
    for name, one in report["traces"].items():
        missed = ", ".join(step for step, done in one["ladder"].items() if not done) or "none"
        figures = [_percent(one["utilisation"]), _number(one["nanoseconds_per_event"], 1)]
        calls = [_number(one["memory_calls_per_event"], 4), one["synchronisations"]]
        traces.append([_trace(name), *figures, *calls, missed])
        plan = one["plan"]
        figures = [_percent(plan["utilisation"]), _number(plan["nanoseconds_per_event"], 1)]
        plans.append([_trace(name), *figures, sum(plan["calls"].values()), plan["memory_calls"]])
    pinned = []
    for name, one in report["pinned"].items():
        first, *_, last = one["calls_per_event"]
        figures = [_number(one["waste"], 3), _number(one["nanoseconds_per_event"], 1)]
        pinned.append([_trace(name), *figures, _number(first, 4), _number(last, 4)])
    columns = ["trace", "utilisation", "ns an event", "driver calls an event", "waits of the host"]
    tables = [
        Table([*columns, "capacities (x live peak) that do not complete"], traces, "Device memory, in virtual pages."),
        Table(["trace", "utilisation", "ns an event", "calls", "calls about memory"], plans, "Planned steps."),
        Table(["trace", "waste", "ns an event", "calls an event, first", "last"], pinned, "Pinned memory."),
    ]
    for title, results, key in _times(report.get("times")):
        programs = list(next(iter(results.values())))
        rows = [
            [_trace(name), *(_number(one.get(program, {}).get(key), 1) for program in programs)]
            for name, one in results.items()
        ]
        tables.append(Table(["", *programs], rows, title))
    counted = (report.get("times") or {}).get("instructions", {})
    if counted:
        rows = [[_trace(name), _number(count, 0)] for name, count in counted.items()]
        tables.append(Table(["trace", "instructions an event"], rows, "The emulated driver's included."))
    return page("tb-allocator", "nox -s bench-allocator", tables, _met(report["acceptance"], "promise"))


def _times(times: Results | None) -> list[tuple[str, Results, str]]:
    """The tables against the peers: (title, results by row and program, key of the figure)."""
    if not times:
        return []
    programs = times["pairs"]
    rows: dict[str, dict[str, dict[str, float]]] = {}
    for program, figures in programs.items():
        for name, value in figures.items():
            rows.setdefault(name, {})[program] = {"ns": value}
    replays = ("Nanoseconds an event, against the peers.", times["replays"], "nanoseconds_per_event")
    return [replays, ("Nanoseconds of an allocation with its free.", rows, "ns")]


def generator(rows: Results) -> str:
    """The page of `nox -s bench-generator`. rows: its JSON."""
    names = list(next(iter(rows.values()))["nanoseconds"]) if rows else []
    peers = (*names[1:2], "NumPy")
    listed = []
    for name, row in rows.items():
        times = [_number(row["nanoseconds"].get(who), 2) for who in names]
        listed.append([name, *times, *(_number(row["times"].get(who), 1) for who in peers)])
    columns = ["", *names, *(f"times faster than {who}" for who in peers)]
    aims = [
        {"met": row["met"][who], "text": f"{name}: {row['times'][who]:.1f} times as fast as {who}, aim {aim:g}"}
        for name, row in rows.items()
        for who, aim in row["aims"].items()
    ]
    table = Table(columns, listed, "One thread, nanoseconds an element.")
    return page("tb-generator", "nox -s bench-generator", [table], _met(aims, "text"))


def statistics(found: Mapping[str, Mapping[str, float]], samples: int, failed: Sequence[str]) -> str:
    """The page of `nox -s check-statistics`. found: statistics of each distribution. failed: also dieharder's."""
    columns = ("moments", "chi-square", "distance")
    rows = [[name, *(f"{one[what]:+.2f}" if what in one else "" for what in columns)] for name, one in found.items()]
    text = (
        f"{samples:,} samples each, a fixed seed. Moments and chi-square in standard deviations (the worst of four "
        "moments; limit 4.5), and Kolmogorov-Smirnov's distance times the root of the number of samples (limit 2.2)."
    )
    notes = [f"failed: {text}" for text in failed] or ["nothing failed"]
    return page("Statistics of tb-generator", "nox -s check-statistics", [Table(["", *columns], rows, text)], notes)


def demo(result: Results, held_out: float) -> str:
    """The page of `nox -s demo`. result: its JSON. held_out: the loss on held-out files."""

    def time(value: float | None) -> str:
        return "not timed" if value is None else f"{value:.2f}"

    last = len(result["tb_losses"])
    rows: list[list[object]] = [
        ["step time, ms", time(result["tb_step_ms"]), time(result["cpu_step_ms"]), time(result["ratio"])],
        ["loss, step 1", f"{result['tb_losses'][0]:.5f}", f"{result['cpu_losses'][0]:.5f}", ""],
        [f"loss, step {last}", f"{result['tb_losses'][-1]:.5f}", f"{result['cpu_losses'][-1]:.5f}", ""],
        [f"loss, step {result['steps']}", f"{result['loss_last']:.5f}", "", ""],
        ["loss on held-out files", f"{held_out:.5f}", "", ""],
        ["byte-unigram entropy", f"{result['unigram_entropy']:.5f}", "", ""],
        ["peak memory, MiB", f"{result['peak_bytes'] / 2**20:.1f}", "", ""],
        ["operators that fell back", len(result["fallbacks"]), "", ""],
    ]
    table = Table(["", f"tb ({result['driver']})", "stock cpu", "tb/cpu"], rows)
    return page("The demo", "nox -s demo", [table], [f"{result['steps']} steps, all in {result['seconds']:.0f} s"])


def fuzz(summary: str, seed: int, seconds: float) -> str:
    """The page of `nox -s fuzz`. summary: the line that it prints."""
    table = Table(["run", "figure"], [[f"seed {seed}", summary], ["seconds", f"{seconds:.1f}"]])
    return page("Random operator programs", "nox -s fuzz", [table])


def sweep(report: Results) -> str:
    """The page of `nox -s bench -- --sweep`. report: its JSON, whose rows have the greatest ratio first."""
    columns = ["elements", "threads", "lines", "geometric mean", f"slower than {SLOWER}", f"faster than {FASTER}"]
    text = (
        "Each line is an operator on a number of elements, called for some milliseconds and then waited for once. "
        "Stock cpu has a process of its own, without tb, and the two take turns. Ratios are tb/cpu, medians of rounds; "
        "a line counts as slower or faster if it is so in every round."
    )
    sizes = [
        [f"{one['elements']:,}", one["threads"], one["lines"], f"{one['mean']:.3f}", one["slower"], one["faster"]]
        for one in report["summary"]
    ]
    tables = [Table(columns, sizes, text)]
    families: dict[str, list[float]] = {}
    for row in report["rows"]:
        families.setdefault(row["family"], []).append(row["ratio"])
    means = sorted(((geometric_mean(ratios), name, len(ratios)) for name, ratios in families.items()), reverse=True)
    listed = [[name, lines, f"{mean:.3f}"] for mean, name, lines in means]
    tables.append(Table(["family", "lines", "geometric mean"], listed, "All sizes and both settings of threads."))
    slow = [[*_single(row), ", ".join(row["fallbacks"])] for row in report["rows"] if row["slower"] or row["fallbacks"]]
    text = f"Lines that are slower than {SLOWER} in every round, and those of operators that fall back to the CPU."
    tables.append(Table([*SINGLE_COLUMNS, "falls back"], slow, text))
    aims = [{**aim, "text": f"{aim['name']}: {aim['found']:.2f}, aim {aim['bound']}"} for aim in report["aims"]]
    notes = [
        *_met(aims, "text"),
        *(f"`{name}` may be slow: {reason}" for name, reason in report["reasons"].items()),
        *(f"failed: {one['name']}: {one['error']}" for one in report["failed"]),
        f"{len(report['rows'])} lines in {report['seconds']:.0f} s",
    ]
    return page("Single operators", "nox -s bench -- --sweep", tables, notes)
