"""Dtypes that CUDA takes and the CPU does not: clients that know neither tb nor its kernels give it those of CUDA.

PyTorch's database of operators says which dtypes they are. What tb refuses of them is in REFUSED, with the reason.
"""

from __future__ import annotations

import dataclasses
import fnmatch
import warnings

import pytest
import torch
from torch_backend.conformance import databases, samples
from torch_backend.conformance.profiles import Limits

LIMITS = Limits(samples=2, window=8, elements=2000, repeats=1)


@dataclasses.dataclass(frozen=True)
class Refused:
    """Operators by patterns of their names, dtypes by their names, and why tb does not take them."""

    operators: str
    dtypes: str
    reason: str
    since_a_later_torch: bool = False
    """Whether only the databases of some supported versions of PyTorch list them."""

    def holds(self, operator: str, dtype: str) -> bool:
        return dtype in self.dtypes.split() and any(fnmatch.fnmatch(operator, one) for one in self.operators.split())


REFUSED = [
    Refused("*", "complex32", "a dtype that hardly any model uses, and that few of the CPU's kernels take"),
    Refused(
        "fft.* stft",
        "float16 bfloat16",
        "not yet: needs float32 inside. CUDA takes lengths that are powers of 2 only, so models cast to float32",
    ),
    Refused(
        "nn.functional.avg_pool3d _upsample_bilinear2d_aa",
        "float16 bfloat16",
        "not yet: needs float32 inside, forward and backward",
    ),
    Refused(
        "nn.functional.multi_margin_loss nn.functional.multilabel_margin_loss",
        "float16 bfloat16",
        "autocast gives these losses float32",
    ),
    Refused("sparse.sampled_addmm", "float16 bfloat16", "a kernel of cuSPARSE's", since_a_later_torch=True),
    Refused(
        "scatter",
        "float8_e4m3fn float8_e4m3fnuz float8_e5m2 float8_e5m2fnuz",
        "not yet: the CPU's kernel does not take them",
        since_a_later_torch=True,
    ),
    Refused("nansum nanmean", "complex64 complex128", "PyTorch refuses it on every device but CUDA"),
    Refused("abs nn.functional.softsign trace", "bool", "mathematics on truth values, which no known model needs"),
    Refused(
        "torch.ops.aten._flash_attention_forward torch.ops.aten._efficient_attention_forward",
        "float16 float32 bfloat16",
        "kernels of CUDA by their names; scaled_dot_product_attention is what runs on every device",
    ),
]


def calls() -> list[tuple[str, torch.dtype]]:
    return [
        (name, dtype)
        for name, operator in databases.operators().items()
        for dtype in sorted(set(operator.dtypesIfCUDA) - set(operator.dtypes), key=databases.usual_first)
    ]


def refusal(name: str, dtype: torch.dtype) -> str | None:
    """What the operator raises for samples of this dtype; None if it computes."""
    operator = databases.operators()[name]
    try:
        for sample in samples.samples(operator, dtype, LIMITS):
            sample.call(operator, torch.device("tb"))
            torch.accelerator.synchronize()
    except (NotImplementedError, RuntimeError) as error:
        return f"{type(error).__name__}: {error}"
    return None


@pytest.fixture(scope="module")
def refused() -> dict[tuple[str, str], str | None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return {(name, databases.dtype_name(dtype)): refusal(name, dtype) for name, dtype in calls()}


def test_what_is_refused_has_a_reason(refused: dict[tuple[str, str], str | None]) -> None:
    unexplained = {call: text for call, text in refused.items() if text and not any(r.holds(*call) for r in REFUSED)}
    assert not unexplained


def test_a_reason_is_for_what_is_refused(refused: dict[tuple[str, str], str | None]) -> None:
    for row in REFUSED:
        found = {call: text for call, text in refused.items() if row.holds(*call)}
        assert found or row.since_a_later_torch, f"{row}: CUDA takes no such dtype that the CPU does not"
        if row.operators != "*":
            assert all(found.values()), f"{row}: these work: {[call for call, text in found.items() if not text]}"


def test_the_other_dtypes_of_cuda_work(refused: dict[tuple[str, str], str | None]) -> None:
    assert [call for call, text in refused.items() if not text]
