"""Traces of allocations made from seeds: kinds of programs that stress an allocator in ways of their own.

Sizes and lifetimes follow what such programs do; none is recorded. The same name and seed give the same trace.
"""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterator
from contextlib import contextmanager

KIB, MIB = 1 << 10, 1 << 20


class Writer:
    """Collects the lines of a trace."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        self.lines: list[str] = []
        self._next = 0

    def mark(self, text: str) -> None:
        self.lines.append(f"# {text}")

    def allocate(self, nbytes: int, stream: int = 0) -> int:
        self.lines.append(f"a {self._next} {max(nbytes, 1)} {stream}")
        self._next += 1
        return self._next - 1

    def free(self, *blocks: int) -> None:
        self.lines.extend(f"f {block}" for block in blocks)

    def record(self, block: int, stream: int) -> None:
        self.lines.append(f"r {block} {stream}")

    @contextmanager
    def temporary(self, *sizes: int, stream: int = 0) -> Iterator[None]:
        blocks = [self.allocate(size, stream) for size in sizes]
        yield
        self.free(*reversed(blocks))


def _moe(out: Writer) -> None:
    """A transformer with experts: each expert gets a random part of the tokens, other parts every step."""
    layers, experts, hidden = 24, 16, 2048
    for _ in range(layers):
        out.allocate(4 * hidden * hidden * 2)
        for _ in range(experts):
            out.allocate(3 * hidden * hidden * 2 // 4)
    for step in range(8):
        out.mark(f"step {step}")
        tokens = out.random.randint(4096, 16384)
        saved: list[list[int]] = []
        for _ in range(layers):
            kept = [out.allocate(tokens * hidden * 2) for _ in range(3)]
            weights = [out.random.expovariate(1) for _ in range(experts)]
            for weight in weights:
                part = int(2 * tokens * weight / sum(weights))
                with out.temporary(part * 8, part * hidden * 2):
                    kept.append(out.allocate(part * hidden * 2))
                    kept.append(out.allocate(part * hidden))
            saved.append(kept)
        with out.temporary(tokens * 32000 * 2, tokens * 32000 * 4):
            pass
        gradients = []
        for kept in reversed(saved):
            with out.temporary(tokens * hidden * 2, tokens * hidden * 4):
                gradients.append(out.allocate(hidden * hidden * 2))
            out.free(*kept)
        out.free(*gradients)


def _pipeline(out: Writer) -> None:
    """One stage of interleaved 1F1B: several micro-batches are alive, sent and received on a stream of their own."""
    layers, hidden, depth = 12, 4096, 6
    for _ in range(layers * 7):
        out.allocate(hidden * hidden * 2)
    alive: list[list[int]] = []

    def forward() -> None:
        tokens = out.random.randint(2048, 8192)
        received = out.allocate(tokens * hidden * 2, 1)
        out.record(received, 0)
        kept = [received]
        for _ in range(layers):
            with out.temporary(tokens * hidden * 2, tokens * 4 * hidden * 2):
                kept.extend(out.allocate(tokens * hidden * 2) for _ in range(3))
        alive.append(kept)

    def backward() -> None:
        kept = alive.pop(0)
        gradient = out.allocate(64 * MIB + out.random.randint(0, 8 * MIB), 1)
        out.record(gradient, 0)
        for start in range(len(kept), 0, -3):
            with out.temporary(96 * MIB, 33 * MIB):
                pass
            out.free(*kept[max(start - 3, 0) : start])
        out.free(gradient)

    for step in range(10):
        out.mark(f"step {step}")
        for _ in range(depth):
            forward()
        for _ in range(8):
            backward()
            forward()
        while alive:
            backward()


def _vision(out: Writer) -> None:
    """A convolutional network on images of varying size: activations shrink with depth, workspaces are large."""
    for _ in range(160):
        out.allocate(out.random.choice([64 * KIB, 256 * KIB, MIB, 4 * MIB, 9 * MIB]))
    for step in range(60):
        out.mark(f"step {step}")
        side = 32 * out.random.randint(6, 28)
        batch = 16
        kept = [out.allocate(batch * 3 * side * side * 4)]
        for stage in range(5):
            channels, width = 64 << stage, side >> (stage + 1)
            for _ in range(6):
                activation = batch * channels * width * width * 2
                with out.temporary(min(activation * 3, 700 * MIB)):
                    kept.append(out.allocate(activation))
                kept.append(out.allocate(channels * 8))
                kept.append(out.allocate(activation // 8))
        while kept:
            block = kept.pop()
            with out.temporary(out.random.randint(1 * MIB, 64 * MIB)):
                out.free(block)


def _serving(out: Writer) -> None:
    """Requests come and go; each grows its keys and values by blocks, and a prompt makes a spike."""
    for _ in range(200):
        out.allocate(out.random.choice([8 * KIB, 32 * MIB, 90 * MIB]))
    active: list[list[int]] = []
    for step in range(3000):
        if step % 500 == 0:
            out.mark(f"token {step}")
        if len(active) < 64 and out.random.random() < 0.15:
            tokens = int(out.random.lognormvariate(6.5, 1))
            with out.temporary(tokens * 28672, tokens * 8192, tokens * 4096 * 4):
                active.append([out.allocate(min(tokens, 8192) * 4096 + 4096)])
        for request in active:
            if out.random.random() < 0.2:
                request.append(out.allocate(256 * KIB * out.random.randint(1, 8)))
            if len(request) > 12:
                out.free(request.pop(out.random.randrange(1, len(request))))
        rows = max(len(active), 1)
        with out.temporary(rows * 8192, rows * 28672, rows * 128256 * 4, rows * 8192):
            pass
        for request in [one for one in active if out.random.random() < 0.008]:
            active.remove(request)
            out.free(*request)


def _frames(out: Writer) -> None:
    """A data frame library: sizes from 256 B to 1 GiB, evenly by magnitude, on 8 streams."""
    live: list[int] = []
    total: dict[int, int] = {}
    held = 0
    for _ in range(60000):
        if live and (held > 24 << 30 or out.random.random() < 0.47):
            block = live.pop(out.random.randrange(max(0, len(live) - 40), len(live)))
            held -= total.pop(block)
            out.free(block)
            continue
        size = int(2 ** out.random.uniform(8, 30))
        block = out.allocate(size, out.random.randrange(8))
        if out.random.random() < 0.05:
            out.record(block, out.random.randrange(8))
        live.append(block)
        total[block] = size
        held += size


def _threads(out: Writer) -> None:
    """Eight threads with a stream each; a quarter of what one allocates another frees."""
    queues: list[list[int]] = [[] for _ in range(8)]
    for _ in range(120000):
        mine = out.random.randrange(8)
        if out.random.random() < 0.55 and len(queues[mine]) < 1500:
            size = out.random.choice([512, 2 * KIB, 20 * KIB, 200 * KIB, 3 * MIB]) + out.random.randrange(4096)
            target = mine if out.random.random() < 0.75 else out.random.randrange(8)
            queues[target].append(out.allocate(size, mine))
        elif queues[mine]:
            out.free(queues[mine].pop(out.random.randrange(len(queues[mine]))))


def _loader(out: Writer) -> None:
    """Pinned memory of data loaders: batches are prefetched and copied, in four phases with other kinds of data."""
    for phase in range(4):
        out.mark(f"phase {phase}")
        batch = out.random.choice([8, 16, 32, 64])
        queue: list[list[int]] = []
        for _ in range(250):
            if phase % 2:  # images of one size
                sizes = [batch * 3 * 224 * 224 * 4, batch * 8]
            else:  # texts: padded to the longest of the batch
                tokens = batch * out.random.randint(64, 4096)
                sizes = [tokens * 8, tokens * 8, tokens, batch * 8]
            queue.append([out.allocate(size) for size in sizes])
            if len(queue) > 6:
                out.free(*queue.pop(0))
            if out.random.random() < 0.02:  # a state that is offloaded and fetched
                parts = [out.allocate(out.random.randint(1 * MIB, 40 * MIB)) for _ in range(4)]
                out.free(*parts)
        while queue:
            out.free(*queue.pop())


def _texts(out: Writer) -> None:
    """Pinned memory of a loader of texts only: no two batches have the same length."""
    queue: list[list[int]] = []
    for _ in range(1500):
        tokens = 32 * out.random.randint(64, 4096)
        queue.append([out.allocate(size) for size in (tokens * 8, tokens * 8, tokens, 32 * 8)])
        if len(queue) > 6:
            out.free(*queue.pop(0))
    while queue:
        out.free(*queue.pop())


def _offload(out: Writer) -> None:
    """Pinned memory of training that offloads: optimizer states stay, activations go out and come back each step."""
    for _ in range(24):
        for size in (8 * MIB, 4 * MIB, 16 * KIB, 16 * KIB):
            out.allocate(size)
    for step in range(30):
        out.mark(f"step {step}")
        tokens = out.random.randint(256, 4096)
        kept = [[out.allocate(size) for size in (tokens * 2048, tokens * 2048, tokens * 4)] for _ in range(24)]
        while kept:
            out.free(*kept.pop())
            if len(kept) % 4 == 0:  # a bucket of gradients
                with out.temporary(25 * MIB):
                    pass


def _swap(out: Writer) -> None:
    """Pinned memory of serving: sequences of all lengths are swapped out and in, as the load rises and falls."""
    live: list[int] = []
    for step in range(4000):
        wanted = 40 + 30 * math.sin(step / 150)
        if not live or (len(live) < wanted and out.random.random() < 0.8):
            live.append(out.allocate(int(2 ** out.random.uniform(0, 8)) * 128 * KIB))
        else:
            out.free(live.pop(out.random.randrange(len(live))))
    out.free(*live)


_MAKERS: dict[str, Callable[[Writer], None]] = {
    "moe": _moe,
    "pipeline": _pipeline,
    "vision": _vision,
    "serving": _serving,
    "frames": _frames,
    "threads": _threads,
}
_PINNED: dict[str, Callable[[Writer], None]] = {"loader": _loader, "texts": _texts, "offload": _offload, "swap": _swap}
NAMES = tuple(_MAKERS)
PINNED_NAMES = tuple(_PINNED)  # of host memory
ALL_NAMES = NAMES + PINNED_NAMES


def generate(name: str, seed: int = 0) -> str:
    """The text of a trace. ValueError for a name that is not in ALL_NAMES."""
    makers = _MAKERS | _PINNED
    if name not in makers:
        raise ValueError(f"there is no trace {name!r} to generate: use one of {', '.join(ALL_NAMES)}")
    out = Writer(seed)
    makers[name](out)
    return "\n".join(out.lines) + "\n"
