"""The timed calls: each distribution by tb-generator, PyTorch and NumPy, into memory that is allocated beforehand."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy
import tb_generator
import torch

from benchmarks.interleave import Call

ELEMENTS = 10_000_000


@dataclass(frozen=True)
class Case:
    """The calls that draw the numbers, by library, and the aims.

    `aims`: how many times faster than torch, and than NumPy's fastest, tb-generator must be. `share`: the part of the
    elements that a call draws.
    """

    calls: dict[str, Call]
    aims: dict[str, float] = field(default_factory=dict)
    share: float = 1


def cases(elements: int = ELEMENTS) -> dict[str, Case]:
    """The cases by name. The caller must have set torch to one thread. `tb in NumPy` is tb's Philox behind NumPy."""
    ours = tb_generator.Generator(1)
    bits: dict[str, Any] = {
        "NumPy PCG64": numpy.random.PCG64(1),
        "NumPy Philox": numpy.random.Philox(1),
        "tb in NumPy": tb_generator.Philox(1),
    }
    numpies = {name: numpy.random.Generator(one) for name, one in bits.items()}
    floats, doubles = (numpy.empty(elements, dtype) for dtype in ("f4", "f8"))
    flags = numpy.empty(elements, bool)
    tensor = torch.empty(elements)
    source = numpy.random.Generator(bits["NumPy PCG64"]).standard_normal(elements, dtype="f4")
    torch_source = torch.from_numpy(source)

    def each(make: Callable[[numpy.random.Generator], Call]) -> dict[str, Call]:
        return {name: make(generator) for name, generator in numpies.items()}

    def bernoulli(generator: numpy.random.Generator) -> Call:
        return lambda: numpy.less(generator.random(out=floats, dtype="f4"), 0.3, out=flags)

    def dropout(generator: numpy.random.Generator) -> Call:
        def run() -> Any:
            numpy.less(generator.random(out=floats, dtype="f4"), 0.7, out=flags)
            numpy.multiply(source, flags, out=floats)
            return numpy.multiply(floats, numpy.float32(1 / 0.7), out=floats)

        return run

    def torch_fill(dtype: torch.dtype, method: str, *arguments: float) -> Call:
        whole = torch.empty(elements, dtype=dtype)
        return lambda: getattr(whole, method)(*arguments)

    def integers(dtype: str) -> Case:
        out = numpy.empty(elements, dtype)
        return Case(
            {
                "tb": lambda: ours.integers(out, 0, 1000, threads=1),
                "torch": torch_fill(getattr(torch, dtype), "random_", 0, 1000),
                **each(lambda generator: lambda: generator.integers(0, 1000, elements, dtype=dtype)),
            },
            {"torch": 5},
        )

    both = {"torch": 5.0, "NumPy": 2.0}
    return {
        "uniform float32": Case(
            {
                "tb": lambda: ours.uniform(floats, threads=1),
                "torch": lambda: tensor.uniform_(),
                **each(lambda generator: lambda: generator.random(out=floats, dtype="f4")),
            },
            both,
        ),
        "normal float32": Case(
            {
                "tb": lambda: ours.normal(floats, threads=1),
                "torch": lambda: tensor.normal_(),
                **each(lambda generator: lambda: generator.standard_normal(out=floats, dtype="f4")),
            },
            both,
        ),
        "bernoulli float32": Case(
            {
                "tb": lambda: ours.bernoulli(floats, 0.3, threads=1),
                "torch": lambda: tensor.bernoulli_(0.3),
                **each(bernoulli),
            },
            both,
        ),
        "dropout float32": Case(
            {
                "tb": lambda: ours.dropout(source, 0.3, out=floats, mask=flags, threads=1),
                "torch": lambda: torch.nn.functional.dropout(torch_source, 0.3),
                **each(dropout),
            },
            both,
        ),
        "exponential float32": Case(
            {
                "tb": lambda: ours.exponential(floats, threads=1),
                "torch": lambda: tensor.exponential_(),
                **each(lambda generator: lambda: generator.standard_exponential(out=floats, dtype="f4")),
            },
            {"torch": 5},
        ),
        "integers int64": integers("int64"),
        "integers int32": integers("int32"),
        "uniform float64": Case(
            {
                "tb": lambda: ours.uniform(doubles, threads=1),
                "torch": torch_fill(torch.float64, "uniform_"),
                **each(lambda generator: lambda: generator.random(out=doubles)),
            }
        ),
        "normal float64": Case(
            {
                "tb": lambda: ours.normal(doubles, threads=1),
                "torch": torch_fill(torch.float64, "normal_"),
                **each(lambda generator: lambda: generator.standard_normal(out=doubles)),
            }
        ),
        "permutation": Case(
            {
                "tb": lambda: ours.permutation(elements // 10),
                "torch": lambda: torch.randperm(elements // 10),
                **each(lambda generator: lambda: generator.permutation(elements // 10)),
            },
            share=0.1,
        ),
    }
