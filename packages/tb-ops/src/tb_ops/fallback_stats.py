"""Statistics of operators that ran on the CPU: reading them, limiting fallbacks, forcing fallbacks on purpose."""

from __future__ import annotations

import contextlib
import difflib
from collections.abc import Iterator
from dataclasses import dataclass, field

import torch

from . import _core


@dataclass(frozen=True)
class Fallback:
    """One line of the statistics: an operator that ran on the CPU because the device has no kernel for it."""

    operator: str
    """Name with overload, as in "aten::std.correction"."""
    calls: int
    seconds: float
    """Wall time of the calls, with the waits for the stream, without `loading_seconds`."""
    bytes: int
    """Bytes of the tensors given and returned, which a device with memory of its own would have to move."""
    forced: int
    """The calls that `force_fallback` asked for."""
    first_call: str
    """The line of user code that called it first, as "model.py:12 in forward"; in backward passes the autograd node."""
    first_stack: tuple[str, ...] = field(repr=False)
    """All Python frames of that call, innermost first, PyTorch's own included. Empty on autograd's threads."""
    loading_seconds: float = 0.0
    """Wall time of the first call if it imported Python modules, as operators written in Python do: it happens once."""

    @property
    def seconds_per_call(self) -> float | None:
        """The mean time of the calls that imported nothing; None if there is none."""
        timed = self.calls - bool(self.loading_seconds)
        return self.seconds / timed if timed else None

    def __str__(self) -> str:
        each = "" if self.seconds_per_call is None else f", {1e3 * self.seconds_per_call:.3f} ms each"
        forced = f" ({self.forced} forced)" if self.forced else ""
        return f"{self.operator}: {self.calls} calls{forced}{each}, first at {self.first_call or 'an unknown place'}"


class Fallbacks(list[Fallback]):
    """A list that prints one line for each operator."""

    def __repr__(self) -> str:
        return "\n".join(map(str, self)) or "no operator ran on the CPU"


def fallbacks() -> Fallbacks:
    """The statistics of CPU fallbacks since the start or the last reset, most time first."""
    return Fallbacks(Fallback(*entry) for entry in _core.fallbacks())


def reset_fallbacks() -> None:
    """Empty the fallback statistics. Operators that have warned do not warn again."""
    _core.reset_fallbacks()


def set_fallback_mode(mode: str) -> None:
    """Choose what an operator without a kernel does: "allow" it, "warn" once per operator, or raise an "error".

    Raises:
        ValueError: another mode.
    """
    _core.set_fallback_mode(mode)


def fallback_mode() -> str:
    """The active mode: "allow", "warn" or "error"."""
    return _core.fallback_mode()


def fallback_report(limit: int = 20) -> str:
    """A text that says what to implement next: the operators that ran on the CPU, the most expensive first.

    Reset the statistics, run some steps of a model, then call this. The shares are of the time since the reset.

    Arguments:
        limit: how many operators to list at most.
    """
    rows, elapsed = fallbacks(), _core.fallback_seconds()
    if not rows:
        return f"No operator ran on the CPU in the {elapsed:.3g} s since the fallback statistics were reset."
    seconds, calls = sum(row.seconds for row in rows), sum(row.calls for row in rows)
    lines = [
        f"{len(rows)} operators ran on the CPU in {calls} calls, {seconds:.3g} s of the {elapsed:.3g} s since the "
        f"fallback statistics were reset ({seconds / elapsed:.1%}).",
        "Implement these next:",
        f"{'':>3} {'of all':>6} {'of CPU':>6} {'calls':>7} {'ms/call':>9} {'size/call':>10}  operator, first called at",
    ]
    for rank, row in enumerate(rows[:limit], 1):
        share = row.seconds / seconds if seconds else 0.0
        forced = f" ({row.forced} calls forced)" if row.forced else ""
        time = "-" if row.seconds_per_call is None else f"{1e3 * row.seconds_per_call:.3f}"
        each = f"{time:>9} {_size(row.bytes / row.calls):>10}"
        lines.append(
            f"{rank:>3} {row.seconds / elapsed:>6.1%} {share:>6.1%} {row.calls:>7} {each}  "
            f"{row.operator}{forced}, {row.first_call or 'unknown place'}"
        )
    if len(rows) > limit:
        lines.append(f"... and {len(rows) - limit} more")
    loading = [row for row in rows if row.loading_seconds]
    if loading:
        lines.append(
            f"Not counted: {sum(row.loading_seconds for row in loading):.3g} s of first calls that imported Python "
            f"modules, of {', '.join(row.operator for row in loading)}."
        )
    return "\n".join(lines)


def _size(size: float) -> str:
    for unit in ("B", "KiB", "MiB"):
        if size < 1024:
            return f"{size:.0f} {unit}" if unit == "B" else f"{size:.1f} {unit}"
        size /= 1024
    return f"{size:.1f} GiB"


@contextlib.contextmanager
def fallback_budget(calls: int) -> Iterator[None]:
    """Refuse more than so many fallbacks inside the block: NotImplementedError with operator, shapes and Python line.

    Counts the calls of the whole process, not of this thread only, since autograd runs backward passes on its own
    threads. Blocks may be nested. A call then counts in all of them, and the innermost that is used up refuses it.
    Forced fallbacks count too. If something swallows the refusal, leaving the block raises it again.

    Arguments:
        calls: how many fallbacks are allowed; 0 allows none.

    Raises:
        NotImplementedError: an operator would have fallen back once more than allowed.
        ValueError: a negative number.
    """
    if calls < 0:
        raise ValueError(f"fallback_budget({calls}): the number of allowed calls cannot be negative")
    number = _core.open_budget(calls)
    try:
        yield
    except BaseException:
        _core.close_budget(number)
        raise
    refusal = _core.close_budget(number)
    if refusal:
        raise NotImplementedError(refusal)


@contextlib.contextmanager
def force_fallback(*operators: str) -> Iterator[None]:
    """Run these operators on the CPU inside the block, counted, although the device has kernels for them.

    This helps to find a kernel that computes wrongly: force half of the operators of a model, then half of the half
    that made a difference. Names are those of `fallbacks()`: "aten::add.Tensor"; "aten::add.out" is another operator.
    Forced calls neither warn nor raise under TB_FALLBACK. The block holds for all threads. No thread may call one of
    the operators while the block is entered or left.

    Raises:
        ValueError: there is no such operator; the text lists close ones.
        NotImplementedError: the CPU cannot run it, or it is composed of other operators and has no kernel.
    """
    with contextlib.ExitStack() as forced:
        for operator in operators:
            name, overload = _checked(operator)
            _core.force_fallback(name, overload)
            forced.callback(_core.release_fallback, name, overload)
        yield


def force_for_good(operators: str) -> None:
    """Force the fallback of a comma-separated list (TB_FORCE_FALLBACK) until the process ends."""
    for operator in filter(None, (part.strip() for part in operators.split(","))):
        _core.force_fallback(*_checked(operator))


def _checked(operator: str) -> tuple[str, str]:
    known = torch._C._dispatch_get_all_op_names()
    if operator not in known:
        close = sorted(n for n in known if n.split(".")[0] == operator)
        close = close or difflib.get_close_matches(operator, known, n=5, cutoff=0.6)
        hint = f"Did you mean {', '.join(close)}?" if close else "Names look like aten::add.Tensor."
        raise ValueError(f"force_fallback: there is no operator {operator!r}. {hint}")
    name, _, overload = operator.partition(".")
    return name, overload
