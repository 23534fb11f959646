"""`python -m tb_ops.coverage` describes operators correctly, checked by calling a sample of PyTorch's op_db."""

from __future__ import annotations

import json
import pathlib
import warnings
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
import tb_device
import torch
from conftest import RunPython
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_any, tree_map

tb: Any = torch.tb  # type: ignore[attr-defined]

NATIVE = {"native-async", "native-sync"}
STEP = 10  # every tenth entry of op_db is sampled


@pytest.fixture(scope="module")
def listing() -> dict[str, Any]:
    from tb_ops import coverage

    return {operator.name: operator for operator in coverage.operators()}


class Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    """Records the overloads that reach the dispatcher below autograd with a tb tensor."""

    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.called: set[str] = set()

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if tree_any(lambda x: isinstance(x, torch.Tensor) and x.device.type == "tb", (args, kwargs)):
            self.called.add(func.name())
        return func(*args, **(kwargs or {}))


@pytest.fixture(scope="module")
def sampled() -> list[tuple[str, set[str], set[str]]]:
    """For each sampled entry of op_db: its name, the overloads that its first float32 sample calls, and fallbacks."""
    from torch.testing._internal.common_methods_invocations import op_db

    def to_tb(value: Any) -> Any:
        return value.to("tb") if isinstance(value, torch.Tensor) else value

    out = []
    tb.init()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        for info in op_db[::STEP]:
            if torch.float32 not in info.dtypes:
                continue
            make: Any = info.sample_inputs
            samples = list(make("cpu", torch.float32, requires_grad=False))[:3]
            tb.reset_fallbacks()
            with Recorder() as recorder:
                for sample in samples:
                    info.op(to_tb(sample.input), *tree_map(to_tb, sample.args), **tree_map(to_tb, sample.kwargs))
            out.append((info.full_name, recorder.called, {row.operator for row in tb.fallbacks()}))
        # Hardly an entry of op_db falls back, so an operator that does is added.
        tb.reset_fallbacks()
        with Recorder() as recorder:
            torch.ops.aten._nested_compute_contiguous_strides_offsets(torch.ones(2, 3, dtype=torch.int64, device="tb"))
        out.append(("sizes of nested tensors", recorder.called, {row.operator for row in tb.fallbacks()}))
    return out


def test_the_sample_is_large_enough(sampled: list[tuple[str, set[str], set[str]]], listing: dict[str, Any]) -> None:
    kinds = Counter(listing[name].kind for _, called, _ in sampled for name in called if name in listing)
    assert len(sampled) >= 50
    assert kinds["native-async"] >= 40
    assert kinds["fallback"] >= 1
    assert kinds["composite"] >= 5


def test_only_operators_listed_as_fallback_enter_the_statistics(
    sampled: list[tuple[str, set[str], set[str]]], listing: dict[str, Any]
) -> None:
    wrong = {
        (entry, name, listing[name].kind)
        for entry, _, fell in sampled
        for name in fell
        if listing[name].kind != "fallback"
    }
    assert not wrong


def test_operators_listed_as_fallback_enter_the_statistics_when_called(
    sampled: list[tuple[str, set[str], set[str]]], listing: dict[str, Any]
) -> None:
    missing = {
        (entry, name)
        for entry, called, fell in sampled
        for name in called - fell
        if name in listing and listing[name].kind == "fallback"
    }
    assert not missing


def test_no_operator_that_ran_is_listed_as_unsupported(
    sampled: list[tuple[str, set[str], set[str]]], listing: dict[str, Any]
) -> None:
    assert not {
        name for _, called, _ in sampled for name in called if name in listing and listing[name].kind == "unsupported"
    }


def test_every_aten_overload_of_the_dispatcher_is_listed_once(listing: dict[str, Any]) -> None:
    from tb_ops import coverage

    names = [name for name in torch._C._dispatch_get_all_op_names() if name.startswith("aten::")]
    assert sorted(listing) == sorted(set(names))
    assert len(names) > 2500
    assert {operator.kind for operator in listing.values()} == set(coverage.KINDS)
    assert all(operator.reason for operator in listing.values() if operator.kind != "native-async")


def test_native_means_a_registered_kernel(listing: dict[str, Any]) -> None:
    registered = {name for name in listing if torch._C._dispatch_has_kernel_for_dispatch_key(name, "PrivateUse1")}
    assert registered == {name for name, operator in listing.items() if operator.kind in NATIVE}


def test_well_known_operators_are_where_they_belong(listing: dict[str, Any]) -> None:
    kinds = {
        "aten::add.Tensor": "native-async",
        "aten::convolution_overrideable": "native-async",
        "aten::nonzero": "native-sync",
        "aten::_local_scalar_dense": "native-sync",
        "aten::matmul": "composite",
        "aten::select.int": "composite",
        "aten::mode": "native-async",
        "aten::histc": "native-async",
        "aten::_validate_compressed_sparse_indices": "fallback",
        "aten::_indices": "unsupported",
    }
    assert {name: listing[name].kind for name in kinds} == kinds
    assert "size of the result depends on the data" in listing["aten::nonzero"].reason
    assert "SparseCPU" in listing["aten::_indices"].reason
    assert "first call with new shapes waits" in listing["aten::histc"].reason


def test_every_kernel_that_tb_ops_lists_as_waiting_exists(listing: dict[str, Any]) -> None:
    from tb_ops import _core

    assert {name for name, _ in _core.synchronous_operators()} == {
        name for name, operator in listing.items() if operator.kind == "native-sync"
    }


@pytest.mark.filterwarnings("ignore")
def test_operators_that_make_unsupported_tensors_are_listed_and_refused(
    listing: dict[str, Any],
) -> None:
    aten, x = torch.ops.aten, torch.ones(2, 3, device="tb")
    integers = torch.ones(2, 3, dtype=torch.int8, device="tb")
    calls: dict[str, Callable[[], Any]] = {
        "aten::to_mkldnn": lambda: aten.to_mkldnn(x),
        "aten::quantize_per_tensor": lambda: aten.quantize_per_tensor(x, 0.1, 0, torch.qint8),
        "aten::_make_per_tensor_quantized_tensor": lambda: aten._make_per_tensor_quantized_tensor(integers, 0.1, 0),
    }
    for name, call in calls.items():
        assert (name, listing[name].kind) == (name, "unsupported")
        with pytest.raises(NotImplementedError):
            call()


def test_every_kernel_listed_as_sometimes_waiting_exists(listing: dict[str, Any]) -> None:
    from tb_ops import coverage

    assert {listing[name].kind for name in coverage.SOMETIMES_WAIT} == {"native-async"}
    assert "boolean mask" in listing["aten::index.Tensor"].reason


def test_a_forced_operator_is_listed_as_forced_while_it_is(listing: dict[str, Any]) -> None:
    from tb_ops import coverage

    with tb.force_fallback("aten::add.Tensor"):
        assert {o.name: o.kind for o in coverage.operators()}["aten::add.Tensor"] == "fallback"
    assert {o.name: o.kind for o in coverage.operators()} == {name: o.kind for name, o in listing.items()}


def test_the_command_writes_json_and_a_page(run_python: RunPython, tmp_path: pathlib.Path) -> None:
    code = f"""
        import runpy, sys
        sys.argv = ["coverage", "--json", {str(tmp_path / "c.json")!r}, "--markdown", {str(tmp_path / "c.md")!r},
                    "--missing"]
        runpy.run_module("tb_ops.coverage", run_name="__main__")
    """
    done = run_python(code)
    facts = json.loads((tmp_path / "c.json").read_text())
    assert facts["total"] == len(facts["operators"]) == sum(facts["counts"].values())
    assert facts["counts"] == dict(Counter(row["kind"] for row in facts["operators"]))
    page = (tmp_path / "c.md").read_text()
    assert "| `aten::_validate_compressed_sparse_indices` |" in page
    assert f"| fallback | {facts['counts']['fallback']} |" in page
    assert "aten::_validate_compressed_sparse_indices: fallback" in done.stdout
    assert "aten::add.Tensor:" not in done.stdout


def test_on_a_driver_without_kernels_nearly_everything_falls_back(
    run_python: RunPython, compile_driver: Callable[[pathlib.Path], pathlib.Path], tmp_path: pathlib.Path
) -> None:
    library = compile_driver(pathlib.Path(tb_device.__file__).parent / "new_driver" / "c" / "mychip.c")
    code = f"import sys; from tb_ops.coverage import main; sys.exit(main(['--json', {str(tmp_path / 'c.json')!r}]))"
    run_python(code, {"TB_DRIVER": str(library)})
    facts = json.loads((tmp_path / "c.json").read_text())
    kinds = {row["name"]: row["kind"] for row in facts["operators"]}
    assert kinds["aten::add.out"] == "fallback"
    assert kinds["aten::as_strided"] == "native-async"
    assert not facts["native"]


def test_without_a_usable_driver_the_command_says_so(run_python: RunPython) -> None:
    code = "import sys; from tb_ops.coverage import main; sys.exit(main([]))"
    done = run_python(code, {"TB_DRIVER": "/nowhere/driver.so"}, check=False)
    assert done.returncode == 1
    assert "/nowhere/driver.so" in done.stderr
