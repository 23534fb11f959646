"""Text for a terminal: lines of bounded width, tables, and commands whose reader may stop reading."""

from __future__ import annotations

import os
import sys
import textwrap
from collections.abc import Callable, Sequence

WIDTH = 120  # columns; a word that is longer, such as a path, stays whole


def fit(text: str, width: int = WIDTH) -> str:
    """The text with its long lines broken between words. The rest of a line is indented by four more columns."""
    return "\n".join(part for line in text.split("\n") for part in _broken(line, width))


def _broken(line: str, width: int) -> list[str]:
    if len(line) <= width:
        return [line]
    indent = line[: len(line) - len(line.lstrip())]
    return textwrap.wrap(
        line,
        width,
        subsequent_indent=indent + "    ",
        break_long_words=False,
        break_on_hyphens=False,
        replace_whitespace=False,
        expand_tabs=False,
    )


def table(rows: Sequence[Sequence[str]], width: int = WIDTH) -> str:
    """Left-aligned columns. A last cell that does not fit beside the others stands below them, indented."""
    widths = [max(len(row[column]) for row in rows) for column in range(len(rows[0]) - 1)]
    start = sum(widths) + 2 * len(widths)
    lines = []
    for *cells, last in rows:
        head = "".join(f"{cell:<{size}}  " for cell, size in zip(cells, widths, strict=True))
        if all(start + len(part) <= width for part in last.split("\n")):
            lines.append((head + last.replace("\n", "\n" + " " * start)).rstrip())
        else:
            lines.append(head.rstrip())
            lines += [fit("      " + part, width) for part in last.split("\n")]
    return "\n".join(lines)


def run(command: Callable[[], int | None]) -> int:
    """The command's exit status. If the reader of its output has gone, as `head` goes, there is no traceback."""
    try:
        status = command() or 0
        sys.stdout.flush()
    except BrokenPipeError:
        # Python flushes standard output once more when it ends.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 141  # as a shell reports the signal SIGPIPE
    return status
