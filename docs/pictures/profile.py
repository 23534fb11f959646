"""Draws profile.svg, the picture of docs/profiling.md, from the trace of a training step in profile.json.

`python docs/pictures/profile.py` writes the picture beside this file; `--check` fails if the file there is another;
`--record` first profiles the step on tb and replaces profile.json.
"""

from __future__ import annotations

import json
import pathlib
import sys
import tempfile
from html import escape
from typing import Any

PICTURE = pathlib.Path(__file__).with_suffix(".svg")
TRACE = pathlib.Path(__file__).with_suffix(".json")
WIDTH, LEFT, BAR, GAP = 960, 120, 17, 4
FONT = "font-family='system-ui, sans-serif'"
PAGE_TEXT = "#808080"  # readable on white and on black
COLOURS = {
    "user_annotation": "#e7dcf5",
    "gpu_user_annotation": "#e7dcf5",
    "cpu_op": "#dbe7fb",
    "privateuse1_runtime": "#fbe8cf",
    "kernel": "#dcefdc",
}
Row = dict[str, Any]


def record() -> list[Row]:
    """The rows of the quickest of 50 steps, with work on a second stream. Times begin at 0, in microseconds."""
    import torch
    from torch.profiler import profile, record_function

    tb: Any = torch.tb  # type: ignore[attr-defined]
    model = torch.nn.Sequential(torch.nn.Linear(64, 256), torch.nn.GELU(), torch.nn.Linear(256, 8)).to("tb")
    x, side = torch.randn(512, 64, device="tb"), tb.Stream()

    def step() -> None:
        with record_function("forward"):
            out = model(x).softmax(-1)
        side.wait_stream(tb.current_stream())
        with tb.stream(side):
            out.mul(2)
        tb.synchronize()

    def profiled() -> list[Row]:
        with torch.no_grad(), profile() as made:
            step()
        with tempfile.TemporaryDirectory() as folder:
            made.export_chrome_trace(f"{folder}/trace.json")
            return rows_of(json.loads(pathlib.Path(folder, "trace.json").read_text())["traceEvents"])

    return min((profiled() for _ in range(50)), key=lambda rows: max(row["end"] for row in rows))


def rows_of(events: list[Row]) -> list[Row]:
    """What is drawn of a trace: all until shortly after the last kernel."""
    rows = [event for event in events if event["ph"] == "X" and event.get("cat") in COLOURS]
    end = max(row["ts"] + row["dur"] for row in rows if row["cat"] == "kernel")
    start = min(row["ts"] for row in rows)
    return [
        {
            "category": row["cat"],
            "name": row["name"],
            "stream": row["tid"] if row["cat"] in {"kernel", "gpu_user_annotation"} else None,
            "begin": round(row["ts"] - start, 3),
            "end": round(min(row["ts"] + row["dur"], end + 5) - start, 3),
            "correlation": row["args"].get("correlation"),
        }
        for row in sorted(rows, key=lambda row: (row["ts"], -row["dur"]))
        if row["ts"] < end
    ]


def place(rows: list[Row]) -> list[tuple[str, list[tuple[int, Row]]]]:
    """The tracks, each with its rows and their depth: a row is below those that contain it."""
    tracks: dict[str, list[tuple[int, Row]]] = {"host": []}
    open_rows: dict[str, list[float]] = {}
    for row in rows:
        track = "host" if row["stream"] is None else f"stream {row['stream']}"
        ends = open_rows.setdefault(track, [])
        while ends and ends[-1] <= row["begin"] + 1e-3:
            ends.pop()
        tracks.setdefault(track, []).append((len(ends), row))
        ends.append(row["end"])
    return sorted(tracks.items())


def bar(x: float, y: int, width: float, row: Row) -> str:
    out = (
        f"<rect x='{x:.1f}' y='{y}' width='{max(width, 1):.1f}' height='{BAR}' fill='{COLOURS[row['category']]}' "
        "stroke='#8a8a8a' stroke-width='.5'/>"
    )
    shown = row["name"] if len(row["name"]) * 5.6 < width else row["name"][: max(0, int(width / 5.6) - 1)]
    if len(shown) > 3:
        out += f"<text x='{x + 3:.1f}' y='{y + 12}' {FONT} font-size='10' fill='#1b1b1b'>{escape(shown)}</text>"
    return out


def draw() -> str:
    rows: list[Row] = json.loads(TRACE.read_text())
    scale = (WIDTH - LEFT - 10) / max(row["end"] for row in rows)
    out, launches, runs, y = [], {}, {}, 10
    for track, placed in place(rows):
        out.append(f"<text x='8' y='{y + 12}' {FONT} font-size='12' fill='{PAGE_TEXT}'>{track}</text>")
        for depth, row in placed:
            x, top = LEFT + row["begin"] * scale, y + depth * (BAR + 1)
            out.append(bar(x, top, (row["end"] - row["begin"]) * scale, row))
            if row["category"] == "privateuse1_runtime":
                launches[row["correlation"]] = (x, top + BAR)
            elif row["category"] == "kernel":
                runs[row["correlation"]] = (x, top)
        y += (1 + max(depth for depth, _ in placed)) * (BAR + 1) + 22
    for number, (x, top) in runs.items():
        if number in launches:
            from_x, from_y = launches[number]
            out.append(
                f"<path d='M{from_x:.1f} {from_y} C{from_x:.1f} {from_y + 20} {x:.1f} {top - 20} {x:.1f} {top}' "
                f"fill='none' stroke='{PAGE_TEXT}' stroke-width='.8'/>"
            )
    head = f"<svg xmlns='http://www.w3.org/2000/svg' viewBox='0 0 {WIDTH} {y}' width='{WIDTH}' height='{y}'>"
    return "\n".join([head, *out, "</svg>"]) + "\n"


def main() -> int:
    if "--record" in sys.argv:
        TRACE.write_text(json.dumps(record(), indent=0) + "\n")
    picture = draw()
    if "--check" in sys.argv:
        if PICTURE.read_text() == picture:
            return 0
        print(f"{PICTURE.name} is stale: run python docs/pictures/{pathlib.Path(__file__).name}")
        return 1
    PICTURE.write_text(picture)
    return 0


if __name__ == "__main__":
    sys.exit(main())
