"""The profiles: how much of the databases a run covers, and how long it may take."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """How many samples of a case are used.

    `samples` is the most per case (0: all), selected with `seed` from the first `window`. Samples with more than
    `elements` elements are dropped, unless there are no others (0: no limit). `repeats` is the number of draws for the
    statistics of random operators.
    """

    samples: int
    window: int
    elements: int
    repeats: int
    seed: int = 0


@dataclass(frozen=True)
class Profile:
    """A profile. Times are seconds, 0 for no limit.

    `forward_dtypes`, `other_dtypes`: how many dtypes of an entry each check uses (0: all). `costly_entries`,
    `sampled_entries`: how many entries a check uses that is costly, or sampled (0: all).
    """

    name: str
    forward: Limits
    others: Limits
    forward_dtypes: int
    other_dtypes: int
    costly_entries: int
    sampled_entries: int
    time_limit: float
    case_limit: float
    # Whether the run fails if the time limit cut off cases.
    complete: bool

    def limits(self, check: str) -> Limits:
        return self.forward if check == "forward" else self.others

    def most_entries(self, *, costly: bool, sampled: bool) -> int:
        return self.costly_entries if costly else self.sampled_entries if sampled else 0

    def dtypes(self, check: str) -> int:
        return self.forward_dtypes if check == "forward" else self.other_dtypes


PROFILES = {
    "quick": Profile(
        name="quick",
        forward=Limits(samples=4, window=64, elements=20_000, repeats=16),
        others=Limits(samples=2, window=32, elements=5_000, repeats=16),
        forward_dtypes=2,
        other_dtypes=1,
        costly_entries=12,
        sampled_entries=160,
        time_limit=330.0,
        case_limit=60.0,
        complete=False,
    ),
    "full": Profile(
        name="full",
        forward=Limits(samples=0, window=0, elements=0, repeats=24),
        others=Limits(samples=24, window=512, elements=0, repeats=24),
        forward_dtypes=0,
        other_dtypes=0,
        costly_entries=0,
        sampled_entries=0,
        time_limit=0.0,
        case_limit=300.0,
        complete=True,
    ),
}
