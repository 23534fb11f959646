"""Reads the table that maps PyTorch's operators to functions of the vendor's library (see docs/aclnn.md)."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..model import Operator

if TYPE_CHECKING:
    from torchgen.model import NativeFunction

    from ..schema import Schema

KINDS = frozenset(
    [
        "given",
        "number",
        "none",
        "dims",
        "ints",
        "type",
        "tensor",
        "text",
        "bool",
        "float",
        "int8",
        "int32",
        "int64",
        "uint64",
    ]
)
_KEYS = frozenset(["aclnn", "number", "types", "computed", "result", "shape", "outputs", "apart", "same", "when"])


class TableError(ValueError):
    """The table is wrong. The text names the file and the operator."""


@dataclass(frozen=True)
class Argument:
    """One parameter of a function's first phase."""

    kind: str
    """A key of KINDS; "" for an argument of the operator, or an output, that is passed by its own type."""
    text: str
    """The name, or C++ for kinds that take an expression."""


@dataclass(frozen=True)
class Call:
    """A call of a function of the library."""

    function: str
    """The name without its prefix: "Add" for aclnnAdd."""
    arguments: list[Argument]


@dataclass(frozen=True)
class Output:
    """A tensor that a wrapper makes: C++ of its sizes, of its type, and of whether it is wanted ("" for always)."""

    sizes: str
    type: str
    wanted: str = ""


@dataclass(frozen=True)
class Entry:
    """One operator of the table with all of its rules."""

    function: NativeFunction
    operator: Operator
    plain: Call
    number: Call | None
    """The call if the tensor that it takes as a number is a number on the CPU."""
    types: str
    """The set of types that the library computes in."""
    computed: str
    """C++ of the type to which operands are cast; "" for the common type of PyTorch's iterator."""
    result: str
    """The type that the function writes: "computed", "bool", or "given" for the type of the output."""
    shape: str
    """C++ of the sizes of an out= argument; "" if PyTorch's meta function computes them."""
    outputs: dict[str, Output] = field(default_factory=dict)
    apart: list[str] = field(default_factory=list)
    """Tensors whose memory the result must not share."""
    same: bool = False
    """Whether operands of another type than the computed one go to the fallback, since PyTorch casts none here."""
    when: str = ""
    """C++ condition; calls that do not meet it go to the fallback."""
    meta: str = ""
    """The name of PyTorch's meta function, "add_Tensor"; "" if there is none."""

    @property
    def name(self) -> str:
        return self.operator.name

    @property
    def in_place(self) -> bool:
        return bool(self.function.func.name.name.inplace)

    @property
    def out_names(self) -> list[str]:
        """The tensors that the wrapper returns."""
        if self.in_place:
            return ["self"]
        return list(self.outputs) or [argument.name for argument in self.function.func.arguments.out]


@dataclass(frozen=True)
class Table:
    """A whole table."""

    types: dict[str, list[str]]
    """The sets of element types, by PyTorch's names ("Half")."""
    entries: list[Entry]


def read(source: pathlib.Path, schema: Schema) -> Table:
    """Reads and checks a table.

    Raises:
        TableError: an unknown operator, word or argument, or a rule that is missing.
    """
    import yaml
    from torchgen.api import meta

    given = yaml.safe_load(source.read_text())
    functions = {str(f.func.name): f for f in schema.functions}
    metas = {str(g.out.func.name): meta.name(g) for g in schema.structured_groups}
    entries = []
    for group in given["groups"]:
        shared = {key: value for key, value in group.items() if key != "operators"}
        for name, own in group["operators"].items():
            where = f"{source.name}: {name}"
            if name not in functions:
                raise TableError(f"{where}: this PyTorch has no such operator: take it out")
            rules = {**shared, **({"aclnn": own} if isinstance(own, str) else own)}
            entry = _entry(where, functions[name], rules, metas.get(name, ""))
            if entry.types not in given["types"]:
                raise TableError(f"{where}: no set of types is called {entry.types!r}: add it, or choose another")
            entries.append(entry)
    twice = {e.name for e in entries if sum(other.name == e.name for other in entries) > 1}
    if twice:
        raise TableError(f"{source.name}: {', '.join(sorted(twice))}: listed twice")
    return Table(given["types"], entries)


def _entry(where: str, function: NativeFunction, rules: Mapping[str, Any], meta: str) -> Entry:
    if unknown := rules.keys() - _KEYS:
        raise TableError(f"{where}: unknown: {', '.join(sorted(unknown))}; known: {', '.join(sorted(_KEYS))}")
    outputs = {name: Output(*parts) for name, parts in rules.get("outputs", {}).items()}
    entry = Entry(
        function=function,
        operator=Operator.of_aten(function),
        plain=parse_call(where, rules["aclnn"]),
        number=parse_call(where, rules["number"]) if "number" in rules else None,
        types=rules["types"],
        computed=rules.get("computed", ""),
        result=rules.get("result", "computed"),
        shape=rules.get("shape", ""),
        outputs=outputs,
        apart=rules.get("apart", []),
        same=rules.get("same", False),
        when=rules.get("when", ""),
        meta=meta,
    )
    if entry.result not in ("computed", "bool", "given"):
        raise TableError(f"{where}: result {entry.result!r} is none of computed, bool, given")
    if not (meta or entry.shape or entry.outputs or entry.in_place):
        raise TableError(f"{where}: PyTorch has no meta function for it: say its shape or its outputs")
    if not entry.computed and (entry.shape or entry.outputs or entry.in_place):
        raise TableError(f"{where}: without an iterator of PyTorch's the type that is computed in must be said")
    known = {a.name for a in entry.operator.arguments} | set(entry.out_names)
    for call in filter(None, (entry.plain, entry.number)):
        for argument in call.arguments:
            if argument.kind in ("", "given", "number", "type") and argument.text not in known:
                raise TableError(f"{where}: {argument.text!r} is no argument of it: {', '.join(sorted(known))}")
    return entry


def parse_call(where: str, text: str) -> Call:
    """Parses a call such as `Adds(self, number other, alpha, out)`."""
    match = re.fullmatch(r"(\w+)\((.*)\)", text.strip())
    if match is None:
        raise TableError(f"{where}: {text!r} is not NAME(ARGUMENT, ...)")
    return Call(match[1], [_argument(part) for part in _split(match[2])])


def _argument(text: str) -> Argument:
    kind, _, rest = text.partition(" ")
    if kind in KINDS and (rest or kind == "none"):  # an argument may have the name of a kind
        return Argument(kind, rest.strip())
    return Argument("", text)


def _split(text: str) -> list[str]:
    """The parts between commas that are not in brackets."""
    parts, depth = [""], 0
    for letter in text:
        depth += (letter in "({[") - (letter in ")}]")
        if letter == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += letter
    return [part.strip() for part in parts]
