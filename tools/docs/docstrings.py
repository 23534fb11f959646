"""A docstring as Markdown. Ours are plain text with `code`, indented code, examples with >>>, and "Raises:" parts."""

from __future__ import annotations

import re
from typing import Any

# What plain text may have that Markdown would take for markup.
_SPECIAL = re.compile(r"[<*]|(?<![A-Za-z0-9])_|_(?![A-Za-z0-9])")


def _escaped(line: str) -> str:
    """The line with markup characters outside of `code` escaped."""
    parts = re.split(r"(`+[^`]*`+)", line)
    return "".join(part if place % 2 else _SPECIAL.sub(lambda m: "\\" + m[0], part) for place, part in enumerate(parts))


def _text(value: str) -> list[str]:
    lines: list[str] = []
    for block in re.split(r"\n{2,}", value.strip("\n")):
        rows = block.split("\n")
        if rows[0].startswith(">>>"):
            lines += ["", "```pycon", *rows, "```"]
        elif all(row.startswith("    ") for row in rows):
            lines += ["", "```python", *(row[4:] for row in rows), "```"]
        else:
            lines += ["", *map(_escaped, rows)]
    return _joined(lines)


def _joined(lines: list[str]) -> list[str]:
    """Neighbouring blocks of indented code are one, with the blank line between them."""
    text = "\n".join(lines).replace("\n```\n\n```python\n", "\n\n").replace("\n```\n\n```pycon\n", "\n\n")
    return text.strip("\n").split("\n")


def markdown(docstring: Any) -> list[str]:
    """The lines of a griffe docstring, or of none."""
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
