"""Fallback statistics, budgets, forced fallbacks and the report."""

from __future__ import annotations

import contextlib
import threading
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from conftest import RunPython
from fallback import example_operators  # noqa: F401 - registers example::mode
from torch_backend.conformance.bits import bit_identical

tb: Any = torch.tb  # type: ignore[attr-defined]


@pytest.fixture(autouse=True)
def empty_statistics() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        tb.set_fallback_mode("allow")
        tb.reset_fallbacks()
        yield
        tb.set_fallback_mode("warn")


def mode_of(x: torch.Tensor) -> torch.Tensor:
    return torch.ops.example.mode(x)[0]  # type: ignore[no-any-return]


def rows() -> dict[str, Any]:
    return {row.operator: row for row in tb.fallbacks()}


# ---- statistics ------------------------------------------------------------------------------------------------------


def test_calls_bytes_and_seconds_are_counted() -> None:
    x = torch.ones(8, 4, device="tb")
    mode_of(x), mode_of(x)
    row = rows()["example::mode"]
    assert (row.calls, row.forced) == (2, 0)
    assert row.bytes == 2 * (8 * 4 * 4 + 8 * 4 + 8 * 8)  # the input, the values, the indices
    assert 0 < row.seconds < 60


def test_a_tensor_changed_in_place_counts_once() -> None:
    x = torch.ones(4, device="tb")
    with tb.force_fallback("aten::mul_.Scalar", "aten::mul_.Tensor"):
        x.mul_(2.0)
    [row] = tb.fallbacks()
    assert row.bytes - 16 in (0, 4, 8)  # the number may have become a tensor


def test_the_first_call_is_the_line_of_user_code_below_pytorch() -> None:
    x = torch.ones(8, 4, device="tb")
    mode_of(x)
    torch.ops.example.mode(x)
    row = rows()["example::mode"]
    line = mode_of.__code__.co_firstlineno + 1
    assert row.first_call == f"{__file__}:{line} in mode_of"
    assert row.first_call in row.first_stack[:2]  # the innermost frame is PyTorch's call of the operator
    assert any(
        frame.endswith(f" in {test_the_first_call_is_the_line_of_user_code_below_pytorch.__name__}")
        for frame in row.first_stack
    )


def test_the_line_is_not_one_of_pytorch_s_own_files() -> None:
    with tb.force_fallback("aten::relu"):
        torch.nn.functional.relu(torch.ones(2, 3, device="tb"))
    [row] = tb.fallbacks()
    assert row.first_call.startswith(__file__)
    assert "functional.py" in row.first_stack[0]


def test_a_backward_pass_names_its_autograd_node_and_the_line_that_called_it() -> None:
    x = torch.ones(3, device="tb", requires_grad=True)
    with tb.force_fallback("aten::sigmoid_backward"):
        x.sigmoid().sum().backward()  # type: ignore[no-untyped-call]
    place, node = rows()["aten::sigmoid_backward"].first_call.split(", ")
    assert node == "the backward pass (SigmoidBackward0)"
    assert place.endswith(" in test_a_backward_pass_names_its_autograd_node_and_the_line_that_called_it")


def test_reset_forgets_counts_and_places() -> None:
    x = torch.ones(8, 4, device="tb")
    mode_of(x)
    tb.reset_fallbacks()
    assert tb.fallbacks() == []
    torch.ops.example.mode(x)
    assert rows()["example::mode"].first_call.endswith(" in test_reset_forgets_counts_and_places")


def test_the_profiler_shows_fallbacks() -> None:
    with torch.profiler.profile() as profile:
        mode_of(torch.ones(8, 4, device="tb"))
    assert "tb::fallback example::mode" in {event.key for event in profile.key_averages()}


# ---- the report ------------------------------------------------------------------------------------------------------


def test_the_report_ranks_by_time_and_says_where() -> None:
    x = torch.ones(400, 400, device="tb")
    with tb.force_fallback("aten::linalg_matrix_exp"):
        torch.linalg.matrix_exp(x / 1000)
    mode_of(torch.ones(2, device="tb"))
    report = tb.fallback_report()
    assert 0 <= report.index("aten::linalg_matrix_exp") < report.index("example::mode")
    assert f"{__file__}:{mode_of.__code__.co_firstlineno + 1} in mode_of" in report
    assert "2 operators ran on the CPU in 2 calls" in report
    assert "... and 1 more" in tb.fallback_report(limit=1)


def test_empty_statistics_report_that() -> None:
    torch.ones(3, device="tb").add(1)
    assert "No operator ran on the CPU" in tb.fallback_report()


# ---- budgets ---------------------------------------------------------------------------------------------------------


def test_a_budget_refuses_with_operator_shapes_and_line() -> None:
    x = torch.ones(8, 4, device="tb")
    with pytest.raises(NotImplementedError) as refused, tb.fallback_budget(0):
        mode_of(x)
    text = str(refused.value)
    line = mode_of.__code__.co_firstlineno + 1
    assert text.startswith("example::mode would run on the CPU, and fallback_budget(0) allows no more of that.")
    assert f"(self: float32 [8, 4], dim: -1, keepdim: False) at {__file__}:{line} in mode_of" in text
    assert tb.fallbacks() == []  # it did not run


def test_a_budget_allows_its_number_of_calls() -> None:
    x = torch.ones(8, 4, device="tb")
    with tb.fallback_budget(2):
        mode_of(x), mode_of(x)
    with pytest.raises(NotImplementedError, match=r"fallback_budget\(2\)"), tb.fallback_budget(2):
        mode_of(x), mode_of(x), mode_of(x)
    assert rows()["example::mode"].calls == 4


def test_a_suppressed_refusal_is_raised_again_at_the_end_of_the_block() -> None:
    x = torch.ones(8, 4, device="tb")
    with (
        pytest.raises(NotImplementedError, match="example::mode"),
        tb.fallback_budget(0),
        contextlib.suppress(NotImplementedError),
    ):
        mode_of(x)
    mode_of(x)  # the budget does not apply after the block


def test_native_operators_do_not_count_against_a_budget() -> None:
    with tb.fallback_budget(0):
        x = torch.ones(3, 3, device="tb", requires_grad=True)
        (x @ x).relu().sum().backward()  # type: ignore[no-untyped-call]
        torch.nonzero(x.detach())


def test_a_call_that_an_inner_budget_refuses_does_not_count_in_the_outer_one() -> None:
    x = torch.ones(8, 4, device="tb")
    with tb.fallback_budget(2):
        mode_of(x)
        with pytest.raises(NotImplementedError, match=r"fallback_budget\(0\)"), tb.fallback_budget(0):
            mode_of(x)
        mode_of(x)
    assert rows()["example::mode"].calls == 2


def test_an_outer_budget_counts_what_inner_ones_allow() -> None:
    x = torch.ones(8, 4, device="tb")
    with (
        pytest.raises(NotImplementedError, match=r"fallback_budget\(1\)"),
        tb.fallback_budget(1),
        tb.fallback_budget(9),
    ):
        mode_of(x), mode_of(x)


def test_a_budget_counts_autograd_s_threads() -> None:
    x = torch.ones(3, device="tb", requires_grad=True)
    y = x.sigmoid().sum()
    with (
        tb.force_fallback("aten::sigmoid_backward"),
        pytest.raises(NotImplementedError, match=r"sigmoid_backward.*SigmoidBackward0"),
        tb.fallback_budget(0),
    ):
        y.backward()  # type: ignore[no-untyped-call]


def test_a_budget_counts_other_threads() -> None:
    x = torch.ones(8, 4, device="tb")
    raised: list[Exception] = []

    def call() -> None:
        try:
            mode_of(x)
        except NotImplementedError as error:
            raised.append(error)

    with pytest.raises(NotImplementedError), tb.fallback_budget(0):  # noqa: PT012
        thread = threading.Thread(target=call)
        thread.start()
        thread.join()
    assert len(raised) == 1


def test_an_error_in_the_block_is_not_replaced() -> None:
    with pytest.raises(KeyError), tb.fallback_budget(0):
        raise KeyError
    mode_of(torch.ones(8, 4, device="tb"))


def test_a_negative_budget_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot be negative"), tb.fallback_budget(-1):
        pass


def test_the_error_mode_says_shapes_and_line() -> None:
    tb.set_fallback_mode("error")
    with pytest.raises(NotImplementedError, match=r"self: float32 \[8, 4\].* in mode_of.*set_fallback_mode"):
        mode_of(torch.ones(8, 4, device="tb"))


# ---- forced fallbacks ------------------------------------------------------------------------------------------------


def test_a_forced_operator_runs_on_the_cpu_inside_the_block_only() -> None:
    x = torch.arange(3.0, device="tb")
    with tb.force_fallback("aten::add.Tensor"):
        y = x + x
    z = x + x
    assert y.device == x.device
    assert bit_identical(y.cpu(), z.cpu())
    row = rows()["aten::add.Tensor"]
    assert (row.calls, row.forced) == (1, 1)


def test_blocks_that_force_the_same_operator_nest() -> None:
    x = torch.ones(3, device="tb")
    with tb.force_fallback("aten::add.Tensor"):
        with tb.force_fallback("aten::add.Tensor", "aten::mul.Tensor"):
            x + x
        x + x
        x * x
    assert {name: row.calls for name, row in rows().items()} == {"aten::add.Tensor": 2}


def test_a_forced_fallback_is_no_error_but_counts_against_a_budget() -> None:
    x = torch.ones(3, device="tb")
    tb.set_fallback_mode("error")
    with tb.force_fallback("aten::add.Tensor"):
        x + x
        with pytest.raises(NotImplementedError, match=r"aten::add\.Tensor"), tb.fallback_budget(0):
            x + x


def test_gradients_flow_through_forced_operators() -> None:
    x = torch.arange(3.0, device="tb", requires_grad=True)
    with tb.force_fallback("aten::sigmoid", "aten::sigmoid_backward", "aten::sum.dim_IntList", "aten::sum"):
        x.sigmoid().sum().backward()  # type: ignore[no-untyped-call]
    y = torch.arange(3.0, requires_grad=True)
    y.sigmoid().sum().backward()  # type: ignore[no-untyped-call]
    assert x.grad is not None
    assert y.grad is not None
    assert bit_identical(x.grad.cpu(), y.grad)


@pytest.mark.parametrize(
    ("operator", "error", "text"),
    [
        ("aten::ad.Tensor", ValueError, "Did you mean aten::add.Tensor"),
        ("aten::add", ValueError, "Did you mean aten::add.Scalar, .*aten::add.Tensor"),
        ("nonsense", ValueError, "Names look like aten::add.Tensor"),
        ("aten::matmul", NotImplementedError, "composed of other operators"),
        ("aten::_copy_from", NotImplementedError, "no kernel on the CPU"),
    ],
)
def test_what_cannot_be_forced_is_refused(operator: str, error: type[Exception], text: str) -> None:
    x = torch.ones(3, device="tb")
    with pytest.raises(error, match=text), tb.force_fallback("aten::add.Tensor", operator):
        pass
    x + x
    assert tb.fallbacks() == []  # add is no longer forced


def test_the_variable_forces_for_the_whole_process(run_python: RunPython) -> None:
    code = """
        import torch
        x = torch.ones(3, device="tb")
        print((x + x).tolist(), (x * x).tolist(), [(r.operator, r.forced) for r in torch.tb.fallbacks()])
    """
    done = run_python(code, {"TB_FORCE_FALLBACK": "aten::add.Tensor, aten::mul.Tensor", "TB_FALLBACK": "error"})
    assert "('aten::add.Tensor', 1)" in done.stdout
    assert "('aten::mul.Tensor', 1)" in done.stdout
    assert "replaced" not in done.stderr
    assert "Overriding" not in done.stderr


def test_an_unknown_name_in_the_variable_is_an_error(run_python: RunPython) -> None:
    done = run_python("import torch; torch.ones(3, device='tb')", {"TB_FORCE_FALLBACK": "aten::ad.Tensor"}, check=False)
    assert done.returncode != 0
    assert "TB_FORCE_FALLBACK: force_fallback: there is no operator 'aten::ad.Tensor'. Did you mean" in done.stderr


def test_asking_before_the_first_use_opens_the_device(run_python: RunPython) -> None:
    code = "import torch\nwith torch.tb.fallback_budget(0), torch.tb.force_fallback('aten::add.Tensor'): pass"
    run_python(code + "\nprint(torch.tb.fallback_report())")


# ---- what is not the operator's -------------------------------------------------------------------------------------


def test_a_first_call_that_imports_modules_is_not_part_of_the_time(run_python: RunPython) -> None:
    code = """
    import sys, time, types
    import torch
    from fallback import example_operators

    def loads(x):
        if "loaded_by_the_kernel" not in sys.modules:
            time.sleep(0.3)
            sys.modules["loaded_by_the_kernel"] = types.ModuleType("loaded_by_the_kernel")
        return x.clone()

    library = torch.library.Library("loading", "DEF")
    library.define("op(Tensor x) -> Tensor")
    library.impl("op", loads, "CPU")
    torch.tb.set_fallback_mode("allow")
    x = torch.ones(2, device="tb")
    for calls in (1, 2):
        torch.ops.loading.op(x)
        [row] = [each for each in torch.tb.fallbacks() if each.operator == "loading::op"]
        assert row.calls == calls and row.loading_seconds >= 0.3 and row.seconds < 0.3, row
        assert (row.seconds_per_call is None) == (calls == 1), row
    assert "Not counted: 0.3" in torch.tb.fallback_report(), torch.tb.fallback_report()
    """
    run_python(code)


def test_a_printed_list_has_one_line_for_each_operator() -> None:
    x = torch.ones(8, 4, device="tb")
    mode_of(x), mode_of(x)
    text = str(tb.fallbacks())
    assert text.startswith("example::mode: 2 calls, ")
    assert len(text.splitlines()) == len(tb.fallbacks()) == 1
    assert len(repr(tb.fallbacks()[0])) < 500
    tb.reset_fallbacks()
    assert str(tb.fallbacks()) == "no operator ran on the CPU"
