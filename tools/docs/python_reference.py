"""Reference pages of the Python modules, from the docstrings of the sources and the stubs of the extensions.

Nothing is imported: griffe reads packages/*/src. Each name of `__all__` becomes an entry of the search and the index.
checks.py compares the entries with the names that public_names.py finds in the installed modules.
"""

from __future__ import annotations

import pathlib
import re
from collections.abc import Iterable, Iterator
from typing import Any

import griffe

from docs import DocsError
from docs.docstrings import markdown
from docs.modules import MODULES

TITLES = {"exceptions": "Exceptions", "classes": "Classes", "functions": "Functions", "values": "Values"}


class Sources:
    """The packages as griffe reads them."""

    def __init__(self, root: pathlib.Path) -> None:
        folders = sorted((root / "packages").glob("*/src"))
        loader = griffe.GriffeLoader(search_paths=[str(folder) for folder in folders], allow_inspection=False)
        for folder in folders:
            for package in folder.glob("*/__init__.py"):
                loader.load(package.parent.name, submodules=True)
        loader.resolve_aliases(implicit=False, external=False)
        self._modules = loader.modules_collection

    def module(self, path: str) -> Any:
        return self._modules[path]

    def exported(self, module: Any) -> dict[str, Any]:
        """The object of each name of `__all__`, with re-exports resolved."""
        if module.exports is None:
            raise DocsError(f"{module.path} has no __all__: its public names are unknown")
        found = {}
        for name in map(str, module.exports):
            thing = module.members.get(name)
            if thing is None:
                raise DocsError(f"{module.path}.__all__ has {name}, which the module does not define")
            # `from .step import step` in a package with a module step: griffe keeps the module.
            if thing.kind is griffe.Kind.MODULE and name in module.imports and module.imports[name] != thing.path:
                thing = self._modules[module.imports[name]]
            found[name] = thing.final_target if thing.is_alias else thing
        return found


def _kind(name: str, thing: Any) -> str:
    if thing.kind is griffe.Kind.CLASS:
        return "exceptions" if name.endswith("Error") or name == "Error" else "classes"
    return "functions" if thing.kind is griffe.Kind.FUNCTION else "values"


def _directive(depth: int, kind: str, signature: str, options: Iterable[str], body: Iterable[str]) -> list[str]:
    """A directive of Sphinx's Python domain. An outer directive has a longer fence than an inner one."""
    fence = ":" * (8 - depth)
    return ["", f"{fence}{{py:{kind}}} {signature}", *options, "", *body, fence]


def _function(depth: int, kind: str, name: str, thing: Any) -> list[str]:
    options = [f":{label}:" for label in ("staticmethod", "classmethod") if label in thing.labels and kind == "method"]
    shown = (
        [thing.signature(name=name)] if not thing.overloads else [one.signature(name=name) for one in thing.overloads]
    )
    # Further signatures of a directive follow on their own lines, aligned with the first.
    head, *others = [" ".join(str(one).split()) for one in shown]
    lines = _directive(depth, kind, head, options, markdown(thing.docstring))
    return [*lines[:2], *others, *lines[2:]] if others else lines


def _value(depth: int, kind: str, name: str, thing: Any) -> list[str]:
    options = [f":type: {thing.annotation}"] if thing.annotation is not None else []
    return _directive(depth, kind, name, options, markdown(thing.docstring))


def _members(thing: Any) -> Iterator[tuple[str, Any]]:
    """Yields public members, and special methods that have a docstring."""
    for name, member in thing.members.items():
        if member.is_alias or name == "__init__" or (name.startswith("_") and not name.startswith("__")):
            continue
        if member.kind is griffe.Kind.ATTRIBUTE and member.labels == {"instance-attribute"} and not member.annotation:
            continue  # assigned in __init__ and nowhere declared
        if member.docstring or not name.startswith("__"):
            yield name, member


def _class(depth: int, name: str, thing: Any) -> list[str]:
    body = markdown(thing.docstring)
    bases = [str(base) for base in thing.bases if not str(base).startswith("Generic[")]
    if bases:
        body += ["", f"Bases: {', '.join(f'`{base}`' for base in bases)}"]
    constructor = thing.members.get("__init__")
    if constructor is not None and constructor.docstring:
        body += ["", *markdown(constructor.docstring)]
    for member_name, member in _members(thing):
        if member.kind is griffe.Kind.FUNCTION:
            body += _function(depth + 1, "method", member_name, member)
        elif member.kind is griffe.Kind.ATTRIBUTE:
            kind = "property" if "property" in member.labels else "attribute"
            body += _value(depth + 1, kind, member_name, member)
    signature = name
    if constructor is not None and "dataclass" not in thing.labels:  # whose fields follow
        signature = re.sub(r" -> None$", "", str(constructor.signature(name=name)))
    kind = "exception" if _kind(name, thing) == "exceptions" else "class"
    return _directive(depth, kind, signature, [], body)


def entry(name: str, thing: Any) -> list[str]:
    if thing.kind is griffe.Kind.CLASS:
        return _class(1, name, thing)
    if thing.kind is griffe.Kind.FUNCTION:
        return _function(1, "function", name, thing)
    return _value(1, "data", name, thing)


def _grouped(module: Any, exported: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Sections: by kind; in torch.tb by the module that defines the name, since its modules are topics."""
    sections: dict[str, dict[str, Any]] = {}
    by_topic = module.path == "torch_backend.device_module"
    if not by_topic:
        sections = {title: {} for title in TITLES.values()}
    for name, thing in sorted(exported.items(), key=lambda item: item[0].lower()):
        if thing.kind is griffe.Kind.MODULE:
            continue  # listed as a module of its own
        title = TITLES[_kind(name, thing)]
        if by_topic:
            topic = thing.parent.path.removeprefix(module.path).strip(".")
            title = topic.capitalize() if topic else "State"
        sections.setdefault(title, {})[name] = thing
    titles = sorted(sections) if by_topic else sections
    return {title: sections[title] for title in titles if sections[title]}


def _module(sources: Sources, shown: str, level: int) -> list[str]:
    path, further = MODULES[shown]
    module = sources.module(path)
    lines = [f"{'#' * level} {shown}", "", f"```{{py:module}} {shown}", "```", "", *markdown(module.docstring)]
    for title, names in _grouped(module, sources.exported(module)).items():
        lines += ["", f"{'#' * (level + 1)} {title}"]
        for name, thing in names.items():
            lines += entry(name, thing)
    for other in further:
        lines += ["", *_module(sources, other, level + 1)]
    return lines


def write_reference(root: pathlib.Path, folder: pathlib.Path) -> None:
    """One page a module, below `folder`/reference."""
    sources = Sources(root)
    inner = {name for _, further in MODULES.values() for name in further}
    (folder / "reference").mkdir(parents=True, exist_ok=True)
    for shown in MODULES:
        if shown not in inner:
            text = "\n".join(_module(sources, shown, 1)) + "\n"
            (folder / "reference" / f"{shown}.md").write_text(text, encoding="utf-8")
