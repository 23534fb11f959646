"""Devices whose threads compute with vectors get kernels of their own, with the results of the others."""

from __future__ import annotations

import pathlib

import pytest
from backends.case_report import case_report
from conftest import RunPython

# Every kernel takes time to compile, so each group runs a part of its cases: every STEP-th.
STEPS = {"unary": 23, "binary": 29, "copies": 13, "reductions": 7, "layers": 5, "products": 3, "channel_norms": 5}


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A cache that is empty at first and shared by these tests."""
    return tmp_path_factory.mktemp("kernels")


def variables(cache: pathlib.Path, vector_size: int) -> dict[str, str]:
    return {
        "TB_DRIVER": "sim",
        "TB_SIM_VECTOR_SIZE": str(vector_size),
        "TB_KERNEL_CACHE": str(cache),
        "TB_FALLBACK": "error",
    }


@pytest.mark.parametrize("group", STEPS)
def test_kernels_compute_on_a_device_with_vectors(group: str, cache: pathlib.Path) -> None:
    arguments = ["-m", "tb_ops.device_kernels.check", group, "--step", str(STEPS[group]), "--json"]
    report = case_report(arguments, variables(cache, 64))
    assert report["cases"] >= 4
    assert report["wrong"] == {}
    assert report["status"] == 0


PRODUCTS = """
    import hashlib, itertools, torch
    from tb_ops.device_kernels import used_kernels
    torch.manual_seed(5)
    # Parts and wholes of panels of 12 rows, tiles of 96, tiles of 32 and 64 columns, and slices of 32 and 64.
    shapes = [(1, 1, 1), (13, 17, 5), (12, 64, 64), (100, 70, 130), (97, 129, 63), (1, 200, 33)]
    def made(dtype, *sizes):
        return (torch.randn(sizes) * 20).to(dtype).to("tb")
    def show(x):
        print(hashlib.sha256(x.cpu().contiguous().view(torch.uint8).numpy().tobytes()).hexdigest())
    for dtype in (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int32, torch.int64):
        for (m, n, k), first, second in itertools.product(shapes, (False, True), (False, True)):
            a = made(dtype, 2, k, m).mT if first else made(dtype, 2, m, k)
            b = made(dtype, 2, n, k).mT if second else made(dtype, 2, k, n)
            show(torch.bmm(a, b))
            show(torch.addmm(made(dtype, n), a[0], b[1], beta=3, alpha=2))
            show(torch.mm(b[0].mT, a[1].mT).mT)
    print(sorted({kernel.function.partition("<")[0] for kernel in used_kernels()} & {"matmul", "matmul_vectors"}))
"""


@pytest.mark.parametrize("vector_size", [32, 64])
def test_products_with_vectors_have_the_bits_of_those_by_threads(
    vector_size: int, run_python: RunPython, cache: pathlib.Path
) -> None:
    threads, vectors = (
        run_python(PRODUCTS, env=variables(cache, size)).stdout.splitlines() for size in (0, vector_size)
    )
    assert threads.pop() == "['matmul']"
    assert vectors.pop() == "['matmul_vectors']"
    assert len(threads) == 6 * 6 * 4 * 3
    assert vectors == threads


def test_the_bits_of_a_row_of_a_product_do_not_depend_on_the_batch(run_python: RunPython, cache: pathlib.Path) -> None:
    code = """
        import torch
        torch.manual_seed(5)
        a, b = torch.randn(131, 77).to("tb"), torch.randn(77, 90).to("tb")
        whole = torch.mm(a, b)
        parts = [slice(i, i + n) for i in range(0, 118, 9) for n in (1, 2, 13)]
        print(all(torch.equal(torch.mm(a[part], b), whole[part]) for part in parts))
        print(torch.equal(torch.bmm(a.expand(3, -1, -1), b.expand(3, -1, -1))[2], whole))
    """
    assert run_python(code, env=variables(cache, 64)).stdout.split() == ["True", "True"]


def test_elementwise_operands_without_gaps_have_a_kernel_of_their_own(
    run_python: RunPython, cache: pathlib.Path
) -> None:
    code = """
        import torch
        from tb_ops.device_kernels import used_kernels
        x = torch.arange(35, dtype=torch.float32).view(5, 7)
        y = x.to("tb")
        calls = [lambda t: t * t, lambda t: t * 3, lambda t: t * torch.tensor(2.5), lambda t: t.mT * t.mT,
                 lambda t: t[:, 1:] * 2, lambda t: t * t[0], lambda t: t * t.to(torch.int32), lambda t: t[2, 3] * 2]
        for call in calls:
            assert torch.equal(call(y).cpu(), call(x))
        kernels = [kernel.function for kernel in used_kernels()]
        print(len(calls), sum(name.startswith(("pointwise<Multiply", "pointwise_dense<Multiply")) for name in kernels))
    """
    assert run_python(code, env=variables(cache, 64)).stdout.split() == ["8", "2"]
    assert run_python(code, env=variables(cache, 0)).stdout.split() == ["8", "1"]
