"""Reads a header of tables: its sections, structs with the comment of each member, and enumerations."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from checks.device_abi.slots import comment_text


@dataclass(frozen=True)
class Member:
    """One field of a struct. since: the minor version of the table's C API that added it."""

    name: str
    declaration: str
    comment: str
    since: str
    is_function: bool


@dataclass
class Declaration:
    """A struct, an enumeration ("") or an inline function: its name, its comment, and its source or signature."""

    name: str
    comment: str
    source: str
    members: list[Member] = field(default_factory=list)


@dataclass
class Section:
    """The declarations after a `---- title ----` comment; the first section has no title."""

    title: str
    declarations: list[Declaration]


_OUTER = re.compile(
    r"/\*(?P<comment>.*?)\*/"
    r"|typedef struct (?P<name>\w+) \{(?P<body>.*?)\n\} (?P=name);"
    r"|(?P<enumeration>(?:typedef int32_t \w+;\n)?enum \{.*?\};)"
    r"|static inline (?P<function>[^{]*?) \{.*?\n\}",
    re.DOTALL,
)
_INNER = re.compile(
    r"/\*(?P<comment>.*?)\*/|^#[^\n]*$|(?P<declaration>[^;/#]+);(?P<behind>[ \t]*/\*.*?\*/)?", re.DOTALL | re.MULTILINE
)
_HEADING = re.compile(r"^ ?-{4} (.*?) -{4,} ?$")


def _since(comment: str, before: str) -> str:
    """The version in which a member was added. Members are only appended, so it also holds for those that follow."""
    found = re.search(r"(?:^|\b)[Ss]ince (\d+\.\d+)", comment)
    return found[1] if found else before


def _members(body: str) -> list[Member]:
    members: list[Member] = []
    pending, since = "", "1.0"
    for token in _INNER.finditer(body):
        if token["comment"] is not None:
            since = _since(token["comment"], since)
            if _HEADING.match(token["comment"]) is None:
                pending = comment_text(token["comment"])
            continue
        if token["declaration"] is None:
            continue
        text = " ".join(token["declaration"].split())
        pointer = re.search(r"\(\*(\w+)\)\s*\(", text)
        last = re.search(r"(\w+)(?:\[[^]]*\])?$", text)
        if pointer is None and last is None:
            continue
        behind = comment_text(token["behind"].strip()[2:-2]) if token["behind"] else ""
        name = pointer[1] if pointer else last[1] if last else ""
        members.append(Member(name, f"{text};", " ".join(filter(None, [pending, behind])), since, pointer is not None))
        pending = ""
    return members


def read_header(text: str) -> list[Section]:
    """The sections of a header, each with its declarations in order."""
    sections = [Section("", [])]
    pending, end = "", 0
    for token in _OUTER.finditer(text, text.index("*/") + 2):
        if text[end : token.start()].strip():
            pending = ""  # something else stands between a comment and what follows
        end = token.end()
        if token["comment"] is not None:
            heading = _HEADING.match(token["comment"])
            if heading:
                sections.append(Section(heading[1], []))
            pending = "" if heading else comment_text(token["comment"])
            continue
        name, source = token["name"] or "", token[0]
        if token["function"]:
            source = " ".join(token["function"].split()) + ";"
            [name] = re.findall(r"(\w+)\(", source)[:1]
        declaration = Declaration(name, pending, source)
        if token["body"] is not None:
            declaration.members = _members(token["body"])
        sections[-1].declarations.append(declaration)
        pending = ""
    return sections


def head_comment(text: str) -> str:
    """The comment at the head of a header, without the line that names the file."""
    lines = [re.sub(r"^ \* ?", "", line) for line in text[: text.index("*/")].splitlines()[1:]]
    return "\n".join(lines).strip("\n ")
