"""A case (check, database entry, dtype) and its result. Both are passed between processes."""

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
    """The comparison of one sample of a case.

    `problem` says how the device disagrees with the CPU; None if it agrees. `vacuous` says why the sample proves
    nothing (for example, the CPU raises instead of returning a result); such samples never count as a pass.
    """

    sample: str = ""
    problem: str | None = None
    vacuous: str | None = None
    tensors: int = 0
    equal_bits: int = 0


@dataclass
class Result:
    """What a worker reports about a case."""

    case: Case
    status: str
    message: str = ""
    samples: int = 0
    failed_samples: int = 0
    tensors: int = 0
    equal_bits: int = 0
    seconds: float = 0.0
    # Operators that ran on the CPU instead of the device; None if the device does not report them.
    fallbacks: list[str] | None = None
    extra: dict[str, Any] = field(default_factory=dict)

    def to_json(self) -> dict[str, Any]:
        return asdict(self) | {"case": list(self.case)}

    @staticmethod
    def from_json(fields: dict[str, Any]) -> Result:
        return Result(**(fields | {"case": Case(*fields["case"])}))
