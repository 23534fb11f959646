"""A part of a page that a command writes, between two lines that mark it."""

from __future__ import annotations


def replaced(page: str, begin: str, end: str, part: str) -> str:
    """The page with this part between its markers. ValueError: it lacks them."""
    before, _, rest = page.partition(begin)
    _, found, after = rest.partition(end)
    if not found:
        raise ValueError(f"the lines '{begin}' and '{end}' are not there")
    return f"{before}{begin}\n\n{part}\n\n{end}{after}"
