"""What is run and what it gave: a case (check, database entry, dtype) and its result; both cross process borders."""

from __future__ import annotations

from dataclasses import asdict, dataclass, field
from typing import Any, NamedTuple

NO_DTYPE = "-"

PASSED = "passed"
FAILED = "failed"
NOT_APPLICABLE = "not applicable"


class Case(NamedTuple):
    """One unit of work. `dtype` is a torch dtype without its prefix, or `-` for a check without dtypes."""

    check: str
    entry: str
    dtype: str

    def __str__(self) -> str:
        return f"{self.check} {self.entry} {self.dtype}"


@dataclass
class Observation:
    """One sample of a case.

    `problem` says how the device disagrees with the CPU; None if it agrees. `vacuous` says why the sample shows
    nothing (the CPU raises where a result was wanted); such samples never count as a pass.
    """

    sample: str = ""
    problem: str | None = None
    vacuous: str | None = None
    tensors: int = 0
    equal_bits: int = 0


@dataclass
class Result:
    """What a worker tells about a case."""

    case: Case
    status: str
    message: str = ""
    samples: int = 0
    failed_samples: int = 0
    tensors: int = 0
    equal_bits: int = 0
    seconds: float = 0.0
    # Operators that ran on the CPU in the device's stead; None where the device does not tell.
    fallbacks: list[str] | None = None
    extra: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"case": list(self.case)}

    @staticmethod
    def from_json(fields: dict[str, Any]) -> Result:
        return Result(**(fields | {"case": Case(*fields["case"])}))
