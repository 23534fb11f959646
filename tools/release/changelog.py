"""The changelog of a package, in the form of keepachangelog.com: a section for each version, the newest first."""

from __future__ import annotations

import datetime
import itertools
import re
from collections.abc import Iterator
from dataclasses import dataclass

from packaging.version import InvalidVersion, Version

UNRELEASED = "unreleased"
_SECTION = re.compile(r"^## +\[?([^\]\s]+)\]?(?: - (.*))?$", re.MULTILINE)


@dataclass(frozen=True)
class Section:
    title: str
    """A version, or "Unreleased"."""
    date: str
    """Such as "2026-11-26"; "unreleased" for a version that is not released yet."""


def sections(text: str) -> list[Section]:
    return [Section(title, (date or "").strip()) for title, date in _SECTION.findall(text)]


def problems(text: str, version: str) -> list[str]:
    """What is wrong with the changelog of a package that has this version."""
    return list(_problems(text, version))


def _problems(text: str, version: str) -> Iterator[str]:
    found = sections(text)
    if any(section.title.lower() == UNRELEASED for section in found[1:]):
        yield "the section Unreleased is not the first"
    versions: list[Version] = []
    for section in found:
        if section.title.lower() == UNRELEASED:
            continue
        try:
            versions.append(Version(section.title))
        except InvalidVersion:
            yield f"the section {section.title!r} is neither Unreleased nor a version"
            continue
        if not _is_date(section.date) and (len(versions) > 1 or section.date != UNRELEASED):
            yield f"version {section.title} has no date: '## {section.title} - 2026-12-31'"
    if not versions:
        yield f"there is no section for version {version}"
    elif versions[0] != Version(version):
        yield f"the newest section is of version {versions[0]}, but VERSION says {version}"
    for newer, older in itertools.pairwise(versions):
        if newer <= older:
            yield f"version {newer} stands before {older}: each version has one section, the newest is first"


def _is_date(text: str) -> bool:
    try:
        return datetime.date.fromisoformat(text).isoformat() == text
    except ValueError:
        return False
