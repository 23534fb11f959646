"""Converts docstrings to Markdown. They have plain text, `code`, indented code, >>> examples and "Raises:" parts."""

from __future__ import annotations

import re
from typing import Any

# Characters of plain text that Markdown would take for markup.
_SPECIAL = re.compile(r"[<*]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")


def _escaped(line: str) -> str:
    """The line with markup characters outside of `code` escaped."""
    parts = re.split(r"(`+[^`]*`+)", line)
    return "".join(part if place % 2 else _SPECIAL.sub(lambda m: "\\" + m[0], part) for place, part in enumerate(parts))


def _language(rows: list[str]) -> str:
    """The language of a block of code; "" for prose."""
    return "pycon" if rows[0].startswith(">>>") else "python" if all(row.startswith("    ") for row in rows) else ""


def _text(value: str) -> list[str]:
    lines: list[str] = []
    before = ""
    for block in re.split(r"\n{2,}", value.strip("\n")):
        rows = block.split("\n")
        language = _language(rows)
        shown = [row[4:] for row in rows] if language == "python" else rows
        if not language:
            lines += ["", *map(_escaped, shown)]
        elif language == before:  # the blank line between two blocks of code belongs to the code
            lines[-1:] = ["", *shown, "```"]
        else:
            lines += ["", f"```{language}", *shown, "```"]
        before = language
    return lines[1:]


def markdown(docstring: Any) -> list[str]:
    """The lines of Markdown for a docstring of griffe; none for None."""
    if docstring is None:
        return []
    lines: list[str] = []
    for section in docstring.parse("google"):
        kind = section.kind.value
        if kind == "text":
            lines += ["", *_text(section.value)]
        elif kind == "raises":
            lines += ["", "Raises:", ""]
            lines += [f"- `{one.annotation}`: {_escaped(' '.join(one.description.split()))}" for one in section.value]
        elif kind in ("parameters", "attributes", "other parameters"):
            lines += ["", f"{kind.capitalize()}:", ""]
            lines += [f"- `{one.name}`: {_escaped(' '.join(one.description.split()))}" for one in section.value]
        elif kind in ("returns", "yields"):
            lines += ["", f"{kind.capitalize()}:", ""]
            lines += [f"- {_escaped(' '.join(one.description.split()))}" for one in section.value]
        elif kind == "examples":
            for part, text in section.value:
                lines += ["", *(["```pycon", text, "```"] if part.value == "examples" else _text(text))]
        else:
            lines += ["", *_text(docstring.value)]
            break
    return lines[1:]
