"""Reads the slot lists and the rules: driver_slots.inc, graph_slots.inc, and the head of driver.h."""

from __future__ import annotations

import re
from dataclasses import dataclass

from checks.device_abi import AbiError


@dataclass(frozen=True)
class Slot:
    """One function of the driver table."""

    group: str
    need: str
    name: str
    parameters: str  # after self, as written; empty if there are none
    comment: str
    arguments: tuple[str, ...] = ()  # the parameters' names
    place: int = 0  # in the table; functions of a group may be apart, as each new one is added at the end

    @property
    def rules(self) -> list[tuple[str, str]]:
        """The rules of the comment: id and sentence."""
        parts = re.split(rf"(?:^| )({self.name}\.(?:\d+|absent)) ", self.comment)
        return list(zip(parts[1::2], parts[2::2], strict=True))

    @property
    def preface(self) -> str:
        """The text of the comment before its first rule."""
        return self.comment.split(f"{self.name}.", 1)[0].strip()

    @property
    def types(self) -> str:
        """The parameters without their names, which may change."""
        text = self.parameters
        for name in self.arguments:
            # The last one, because a function pointer among the parameters may have a parameter of the same name.
            *_, last = re.finditer(rf"\b{name}\b", text)
            text = text[: last.start()] + text[last.end() :]
        return " ".join(text.split()).replace(" ,", ",")

    @property
    def signature(self) -> str:
        parameters = f", {self.parameters}" if self.parameters else ""
        return f"tb_status {self.name}(tb_driver *self{parameters})"


@dataclass(frozen=True)
class Group:
    name: str
    title: str
    comment: str
    slots: tuple[Slot, ...]


def comment_text(text: str) -> str:
    lines = [re.sub(r"^\s*\*\s?", "", line) for line in text.splitlines()]
    return " ".join(" ".join(lines).split())


_TOKENS = re.compile(
    r"/\*(?P<comment>.*?)\*/"
    r"|TB_SLOT0\((?P<group0>\w+),\s*(?P<need0>\w+),\s*(?P<name0>\w+)\)"
    r"|TB_SLOT\((?P<group>\w+),\s*(?P<need>\w+),\s*(?P<name>\w+),\s*"
    r"\((?P<parameters>(?:[^()]|\([^()]*\))*)\),\s*\((?P<arguments>[^()]*)\)\)",
    re.DOTALL,
)


def read_slots(text: str, section: tuple[str, str] | None = None) -> list[Group]:
    """The groups of a slot list in order of appearance. A comment belongs to the slot that follows it.

    A group has the title of its first section; the list continues it where a function was added to the group later.
    section: name and title of the group, for a list without headings.
    """
    groups: dict[str, list[Slot]] = {}
    titles: dict[str, tuple[str, str]] = {}
    pending: list[str] = []
    body = text[text.index("*/") + 2 :]
    for token in _TOKENS.finditer(body):
        if token["comment"] is not None:
            comment = comment_text(token["comment"])
            heading = re.match(r"-{4} (\w+): (.*?) ?-{4,}$", comment)
            if heading:
                section, pending = (heading[1], heading[2]), []
            else:
                pending.append(comment)
            continue
        group = token["group0"] or token["group"]
        if section is None or section[0] != group:
            raise AbiError(
                f"slot {token['name0'] or token['name']} of group {group} stands outside its group's section: write "
                f"/* ---- {group}: ... ---- */ before it, at the end of the list too"
            )
        if group not in groups:
            groups[group] = []
            # All but the last comment before the first slot are about the group.
            titles[group] = (section[1], " ".join(pending[:-1]))
            pending = pending[-1:]
        slot = Slot(
            group,
            token["need0"] or token["need"],
            token["name0"] or token["name"],
            " ".join((token["parameters"] or "").split()),
            " ".join(pending),
            tuple((token["arguments"] or "").replace(",", " ").split()),
            sum(len(slots) for slots in groups.values()),
        )
        if slot.need not in ("REQUIRED", "OPTIONAL"):
            raise AbiError(f"slot {slot.name}: need is {slot.need}; write REQUIRED or OPTIONAL")
        groups[group].append(slot)
        pending = []
    if len(re.findall(r"^TB_SLOT0?\(", body, re.MULTILINE)) != sum(len(slots) for slots in groups.values()):
        raise AbiError("a line of the slot list was not understood: write TB_SLOT(GROUP, NEED, name, (...), (...))")
    return [Group(name, *titles[name], tuple(slots)) for name, slots in groups.items()]


def read_rules(header: str) -> list[tuple[str, str]]:
    """The rules for every function, from the comment at the head of driver.h: id (E1, T1, V1) and sentence."""
    head = header[: header.index("*/")]
    found = re.findall(r"^ \*   ([ETV]\d+)  (.*(?:\n \* {7}.*)*)", head, re.MULTILINE)
    return [(rule, comment_text(text)) for rule, text in found]


def check_rules(groups: list[Group]) -> None:
    """Checks that each slot has rules, numbered 1, 2, 3 in order, and at most one `absent`, at the end."""
    for group in groups:
        for slot in group.slots:
            numbers = [rule.removeprefix(f"{slot.name}.") for rule, _ in slot.rules]
            counted = [number for number in numbers if number != "absent"]
            expected = [str(place) for place in range(1, len(counted) + 1)]
            if not counted or numbers not in (expected, [*expected, "absent"]):
                raise AbiError(f"the rules of {slot.name} are numbered {numbers}: number them 1, 2, 3, then absent")


def check_groups(groups: list[Group], header: str) -> None:
    """Checks that the header's group bits match the slots' groups, that bits are dense and that names are unique."""
    bits = {name: int(bit) for name, bit in re.findall(r"TB_GROUP_(\w+) = 1 << (\d+)", header)}
    used = [group.name for group in groups]
    if sorted(bits.values()) != list(range(len(bits))):
        raise AbiError(f"the group bits of driver.h are {sorted(bits.values())}; use each bit from 0 on once")
    if set(bits) != set(used):
        raise AbiError(
            f"groups only in driver.h or only in the slot list: {sorted(set(bits) ^ set(used))}; add the other"
        )
    names = [slot.name for group in groups for slot in group.slots]
    if len(set(names)) != len(names):
        raise AbiError(f"slots with the same name: {sorted({n for n in names if names.count(n) > 1})}")
    for group in groups:
        if not any(slot.need == "REQUIRED" for slot in group.slots):
            raise AbiError(f"group {group.name} has no REQUIRED slot, so nothing says when it is offered")
