"""Lists the public names of the installed packages: `python -m docs.public_names FILE.json`. Needs all packages.

Writes qualified name -> whether it is described. A name is public if `__all__` has it, or if it is a member, without a
leading underscore, of a class in `__all__`. For special methods, which a page need not list, the value is null.
"""

from __future__ import annotations

import importlib
import inspect
import json
import pathlib
import re
import sys
from typing import Any

import torch

from docs.modules import MODULES

# These need a package that is not installed here. Their docstrings are taken from the sources.
NEEDS_ANOTHER_PACKAGE = {"tb_allocator.cupy_allocator", "tb_allocator.cupy_pinned_allocator"}


def _module(name: str) -> Any:
    if not name.startswith("torch."):
        return importlib.import_module(name)
    found: Any = torch
    for part in name.split(".")[1:]:
        found = getattr(found, part)
    return found


def _is_plain_value(thing: object) -> bool:
    return not (
        inspect.isroutine(thing) or inspect.isclass(thing) or inspect.isdatadescriptor(thing) or callable(thing)
    )


def _described(thing: Any) -> bool:
    """Whether there is a docstring. nanobind's docstrings begin with signatures, which do not count."""
    text = (getattr(thing, "__doc__", None) or "").strip()
    if type(thing).__name__ in ("nb_func", "nb_method"):
        text = text.partition("\n\n")[2].strip()
    return bool(text) and not re.fullmatch(r"\(self.*\) -> .*", text)


def _members(kind: type) -> dict[str, bool | None]:
    """The members that the class itself defines, or only annotates."""
    fields = set(getattr(kind, "_fields", ())) | set(getattr(kind, "__dataclass_fields__", ()))
    found: dict[str, bool | None] = {}
    for name in set(vars(kind)) | set(inspect.get_annotations(kind)) | fields:
        value = vars(kind).get(name)
        # The names of __slots__ are fields as well.
        field = name in fields or _is_plain_value(value) or inspect.ismemberdescriptor(value)
        if name.startswith("__"):
            found[name] = None
        elif not name.startswith("_"):
            found[name] = field or _described(value)
    return found


def public_names() -> dict[str, bool | None]:
    names: dict[str, bool | None] = {}
    for shown in MODULES:
        module = _module(shown)
        names[shown] = bool(module.__doc__)
        for name in module.__all__:
            whole = f"{shown}.{name}"
            if whole in NEEDS_ANOTHER_PACKAGE:
                names[whole] = True
                continue
            thing = getattr(module, name)
            names[whole] = _is_plain_value(thing) or _described(thing)
            if inspect.isclass(thing):
                # A dataclass or NamedTuple without a docstring gets its signature as one.
                names[whole] = _described(thing) and not (thing.__doc__ or "").startswith(f"{thing.__name__}(")
                names |= {f"{whole}.{member}": described for member, described in _members(thing).items()}
    return names


def main(arguments: list[str]) -> int:
    [path] = arguments
    pathlib.Path(path).write_text(json.dumps(public_names(), indent=1))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
