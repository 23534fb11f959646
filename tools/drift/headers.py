"""Reads classes and their member functions from C++ text: PyTorch's installed headers and our own sources.

This is no compiler. It knows namespaces, classes, nested classes, templates, comments, literals, attributes and macros
in front of a declaration, which is enough for interface headers. All branches of `#if` are read, because a function
that exists under a condition is a function to know of. Where the branches open different numbers of braces, only the
first is read.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

_COMMENT_OR_LITERAL = re.compile(
    r'//[^\n]*|/\*.*?\*/|R"(?P<mark>[^(\s]*)\(.*?\)(?P=mark)"|"(?:\\.|[^"\\\n])*"|(?<![\w])\'(?:\\.|[^\'\\\n])+\'',
    re.DOTALL,
)
_TOKEN = re.compile(r"(?:\w+\s*::\s*|::\s*)*~?\w+|::|&&|->|\.\.\.|\S")
_ACCESS = re.compile(r"^\s*(?:public|private|protected)\s*:(?!:)\s*")
_CLASS = re.compile(r"(?:class|struct)\b(?P<rest>.*)", re.DOTALL)
_NAME = re.compile(r"(operator\s*\S+?|~?\w+)\s*$")
_NOT_OF_THE_RESULT = re.compile(
    r"\[\[.*?\]\]|\b(static|explicit|inline|constexpr|friend|virtual)\b|\b(C10|TORCH)_\w+\b"
)
_NOT_NAMES = {"decltype", "alignas", "noexcept", "__attribute__", "requires", "if", "for", "while", "switch", "return"}
_TYPE_WORDS = {"const", "volatile", "unsigned", "signed", "long", "short", "struct", "class", "enum", "typename"}
_BUILT_IN = {"void", "bool", "char", "int", "long", "short", "float", "double", "unsigned", "signed", "auto"}


@dataclass(frozen=True)
class Function:
    """A member function as its class declares it."""

    name: str
    parameters: tuple[str, ...]
    """Types, without names and default values."""
    qualifiers: str
    """`const`, `noexcept` and references behind the parameters."""
    returns: str
    kind: str
    """Of a virtual function: `pure`, `body`, `override` or `final`, as the declaration says; else `plain`."""

    @property
    def key(self) -> str:
        """What tells the function from others of its class: `allocate(size_t) const`."""
        return f"{self.name}({', '.join(self.parameters)}) {self.qualifiers}".strip()


@dataclass
class Class:
    """A class with its name in full, without anonymous namespaces."""

    name: str
    bases: list[str] = field(default_factory=list)
    """As the source writes them, without template arguments."""
    functions: list[Function] = field(default_factory=list)


@dataclass
class Source:
    """The classes of one file, and the names that it introduces for others by `using` and `namespace`."""

    classes: list[Class] = field(default_factory=list)
    aliases: dict[str, str] = field(default_factory=dict)


def read(text: str) -> Source:
    """The classes and aliases of a header or source."""
    source = Source()
    _read_scope(_without_directives(_without_comments(text)), "", None, source)
    return source


def _without_comments(text: str) -> str:
    return _COMMENT_OR_LITERAL.sub(lambda found: " " if found[0].startswith("/") else '""', text)


def _without_directives(text: str) -> str:
    """The text without preprocessor lines, and with the branches of conditions that can be read one after the other."""
    branches: list[list[list[str]]] = [[[]]]  # of each open condition: its branches, which are lists of lines
    for line in text.replace("\\\n", " ").split("\n"):
        directive = re.match(r"\s*#\s*(\w*)", line)
        if not directive:
            branches[-1][-1].append(line)
        elif directive[1].startswith("if"):
            branches.append([[]])
        elif directive[1].startswith("el"):
            branches[-1].append([])
        elif directive[1] == "endif" and len(branches) > 1:
            closed = ["\n".join(lines) for lines in branches.pop()]
            balanced = all(branch.count("{") == branch.count("}") for branch in closed)
            branches[-1][-1].extend(closed if balanced else closed[:1])
    return "\n".join("\n".join(lines) for condition in branches for lines in condition)


def _read_scope(text: str, scope: str, inside: Class | None, source: Source) -> None:
    """Reads a namespace, or the body of a class (`inside`)."""
    for head, body in _statements(text):
        head = _without_prefix(head)
        if found := re.match(r"(?:inline\s+)?namespace\b\s*([\w:\s]*)", head):
            if body is None:
                if alias := re.match(r"namespace\s+(\w+)\s*=\s*([\w:]+)", head):
                    source.aliases[alias[1]] = alias[2].removeprefix("::")
            else:
                inner = scope if head.startswith("inline") else _join(scope, re.sub(r"\binline\b|\s", "", found[1]))
                _read_scope(body, inner, None, source)
        elif alias := re.match(r"using\s+(\w+)\s*=\s*([\w:]+)\s*$", head):
            source.aliases[alias[1]] = alias[2].removeprefix("::")
        elif re.match(r'extern\s*""', head) and body is not None:
            _read_scope(body, scope, inside, source)
        elif re.match(r"(enum|union|typedef|using|friend|static_assert)\b", head):
            continue
        elif (found := _CLASS.match(head)) and body is not None and not _is_function(head):
            _read_class(found["rest"], body, scope, source)
        elif inside is not None:
            if function := _function(head):
                inside.functions.append(function)
            elif re.search(r"\bvirtual\b", head) and "~" not in head:
                raise ValueError(
                    f"{inside.name} has a virtual function that tools/drift/headers.py cannot read: {head}"
                )


def _read_class(rest: str, body: str, scope: str, source: Source) -> None:
    declared, _, bases = re.sub(r"\s+", " ", rest).partition(" : ") if " : " in rest else _at_colon(rest)
    names = re.findall(r"[\w:]+", re.sub(r"\(.*?\)|\[\[.*?\]\]|<.*", " ", declared))
    names = [name for name in names if name != "final"]
    if not names:  # a class without a name
        return
    found = Class(_join(scope, names[-1]))
    for base in split(bases):
        words = re.sub(r"\b(public|protected|private|virtual)\b", "", re.sub(r"<.*", "", base, flags=re.DOTALL))
        if words.strip():
            found.bases.append(re.sub(r"\s", "", words).removeprefix("::"))
    source.classes.append(found)
    _read_scope(body, found.name, found, source)


def _at_colon(text: str) -> tuple[str, str, str]:
    """Splits at the first colon that is not part of `::`."""
    parts = re.split(r"(?<!:):(?!:)", text, maxsplit=1)
    return parts[0], ":", parts[1] if len(parts) > 1 else ""


def _join(scope: str, name: str) -> str:
    return f"{scope}::{name}" if scope and name else scope or name


def _statements(text: str) -> Iterator[tuple[str, str | None]]:
    """(text before, text between the braces or None) of each declaration of a scope."""
    start = position = depth = 0
    while position < len(text):
        character = text[position]
        if character in "([":
            depth += 1
        elif character in ")]":
            depth -= 1
        elif depth == 0 and character == ";":
            yield text[start:position], None
            start = position + 1
        elif depth == 0 and character == "{":
            end = _closing(text, position)
            yield text[start:position], text[position + 1 : end]
            start = position = end + 1
            continue
        position += 1


def _closing(text: str, opening: int) -> int:
    """The position of the brace that closes the one at `opening`."""
    depth = 0
    for found in re.compile(r"[{}]").finditer(text, opening):
        depth += 1 if found[0] == "{" else -1
        if depth == 0:
            return found.start()
    return len(text)


def _without_prefix(head: str) -> str:
    """A declaration without access specifiers, attributes and `template <...>` in front."""
    while True:
        shorter = _ACCESS.sub("", head).strip()
        shorter = re.sub(r"^\[\[[^\]]*\]\]\s*", "", shorter)
        if re.match(r"template\s*<", shorter):
            shorter = shorter[_end_of_angles(shorter, shorter.index("<")) :]
        # Macros before a namespace or a class, such as C10_DIAGNOSTIC_PUSH_AND_IGNORED_IF_DEFINED("-Wunused").
        shorter = re.sub(
            r"^[A-Z][A-Z0-9_]+\s*(\([^()]*\))?\s*(?=(?:inline\s+)?(namespace|class|struct)\b)", "", shorter
        )
        if shorter == head:
            return head
        head = shorter


def _end_of_angles(text: str, opening: int) -> int:
    depth = 0
    for found in re.compile(r"->|[<>]").finditer(text, opening):
        depth += {"<": 1, ">": -1}.get(found[0], 0)
        if depth == 0:
            return found.end()
    return len(text)


def _is_function(head: str) -> bool:
    """Whether a declaration that starts with `class` or `struct` is a function with an elaborated type."""
    return bool(re.search(r"\)\s*(const|noexcept|override|final|\s)*$", re.sub(r"alignas\s*\(.*?\)", "", head)))


def split(text: str) -> list[str]:
    """Splits at commas outside of brackets."""
    parts, depth = [""], 0
    for character in text:
        depth += (character in "([{<") - (character in ")]}>")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return [part.strip() for part in parts if part.strip()]


def _function(head: str) -> Function | None:
    """The member function that a declaration declares; None for constructors, destructors and what is no function."""
    opening = _parameters(head)
    named = _NAME.search(head[:opening]) if opening is not None else None
    if opening is None or not named:
        return None
    before, name = head[: named.start()], named[0].strip()
    closing = _closing_parenthesis(head, opening)
    behind = " ".join(head[closing + 1 :].split())
    is_pure = bool(re.search(r"=\s*0$", behind))
    behind = re.sub(r"=\s*(0|default|delete)$", "", behind)
    returns = before.rpartition("virtual ")[2]
    if trailing := re.match(r"(.*?)->\s*(.*)", behind):
        behind, returns = trailing[1], returns.replace("auto", "") + trailing[2]
    returns = _NOT_OF_THE_RESULT.sub("", returns).strip()
    is_member = returns.startswith((",", ":")) and not returns.startswith("::")  # the rest of a constructor's list
    is_several = "," in re.sub(r"\(.*?\)", "", behind)  # functions in one declaration
    if name.startswith("~") or not returns or "operator" in before or is_member or is_several:
        return None
    kind = "plain"
    if found := re.search(r"\bfinal\b", behind) or re.search(r"\boverride\b", behind):
        kind = found[0]
    elif re.search(r"\bvirtual\b", before):
        kind = "pure" if is_pure else "body"
    qualifiers = re.findall(r"\bconst\b|\bnoexcept\b|&&?", re.sub(r":.*", "", behind))
    parameters = tuple(_type(parameter) for parameter in split(head[opening + 1 : closing]))
    if parameters == ("void",):
        parameters = ()
    return Function(name, parameters, " ".join(qualifiers), _spaced(_TOKEN.findall(returns)), kind)


def _parameters(head: str) -> int | None:
    """The position of the parenthesis that opens the parameters."""
    if found := re.search(r"\boperator\s*(\(\s*\)|[^\s\w(]+|\w+)\s*\(", head):
        return found.end() - 1
    depth = 0
    for found in re.finditer(r"->|[<>]|(\w*)\s*\(|=", head):
        if found[0] == "=" and depth == 0:
            return None  # a variable with a value
        depth += {"<": 1, ">": -1}.get(found[0], 0)
        if depth == 0 and found[1] and found[1] not in _NOT_NAMES:
            rest = head[_closing_parenthesis(head, found.end() - 1) + 1 :]
            if not (found[1].isupper() and re.match(r"\s*[\w~]", rest) and "(" in rest):  # else a macro with arguments
                return found.end() - 1
    return None


def _closing_parenthesis(text: str, opening: int) -> int:
    depth = 0
    for position in range(opening, len(text)):
        depth += (text[position] == "(") - (text[position] == ")")
        if depth == 0:
            return position
    return len(text)


def _type(parameter: str) -> str:
    """The type of a parameter: without attributes, name and default value."""
    text = re.sub(r"\[\[.*?\]\]", "", parameter, flags=re.DOTALL)
    depth = 0
    for found in re.finditer(r"[<>(){}=]", text):
        depth += (found[0] in "<({") - (found[0] in ">)}")
        if found[0] == "=" and depth == 0:
            text = text[: found.start()]
            break
    tokens = [re.sub(r"\s", "", token) for token in _TOKEN.findall(text)]
    is_name = len(tokens) > 1 and re.fullmatch(r"\w+", tokens[-1]) and tokens[-1] not in _TYPE_WORDS | _BUILT_IN
    if is_name and any(token not in _TYPE_WORDS - {"unsigned", "signed", "long", "short"} for token in tokens[:-1]):
        tokens.pop()
    return _spaced(tokens)


def _spaced(tokens: list[str]) -> str:
    """Tokens as clang-format joins them, with `*` and `&` at the type."""
    text = " ".join(re.sub(r"\s", "", token) for token in tokens)
    text = re.sub(r"\s*([<>(),])\s*", r"\1", text)
    text = re.sub(r"\s+(&&?|\*|\.\.\.)", r"\1", text)
    return re.sub(r",(?=\S)", ", ", re.sub(r"([&*>])(?=\w)", r"\1 ", text)).strip()
