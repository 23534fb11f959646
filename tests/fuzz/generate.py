"""Generates a program from a seed. Drafts of steps are tried on the CPU; those that work are kept, and some others."""

from __future__ import annotations

import contextlib
import copy
import random
import re
import warnings
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from .catalogue import OPERATIONS
from .pool import FLOATS, LARGEST, Draft, Pool, Unfit
from .program import Case, Names, Step
from .stage import MODES, READS, Stage

_FUNCTIONS, _WEIGHTS = zip(*OPERATIONS, strict=True)
_NAME = re.compile(r"\b[st]\d+\b")
MOST_ALIVE = 14
# Calls for which PyTorch uses different operators on the CPU and on other devices in deterministic mode.
OTHERWISE_WHEN_DETERMINISTIC = ("mode='bilinear'", "F.max_pool1d")


def generate(seed: int, index: int) -> Case:
    """Case number `index` of a run with this seed. It is the same in every process."""
    chance = random.Random(f"{seed}/{index}")  # a text gives the same sequence in every process
    threads = chance.choice((1, 1, 1, 1, 1, 2, 3))
    streams = chance.choice((1, 1, 2, 3, 4))
    forced = threads == 1 and chance.random() < 0.3  # force_fallback affects all threads
    shared = _Writer(chance, Names("s"))
    for _ in range(chance.randint(1, 4) if threads > 1 else 0):
        with contextlib.suppress(Unfit):  # too large
            shared.add(Draft(shared.pool.make(shared.pool.shape(), shared.pool.dtype())))
    programs = []
    for _ in range(threads):
        # Threads share the default stream, so they share its errors, and they share most modes.
        alone = threads == 1
        writer = _Writer(chance, Names("t"), streams, forced, refusals=alone, modes=alone, grad=chance.random() < 0.4)
        writer.share(shared.pool)
        programs.append(writer.write(chance.randint(10, 60)))
    return Case(f"seed {seed} case {index}", tuple(shared.steps), tuple(programs), streams)


class _Operators(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Remembers the operators that ran, except those that force_fallback refuses because they work on storages."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.names: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        name = func.name()
        if torch._C._dispatch_has_kernel_for_dispatch_key(name, "CPU") and not name.startswith("aten::set_."):
            self.names.append(name)
        return func(*args, **(kwargs or {}))


class _Writer:
    """Writes one program."""

    def __init__(
        self,
        chance: random.Random,
        names: Names,
        streams: int = 1,
        forced: bool = False,
        refusals: bool = False,
        modes: bool = False,
        grad: bool = False,
    ) -> None:
        self.pool = Pool(chance, grad)
        self._refusals, self._modes = refusals, modes
        self.steps: list[Step] = []
        self._chance, self._streams, self._names, self._forced = chance, streams, names, forced
        self._stage = Stage("cpu", streams)
        self._space = {"torch": torch, "F": torch.nn.functional, "copy": copy, "stage": self._stage}

    def share(self, pool: Pool) -> None:
        self.pool.tensors.update(pool.tensors)
        self.pool.shared.update(pool.tensors)

    def write(self, count: int) -> tuple[Step, ...]:
        """Writes a program of about `count` steps."""
        for _ in range(2 if self.pool.grad else 0):
            shape = [size + 1 for size in self.pool.shape(3)]
            self.add(Draft(f"{self.pool.make(shape, self._chance.choice(FLOATS[:4]))}.requires_grad_()"))
        while len(self.steps) < count:
            kind = self._chance.random()
            own = [name for name in self.pool.tensors if name not in self.pool.shared]
            if len(own) > MOST_ALIVE or (len(own) > 4 and kind < 0.08):
                self._delete(self._chance.choice(own))
            elif own and kind < 0.16:
                self._read(own, self._stream())
            elif kind < 0.2:
                self._busy(self._stream())
            elif kind < 0.22:
                self.steps.append(Step(f"stage.callback({(stream := self._stream())})", stream=stream))
            else:
                self._try()
        return tuple(self.steps)

    def add(self, draft: Draft) -> None:
        """Runs a draft and appends it as a step. An exception of the draft is passed on."""
        forced: tuple[str, ...] = ()
        code = draft.code
        if draft.mode and not self._modes:
            raise Unfit
        mode = draft.mode or (self._chance.choice(MODES) if self._modes and self._chance.random() < 0.1 else "")
        if mode == "deterministic" and any(part in code for part in OTHERWISE_WHEN_DETERMINISTIC):
            mode = ""
        ran = _Operators()
        # Under a dispatch mode, operators on lists do not increment the version counters.
        watching = contextlib.nullcontext() if "_foreach_" in code else ran
        with warnings.catch_warnings(), self._stage.mode(mode), watching:
            warnings.simplefilter("ignore")
            value = eval(code, {**self._space, **self.pool.tensors})
        made = _tensors(value) if draft.makes else []
        if not draft.writes and any(x.numel() > LARGEST or x.layout != torch.strided for x in made):
            raise Unfit
        if self._forced and ran.names and self._chance.random() < 0.3:
            forced = (self._chance.choice(ran.names),)
        names = tuple(self._names.next() for _ in made)
        shares = []
        for name, tensor in zip(names, made, strict=True):
            same = [other for other in self.pool.tensors if _same(tensor, self.pool[other])]
            shares += [(name, same[0])] if same else []
            self.pool.tensors[name] = tensor
        if names:
            single = isinstance(value, Tensor)
            listed = names[0] if single else ", ".join([*names, *(["*_"] if len(value) > len(names) else [])])
            code = f"{listed}{',' if not single and len(value) == 1 else ''} = {code}"
        uses = [*_NAME.findall(draft.code), *(other for _, other in shares)]
        if draft.gathers:  # a backward pass reads tensors that earlier steps saved
            uses += self.pool.tensors
        uses = [name for name in dict.fromkeys(uses) if name not in names]
        stream = self._stream()
        marks = self._chance.random() < 0.3
        read_elsewhere = draft.blocks and self._streams > 1 and self._chance.random() < 0.3
        # The step must be complete when it returns, however much work its stream has left.
        if read_elsewhere:
            self._busy(stream)
        self.steps.append(
            Step(
                *(code, names, tuple(uses), draft.writes, draft.resizes, tuple(shares)),
                stream=stream,
                marks=marks,
                gathers=draft.gathers,
                forced=forced,
                blocks=draft.blocks,
                mode=mode,
            )
        )
        if read_elsewhere:
            self._read([*names, *draft.writes], (stream + 1) % self._streams)
        self._delete_broken()

    def _try(self) -> None:
        function = self._chance.choices(_FUNCTIONS, _WEIGHTS)[0]
        try:
            draft = function(self.pool)
        except Unfit:
            return
        before = [(name, self.pool[name].detach().clone()) for name in draft.writes]
        bare = [tensor for tensor in self.pool.tensors.values() if tensor.is_leaf and tensor.grad is None]
        try:
            self.add(draft)
        except Unfit:
            pass
        except Exception:
            if draft.writes or draft.gathers:  # the state after a failed write is not defined, so it is restored
                for name, values in before:
                    if self.pool[name].shape == values.shape:
                        self.pool[name].data.copy_(values)
                    else:
                        self._delete(name)
                for tensor in bare:
                    tensor.grad = None
                self._delete_broken()
            elif self._refusals and self._chance.random() < 0.5:
                uses = tuple(dict.fromkeys(_NAME.findall(draft.code)))
                step = Step(f"stage.refused(lambda: {draft.code})", uses=uses, stream=self._stream(), mode=draft.mode)
                self.steps.append(step)

    def _stream(self) -> int:
        return self._chance.randrange(self._streams)

    def _busy(self, stream: int) -> None:
        self.steps.append(Step(f"stage.busy({stream})", stream=stream))

    def _delete(self, name: str) -> None:
        del self.pool.tensors[name]
        self.steps.append(Step(f"del {name}", deletes=(name,)))

    def _delete_broken(self) -> None:
        for name in [name for name, tensor in self.pool.tensors.items() if _is_broken(tensor)]:
            self._delete(name)

    def _read(self, own: Sequence[str], stream: int) -> None:
        names = tuple(self._chance.sample(list(own), min(len(own), self._chance.choice((1, 1, 2, 5)))))
        code = f"stage.read({self._chance.choice(READS)!r}, {', '.join(names)})"
        self.steps.append(Step(code, uses=names, stream=stream))


def _is_broken(tensor: Tensor) -> bool:
    """Whether autograd refuses the tensor: one of several views of a base that was changed in place."""
    try:
        tensor.grad_fn  # noqa: B018 - looking is what raises
    except RuntimeError:
        return True
    return False


def _tensors(value: Any) -> list[Tensor]:
    """The tensors that a step names, at most four."""
    if isinstance(value, Tensor):
        return [value]
    if isinstance(value, (list, tuple)) and all(isinstance(part, Tensor) for part in value):
        return list(value[:4])
    raise Unfit


def _same(one: Tensor, other: Tensor) -> bool:
    return bool(one.untyped_storage()._cdata == other.untyped_storage()._cdata)
