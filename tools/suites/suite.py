"""The table of suites: what each is, where its tests come from, and how it is given a device."""

from __future__ import annotations

import pathlib
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from building.source_archives import SourceArchive

HERE = pathlib.Path(__file__).parent
TABLE = HERE / "suites.toml"
DEVICE = "{device}"
"""What stands for the device's type in variables and options: "tb", or "cpu" for the tests that are run there too."""


@dataclass(frozen=True)
class Suite:
    """A suite that can be had. The attributes are the keys of suites.toml, which explains them."""

    name: str
    archive: str
    sha256: str
    requirement: str
    needs: list[str]
    tests: list[str]
    beside: list[str] = field(default_factory=list)
    without: list[str] = field(default_factory=list)
    packages: list[str] = field(default_factory=list)
    part: str = ""
    debian: str = ""
    variables: Mapping[str, str] = field(default_factory=dict)
    options: list[str] = field(default_factory=list)
    default_device: bool = False
    numpy: bool = False
    renamed: bool = False
    limit: float = 120.0

    @property
    def version(self) -> str:
        return self.requirement.split("=")[-1].split("-")[0]

    @property
    def origin(self) -> str:
        return f"Debian {self.debian}" if self.debian else "PyPI"

    @property
    def expected(self) -> pathlib.Path:
        """Its file of expected failures; a suite without any has none."""
        return HERE / "expected" / f"{self.name}.toml"

    def source(self) -> SourceArchive:
        return SourceArchive(self.archive, self.sha256, self.requirement, self.debian)

    def variables_for(self, device: str) -> dict[str, str]:
        return {name: value.replace(DEVICE, device) for name, value in self.variables.items()}

    def options_for(self, device: str) -> list[str]:
        return [option.replace(DEVICE, device) for option in self.options]


def load(path: pathlib.Path = TABLE) -> tuple[dict[str, Suite], dict[str, str]]:
    """The suites by name, and of those whose tests cannot be had, what was found.

    Raises:
        ValueError: an entry has an unknown key, lacks one, or gives its tests no device.
    """
    suites, absent = {}, {}
    for name, entry in tomllib.loads(path.read_text()).items():
        if "no_tests" in entry:
            absent[name] = str(entry["no_tests"])
            continue
        suites[name] = _suite(name, entry)
    return suites, absent


def _suite(name: str, entry: dict[str, Any]) -> Suite:
    try:
        suite = Suite(name, **entry)
    except TypeError as error:
        raise ValueError(f"suites.toml, [{name}]: {error}") from None
    given = [*suite.variables.values(), *suite.options]
    if not (suite.default_device or suite.renamed or any(DEVICE in text for text in given)):
        raise ValueError(f"suites.toml, [{name}] gives its tests no device: by variables, options, renamed, ...")
    return suite
