"""Which virtual functions of PyTorch our classes override, and the check that the others are left out on purpose.

not_overridden.toml lists these. An entry has the classes of ours (`classes`), the functions (`functions`, as the check
prints them), a sentence (`reason`), and, where not every supported version has the functions, the first (`since`) or
the last (`until`) minor version that has them.
"""

from __future__ import annotations

import pathlib
import re
import tomllib
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from drift import headers
from drift.facts import Facts, Interface
from drift.interfaces import FORWARDERS, HEADERS, NAMESPACES, resolve

TABLE = pathlib.Path(__file__).with_name("not_overridden.toml")


@dataclass(frozen=True)
class Subclass:
    """A class of ours that derives from one of PyTorch."""

    name: str
    file: str
    bases: tuple[str, ...]
    functions: tuple[headers.Function, ...]


@dataclass(frozen=True)
class Listed:
    """A function that a class of ours leaves to PyTorch, with the versions that have it."""

    reason: str
    since: str | None
    until: str | None

    def expected_in(self, minor: str) -> bool:
        number = _number(minor)
        return (not self.since or _number(self.since) <= number) and (not self.until or number <= _number(self.until))


@dataclass(frozen=True)
class Inherited:
    """A virtual function that a class has, of its own or from a base."""

    owner: str
    """The class that declares it first."""
    key: str
    body: str
    """The class whose body it has; empty if it is pure."""

    @property
    def name(self) -> str:
        return f"{self.owner}::{self.key}"


def _number(minor: str) -> tuple[int, ...]:
    return tuple(int(part) for part in minor.split("."))


# ---- our classes -----------------------------------------------------------------------------------------------------


def read_tree(root: pathlib.Path) -> list[Subclass]:
    """The classes in the packages' sources, and in the headers that they share, that derive from classes of PyTorch."""
    places = ("packages/*/src", "shared/torch")
    paths = sorted(
        path for one in places for ending in ("h", "cpp", "cuh") for path in root.glob(f"{one}/**/*.{ending}")
    )
    return subclasses({path.relative_to(root).as_posix(): path.read_text() for path in paths})


def subclasses(texts: Mapping[str, str]) -> list[Subclass]:
    """The same in the texts of files by path. A class from which others of ours derive is part of these."""
    sources = {path: headers.read(text) for path, text in texts.items() if re.search(r"\b(class|struct)\b", text)}
    shared = {name: of for path, s in sources.items() if not path.endswith(".cpp") for name, of in s.aliases.items()}
    in_file = {path: {one.name: (one, path) for one in source.classes} for path, source in sources.items()}
    in_headers = {name: found for path, s in in_file.items() if not path.endswith(".cpp") for name, found in s.items()}
    inner: set[tuple[str, str]] = set()

    def collect(one: headers.Class, path: str) -> tuple[list[str], list[headers.Function]]:
        """The bases outside of our sources, and the functions of the class and its bases within them."""
        outside: list[str] = []
        functions = list(one.functions)
        known = {**in_headers, **in_file[path]}
        for written in one.bases:
            scope, aliases = one.name.rpartition("::")[0], {**shared, **sources[path].aliases}
            base = resolve(written, scope, aliases, {**known, **HEADERS})
            if base in known and base != one.name:
                inner.add((known[base][1], base))
                further, inherited = collect(*known[base])
                outside += further
                functions += inherited
            elif base in HEADERS or base.partition("::")[0] in NAMESPACES:
                outside.append(base)
        return outside, functions

    found = []
    for path, source in sources.items():
        for one in source.classes:
            bases, functions = collect(one, path)
            if bases:
                found.append(Subclass(one.name, path, tuple(bases), tuple(functions)))
    return [subclass for subclass in found if (subclass.file, subclass.name) not in inner]


def overrides(subclass: Subclass, key: str, others: Iterable[str]) -> bool:
    """Whether the class overrides a virtual function; `others` are all those that it has, of every name.

    Types are compared without namespaces. Where they differ still, as an alias does, the number of parameters decides,
    if the class says `override` and no other virtual function has this name and number.
    """
    name, parameters, constant = _parts(key)
    for function in subclass.functions:
        if function.name != name or len(function.parameters) != len(parameters):
            continue
        own = _parts(function.key)
        if own == (name, parameters, constant):
            return True
        rivals = [other for other in map(_parts, others) if (other[0], len(other[1])) == (name, len(parameters))]
        if function.kind == "override" and own[2] == constant and len(rivals) == 1:
            return True
    return False


def _parts(key: str) -> tuple[str, tuple[str, ...], bool]:
    """(name, types without namespaces and without the `const` of values, whether it is const) of a function."""
    name, _, rest = key.partition("(")
    inside, _, qualifiers = rest.rpartition(")")
    types = [re.sub(r"\b\w+::", "", one) for one in headers.split(inside)]
    return name, tuple(re.sub(r"^const (?!.*[&*]$)", "", one) for one in types), "const" in qualifiers


def virtuals(interfaces: Mapping[str, Interface], name: str) -> dict[str, Inherited]:
    """The virtual functions that a subclass can override, of the class and its bases, by name, types and constness."""
    found: dict[str, Inherited] = {}
    interface = interfaces[name]
    for base in interface.bases:
        if base in interfaces:
            found.update(virtuals(interfaces, base))
    for key, virtual in interface.virtuals.items():
        identity = str(_parts(key))
        first = found.get(identity)
        if virtual.kind == "final":
            found.pop(identity, None)
        elif first or virtual.kind != "override":  # else it overrides a function of a class that HEADERS does not have
            body = "" if virtual.kind == "pure" else name
            found[identity] = Inherited(first.owner if first else name, first.key if first else key, body)
    return found


# ---- the check -------------------------------------------------------------------------------------------------------


def read_listed(path: pathlib.Path) -> dict[tuple[str, str], Listed]:
    """The entries of a not_overridden.toml by (our class, function).

    Raises:
        ValueError: an entry has an unknown key, no reason, or a pair that another one has too.
    """
    found: dict[tuple[str, str], Listed] = {}
    for entry in tomllib.loads(path.read_text()).get("left", []):
        unknown = set(entry) - {"classes", "functions", "reason", "since", "until"}
        if unknown or not entry.get("reason", "").strip():
            raise ValueError(
                f"{path.name}: {entry} has {f'the unknown key {min(unknown)}' if unknown else 'no reason'}"
            )
        for pair in ((own, function) for own in entry["classes"] for function in entry["functions"]):
            if pair in found:
                raise ValueError(f"{path.name}: {pair[0]} lists {pair[1]} twice")
            found[pair] = Listed(entry["reason"], entry.get("since"), entry.get("until"))
    return found


def check(ours: Sequence[Subclass], listed: Mapping[tuple[str, str], Listed], versions: Sequence[Facts]) -> list[str]:
    """What is wrong: a sentence each, with what to do."""
    found: dict[str, list[str]] = {}
    for facts in versions:
        for problem in [*_of_version(ours, listed, facts), *_unknown(ours)]:
            found.setdefault(problem, []).append(facts.version)
    return [f"torch {', '.join(where)}: {problem}" for problem, where in found.items()]


def _unknown(ours: Iterable[Subclass]) -> Iterator[str]:
    for subclass in ours:
        for base in subclass.bases:
            if base not in HEADERS:
                yield (
                    f"{subclass.name} in {subclass.file} derives from {base}, which the check does not know: add the "
                    "class and its header to tools/drift/interfaces.py"
                )


def _of_version(ours: Iterable[Subclass], listed: Mapping[tuple[str, str], Listed], facts: Facts) -> Iterator[str]:
    seen: set[tuple[str, str]] = set()
    for subclass in ours:
        for base in subclass.bases:
            if base in HEADERS and base not in facts.interfaces:
                yield f"{subclass.name} derives from {base}, which {HEADERS[base]} does not declare"
                continue
            inherited = virtuals(facts.interfaces, base) if base in HEADERS else {}
            keys = [one.key for one in inherited.values()]
            for one in inherited.values():
                pair = (subclass.name, one.name)
                seen.add(pair)
                if overrides(subclass, one.key, keys):
                    if pair in listed:
                        yield f"{TABLE.name} lists {one.name} of {subclass.name}, which overrides it: remove the entry"
                elif pair not in listed or subclass.name in FORWARDERS:
                    yield _missing(subclass, one, facts.interfaces)
    for (own, function), entry in listed.items():
        if (own, function) not in seen and entry.expected_in(facts.minor):
            yield (
                f"{TABLE.name} lists {function} of {own}, which has no such virtual function: correct or remove the "
                "entry, or give the versions that have it with `since` and `until`"
            )
        elif (own, function) in seen and not entry.expected_in(facts.minor):
            yield f"{TABLE.name} lists {function} of {own} for other versions: correct `since` and `until`"


def _missing(subclass: Subclass, function: Inherited, interfaces: Mapping[str, Interface]) -> str:
    declared = interfaces[function.body or function.owner]
    body = f"the body is that of {function.body}" if function.body else "it is pure"
    advice = f"override it in {subclass.file} or list it in tools/drift/{TABLE.name} with the reason"
    if subclass.name in FORWARDERS:
        advice = f"forward it in {subclass.file}; it may not be listed, because the inner object would lose the call"
    return f"{subclass.name} does not override {function.name} ({declared.header}; {body}): {advice}"
