"""Draws architecture.svg, the picture of docs/architecture.md.

`python docs/pictures/architecture.py` writes the file beside this one; `--check` fails if the file there is another.
"""

from __future__ import annotations

import pathlib
import sys
from html import escape

PICTURE = pathlib.Path(__file__).with_suffix(".svg")
WIDTH, HEIGHT = 960, 640
FONT = "font-family='system-ui, sans-serif'"
# Colours of boxes, their edges and their text. Text is dark on a light box, so that the page's colour does not matter.
PYTORCH = ("#eeeeee", "#8a8a8a")
WITH_TORCH = ("#dbe7fb", "#4a74b8")
WITHOUT_TORCH = ("#dcefdc", "#4c8a4c")
DRIVER = ("#fbe8cf", "#b9802f")
BOX_TEXT = "#1b1b1b"
PAGE_TEXT = "#808080"  # readable on white and on black


def box(x: int, y: int, width: int, height: int, colours: tuple[str, str], title: str, *lines: str) -> str:
    fill, edge = colours
    middle = x + width // 2
    first = y + (height - 17 * len(lines)) // 2 + 5
    out = [f"<rect x='{x}' y='{y}' width='{width}' height='{height}' rx='7' fill='{fill}' stroke='{edge}'/>"]
    out.append(
        f"<text x='{middle}' y='{first}' {FONT} font-size='15' font-weight='600' text-anchor='middle' "
        f"fill='{BOX_TEXT}'>{escape(title)}</text>"
    )
    for number, line in enumerate(lines, 1):
        out.append(
            f"<text x='{middle}' y='{first + 17 * number}' {FONT} font-size='12' text-anchor='middle' "
            f"fill='{BOX_TEXT}'>{escape(line)}</text>"
        )
    return "\n".join(out)


def border(y: int, x: int, above: str, below: str) -> str:
    """A dashed line over the whole width: what the boxes above and below it meet through."""
    label = f"{FONT} font-size='12' font-style='italic' fill='{PAGE_TEXT}'"
    return (
        f"<line x1='20' y1='{y}' x2='{WIDTH - 20}' y2='{y}' stroke='{PAGE_TEXT}' stroke-dasharray='7 5'/>\n"
        f"<text x='{x}' y='{y - 7}' {label}>{escape(above)}</text>\n"
        f"<text x='{x}' y='{y + 17}' {label}>{escape(below)}</text>"
    )


def frame(y: int, height: int) -> str:
    """Around a row of boxes that are reached in the same way."""
    return (
        f"<rect x='8' y='{y}' width='{WIDTH - 16}' height='{height}' rx='10' fill='none' stroke='{PAGE_TEXT}' "
        "stroke-width='1.2'/>"
    )


def arrow(x: int, top: int, bottom: int) -> str:
    """Who is above calls what is below."""
    return (
        f"<line x1='{x}' y1='{top}' x2='{x}' y2='{bottom - 7}' stroke='{PAGE_TEXT}' stroke-width='1.6' "
        "marker-end='url(#head)'/>"
    )


def picture() -> str:
    parts = [
        f"<svg xmlns='http://www.w3.org/2000/svg' width='{WIDTH}' height='{HEIGHT}' viewBox='0 0 {WIDTH} {HEIGHT}' "
        "role='img'>",
        "<title>The eight packages of torch-backend and how they meet</title>",
        "<defs><marker id='head' viewBox='0 0 8 8' refX='4' refY='4' markerWidth='7' markerHeight='7' orient='auto'>"
        f"<path d='M0,0 L8,4 L0,8 z' fill='{PAGE_TEXT}'/></marker></defs>",
        box(20, 16, 920, 46, PYTORCH, "PyTorch", "Python, autograd, dispatcher, the allocator and stream interfaces"),
        *(arrow(x, 62, 92) for x in (150, 370, 590, 810)),
        box(
            20,
            92,
            255,
            92,
            WITH_TORCH,
            "torch-backend",
            'torch.device("tb"), torch.tb',
            "plugs the others into PyTorch",
        ),
        box(295, 92, 205, 92, WITH_TORCH, "tb-compile", "torch.compile, captured steps,", "exported programs"),
        box(520, 92, 255, 92, WITH_TORCH, "tb-ops", "the operators of a device,", "the counted CPU fallback"),
        box(795, 92, 145, 92, WITH_TORCH, "tb-amp", "autocast rules,", "gradient scaling"),
        border(222, 346, "built for one minor version of PyTorch", "know nothing of PyTorch"),
        *(arrow(x, 184, 256) for x in (330, 600, 760)),
        box(230, 256, 220, 84, WITHOUT_TORCH, "tb-stream", "streams, events, graphs,", "the current stream"),
        box(470, 256, 220, 84, WITHOUT_TORCH, "tb-allocator", "device and pinned memory,", "reused in stream order"),
        box(710, 256, 230, 84, WITHOUT_TORCH, "tb-generator", "Philox random numbers,", "the same on every machine"),
        *(arrow(x, 340, 378) for x in (340, 580, 825)),
        arrow(120, 184, 378),
        box(
            20,
            378,
            920,
            74,
            WITHOUT_TORCH,
            "tb-device",
            "finds, opens and checks drivers, emulates what they lack, turns status codes into errors",
            "optional layers in front of a driver: validate, leak, trace, fault, serialise",
        ),
        border(
            490,
            24,
            "components above this line meet through function tables in capsules (tb/component.h)",
            "the driver table: one C struct of function pointers (tb/driver.h)",
        ),
        arrow(850, 452, 516),
        frame(516, 112),
        box(20, 526, 170, 92, DRIVER, "cpu", "a worker thread a stream", "runs PyTorch's CPU kernels"),
        box(205, 526, 170, 92, DRIVER, "sim", "hostile on purpose:", "finds missing waits"),
        box(390, 526, 170, 92, DRIVER, "cuda", "NVIDIA's libcuda,", "on the simulation so far"),
        box(575, 526, 170, 92, DRIVER, "npu", "Ascend's CANN,", "on the simulation so far"),
        box(760, 526, 180, 92, DRIVER, "yours", "8 functions, or up to 63,", "in a shared library"),
        "</svg>",
    ]
    return "\n".join(parts) + "\n"


def main() -> int:
    if "--check" in sys.argv[1:]:
        if PICTURE.read_text(encoding="utf-8") == picture():
            return 0
        print(f"{PICTURE.name} is not what {pathlib.Path(__file__).name} draws; run it without --check")
        return 1
    PICTURE.write_text(picture(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
