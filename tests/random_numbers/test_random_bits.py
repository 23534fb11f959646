"""Random operators on tb are bit-identical to tb_generator alone on every driver; checkpoints repeat their numbers."""

from __future__ import annotations

import hashlib
import os
import subprocess
import sys
from collections.abc import Callable

import numpy
import pytest
import tb_generator
import torch
import torch.nn.functional as F
from tb_generator import Generator
from torch import Tensor
from torch.utils.checkpoint import checkpoint
from torch_backend.conformance.bits import bit_identical

COUNT, SEED = 30_011, 5

PAIRS: dict[str, tuple[Callable[[Tensor], Tensor], Callable[[Generator, numpy.ndarray], object], list[str]]] = {
    "uniform": (lambda t: t.uniform_(-2, 3), lambda g, a: g.uniform(a, -2, 3), ["float32", "float64", "float16"]),
    "normal": (lambda t: t.normal_(1, 2), lambda g, a: g.normal(a, 1, 2), ["float32", "float64", "float16"]),
    "exponential": (lambda t: t.exponential_(2), lambda g, a: g.exponential(a, 2), ["float32", "float64"]),
    "cauchy": (lambda t: t.cauchy_(1, 2), lambda g, a: g.cauchy(a, 1, 2), ["float32", "float64"]),
    "log_normal": (lambda t: t.log_normal_(0, 1), lambda g, a: g.log_normal(a, 0, 1), ["float32", "float64"]),
    "geometric": (lambda t: t.geometric_(0.2), lambda g, a: g.geometric(a, 0.2), ["float32", "int64", "uint8"]),
    "integers": (lambda t: t.random_(-5, 95), lambda g, a: g.integers(a, -5, 95), ["int64", "int32", "float32"]),
    "bernoulli": (lambda t: t.bernoulli_(0.3), lambda g, a: g.bernoulli(a, 0.3), ["float32", "bool", "int64"]),
}
CASES = [(name, dtype) for name, (_, _, dtypes) in PAIRS.items() for dtype in dtypes]


@pytest.mark.parametrize(("name", "dtype"), CASES)
def test_random_operators_draw_the_numbers_of_the_generator_alone(name: str, dtype: str) -> None:
    on_torch, alone, _ = PAIRS[name]
    torch.manual_seed(SEED)
    drawn = [on_torch(torch.empty(count, device="tb", dtype=getattr(torch, dtype))).cpu() for count in (COUNT, 7)]
    generator = tb_generator.Generator(SEED)
    for got in drawn:
        expected = numpy.empty(got.shape, dtype)
        alone(generator, expected)
        assert got.numpy().tobytes() == expected.tobytes()


def test_permutations_and_dropout_are_those_of_the_generator_alone() -> None:
    torch.manual_seed(SEED)
    order = torch.randperm(COUNT, device="tb").cpu()
    dropped = F.dropout(torch.full((COUNT,), 3.0, device="tb"), 0.3).cpu()
    generator = tb_generator.Generator(SEED)
    assert order.tolist() == generator.permutation(COUNT).tolist()
    assert (dropped.numpy() == generator.dropout(numpy.full(COUNT, 3.0, "f4"), 0.3)).all()


def everything() -> str:
    """A hash of the results of all cases, and of results in strided tensors."""
    digest = hashlib.sha256()
    torch.manual_seed(SEED)
    for name, dtype in CASES:
        drawn = PAIRS[name][0](torch.empty(COUNT, device="tb", dtype=getattr(torch, dtype)))
        digest.update(drawn.cpu().numpy().tobytes())
    digest.update(torch.empty(40, 60, device="tb").t().normal_().cpu().contiguous().numpy().tobytes())
    digest.update(F.dropout(torch.ones(50, 60, device="tb").t(), 0.3).cpu().contiguous().numpy().tobytes())
    digest.update(torch.randperm(COUNT, device="tb").cpu().numpy().tobytes())
    return digest.hexdigest()


@pytest.mark.parametrize("driver", ["cpu", "sim"])
def test_every_driver_gives_bit_identical_numbers(driver: str) -> None:
    program = "import test_random_bits; print(test_random_bits.everything())"
    environment = {
        **os.environ,
        "TB_DRIVER": driver,
        "PYTHONPATH": os.pathsep.join([os.path.dirname(__file__), *sys.path]),
    }
    done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True, check=False)
    assert done.stdout.strip() == everything(), done.stderr


def test_a_checkpoint_draws_the_same_dropout_again() -> None:
    torch.manual_seed(SEED)
    x = torch.ones(200, 50, device="tb", requires_grad=True)

    def layer(value: Tensor) -> Tensor:
        return F.dropout(value, 0.5) * value

    state = torch.tb.get_rng_state()  # type: ignore[attr-defined]
    [plain] = torch.autograd.grad(layer(x).sum(), x)
    after = torch.tb.get_rng_state()  # type: ignore[attr-defined]
    torch.tb.set_rng_state(state)  # type: ignore[attr-defined]
    [again] = torch.autograd.grad(checkpoint(layer, x, use_reentrant=False).sum(), x)
    assert bit_identical(plain, again)
    assert bit_identical(torch.tb.get_rng_state(), after)  # type: ignore[attr-defined]
