"""The Python examples of a page: what readers run.

An example is fenced as ```python. One that needs more than the package of its README says so behind the language, which
readers of the page do not see: ```python with torch-backend. Examples that need a GPU are fenced as ```py.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

_FENCE = re.compile(r"^```python(?: with ([a-z0-9-]+(?:, [a-z0-9-]+)*))?\n(.*?)^```", re.DOTALL | re.MULTILINE)


@dataclass(frozen=True)
class Example:
    number: int
    """The position in its page, from 1 on."""
    code: str
    needs: tuple[str, ...]
    """Projects that have to be installed as well."""


def examples(page: str) -> list[Example]:
    found = _FENCE.findall(page)
    return [
        Example(number, code, tuple(needs.split(", ")) if needs else ())
        for number, (needs, code) in enumerate(found, 1)
    ]
