"""Programs run like the calls that they consist of, free values after their last use, and name the call that failed."""

from __future__ import annotations

import weakref
from typing import Any

import pytest
import torch
from tb_compile._core import Builder, Program, Value


def of_calls(*calls: tuple[str, list[Any], dict[str, Any]], inputs: int = 1) -> Program:
    """Builds a program. An argument "%0" stands for input or earlier result 0; the last result is the output."""
    builder = Builder("a program")
    values = [builder.input() for _ in range(inputs)]

    def resolved(value: Any) -> Any:
        if isinstance(value, str) and value.startswith("%"):
            return values[int(value[1:])]
        return [resolved(one) for one in value] if isinstance(value, list) else value

    for name, arguments, keywords in calls:
        values += builder.call(
            name, [resolved(one) for one in arguments], {key: resolved(value) for key, value in keywords.items()}
        )
    return builder.finish([values[-1]])


def test_a_program_runs_its_calls() -> None:
    program = of_calls(
        ("aten::mul.Tensor", ["%0", "%1"], {}), ("aten::add.Tensor", ["%2", "%0"], {"alpha": 2}), inputs=2
    )
    x, y = torch.randn(3), torch.randn(3)
    for _ in range(2):
        [found] = program.run([x, y])
        assert torch.equal(found, x * y + 2 * x)
    assert program.runs == 2
    assert program.instructions == ["aten::mul.Tensor", "aten::add.Tensor"]


@pytest.mark.parametrize(
    ("name", "arguments", "keywords"),
    [
        ("aten::mul.Tensor", ["%0", 2.5], {}),  # a number where a tensor is expected keeps the tensor's type
        ("aten::add.Tensor", ["%0", 1], {"alpha": 2}),
        ("aten::sum.dim_IntList", ["%0", [0, -1]], {"dtype": torch.float64}),
        ("aten::sum.dim_IntList", ["%0", []], {}),
        ("aten::mean.default", ["%0"], {}),
        ("aten::pow.Tensor_Scalar", ["%0", 3], {}),
        ("aten::max_pool2d.default", ["%0", 2], {}),  # one number for int[2]
        ("aten::cat.default", [["%0", "%0"], 1], {}),
        ("aten::index.Tensor", ["%0", [None, None, None, torch.tensor([1, 0])]], {}),
        ("aten::index.Tensor", ["%0", [None, torch.tensor([0])]], {}),
        ("aten::clone.default", ["%0"], {"memory_format": torch.channels_last}),
        ("aten::full_like.default", ["%0", float("-inf")], {"pin_memory": False, "layout": torch.strided}),
        ("aten::div.Tensor_mode", ["%0", 0.3], {"rounding_mode": "floor"}),
        ("aten::arange.default", [5], {"device": torch.device("cpu"), "pin_memory": False}),
        ("aten::clamp.default", ["%0"], {"max": 0.5}),
        ("aten::to.dtype", ["%0", torch.bfloat16], {}),
        ("aten::mul.Scalar", ["%0", 1j], {}),
        ("aten::upsample_nearest2d.vec", ["%0", None, [2.0, 2.0]], {}),
        ("aten::any.default", ["%0"], {}),
    ],
)
def test_values_of_every_type_reach_the_operator(name: str, arguments: list[Any], keywords: dict[str, Any]) -> None:
    x = torch.randn(2, 3, 4, 5)
    [found] = of_calls((name, arguments, keywords)).run([x])
    operator = torch.ops.aten
    for part in name.removeprefix("aten::").split("."):
        operator = getattr(operator, part)

    def given(value: Any) -> Any:
        return x if value == "%0" else [given(one) for one in value] if isinstance(value, list) else value

    expected = operator(*[given(value) for value in arguments], **keywords)  # type: ignore[operator]
    assert found.dtype == expected.dtype
    assert found.stride() == expected.stride()
    assert torch.equal(found, expected)


def test_operators_may_take_lists_and_give_several_results() -> None:
    builder = Builder("splits")
    x = builder.input()
    [parts] = builder.call("aten::split.Tensor", [x, 2], {})
    first, last = builder.element(parts, 0), builder.element(parts, -1)
    values, indices = builder.call("aten::max.dim", [first, 0], {})
    program = builder.finish([values, last, indices, None, 3, 2.5])
    given = torch.randn(5, 3)
    found = program.run([given])
    expected = given[:2].max(0)
    assert torch.equal(found[0], expected.values)
    assert torch.equal(found[1], given[4:])
    assert torch.equal(found[2], expected.indices)
    assert found[3:] == [None, 3, 2.5]


def test_a_missing_element_of_a_list_is_refused() -> None:
    builder = Builder("splits")
    [parts] = builder.call("aten::split.Tensor", [builder.input(), 2], {})
    program = builder.finish([builder.element(parts, 7)])
    with pytest.raises(IndexError, match="element 7 of a list of 3"):
        program.run([torch.ones(5)])


def test_sizes_are_numbers_of_the_run() -> None:
    builder = Builder("sizes")
    x, n = builder.input(), builder.input()
    [twice] = builder.call("aten::mul.int", [n, 2], {})
    [half] = builder.call("aten::floordiv.int", [twice, 4], {})
    [y] = builder.call("aten::view.default", [x, [half, -1]], {})
    program = builder.finish([y, twice])
    y0, twice0 = program.run([torch.ones(8), 4])
    assert y0.shape == (2, 4)
    assert twice0 == 8
    assert program.run([torch.ones(12), 12])[0].shape == (6, 2)


def test_memory_is_free_after_its_last_use() -> None:
    seen: list[bool] = []
    first: list[weakref.ref[torch.Tensor]] = []
    library = torch.library.Library("tb_compile_test", "DEF")
    library.define("look(Tensor x) -> Tensor")

    def look(x: torch.Tensor) -> torch.Tensor:
        seen.append(first[0]() is not None)
        return x + 1

    library.impl("look", look, "CPU")
    try:
        program = of_calls(("aten::mul.Tensor", ["%0", 2], {}), ("tb_compile_test::look", ["%1"], {}))
        inputs = [torch.ones(3)]
        first.append(weakref.ref(inputs[0]))
        program.run(inputs)
        assert inputs == []
        assert seen == [False]
    finally:
        library._destroy()


def test_inputs_that_are_written_to_count_as_modified() -> None:
    builder = Builder("writes")
    x, y, z, w = (builder.input() for _ in range(4))
    [row] = builder.call("aten::select.int", [x, 0, 1], {})
    builder.call("aten::add_.Tensor", [row, y], {})
    builder.call("aten::_foreach_mul_.Scalar", [[z], 2.0], {})
    program = builder.finish([w])
    assert program.written_inputs == [0, 2]
    tensors = [torch.ones(3, 3), torch.ones(3), torch.ones(2), torch.ones(1)]
    before = [tensor._version for tensor in tensors]
    program.run(list(tensors))
    assert [tensor._version - version for tensor, version in zip(tensors, before, strict=True)] == [1, 0, 1, 0]
    assert torch.equal(tensors[0], torch.tensor([[1.0] * 3, [2.0] * 3, [1.0] * 3]))


def test_a_failure_names_the_instruction_and_the_line() -> None:
    builder = Builder("forward graph 0")
    x = builder.input()
    [y] = builder.call("aten::mm.default", [x, x], {}, 'File "model.py", line 7, in forward')
    program = builder.finish([y])
    with pytest.raises(RuntimeError, match=r"cannot be multiplied") as caught:
        program.run([torch.ones(2, 3)])
    assert 'in aten::mm.default of forward graph 0, made from File "model.py", line 7, in forward' in str(caught.value)
    assert torch.equal(program.run([torch.eye(2)])[0], torch.eye(2))


def test_neither_autograd_nor_autocast_sees_a_run() -> None:
    program = of_calls(("aten::mm.default", ["%0", "%1"], {}), inputs=2)
    x = torch.randn(4, 4, requires_grad=True)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        [found] = program.run([x, x])
    assert found.dtype == torch.float32
    assert not found.requires_grad


@pytest.mark.parametrize(
    ("error", "call", "text"),
    [
        (KeyError, ("aten::no_such", [], {}), "no operator aten::no_such"),
        (TypeError, ("aten::neg.default", ["%0", 1], {}), "2 arguments for aten::neg"),
        (TypeError, ("aten::mm.default", ["%0"], {}), "no argument 'mat2'"),
        (TypeError, ("aten::neg.default", ["%0"], {"self": "%0"}), "given twice"),
        (NotImplementedError, ("aten::mul.Tensor", ["%0", object()], {}), "a value of type object"),
        (NotImplementedError, ("aten::sum.dim_IntList", ["%0", 1.5], {}), "a value of type float"),
        (NotImplementedError, ("aten::empty.memory_format", [[2]], {"layout": torch.sparse_coo}), "torch.layout"),
    ],
)
def test_calls_that_cannot_be_built_are_refused_with_the_reason(
    error: type[Exception], call: tuple[str, list[Any], dict[str, Any]], text: str
) -> None:
    with pytest.raises(error, match=text):
        of_calls(call)


def test_a_wrong_number_of_inputs_is_refused() -> None:
    with pytest.raises(RuntimeError, match="a program: expected 1 inputs, but got 2"):
        of_calls(("aten::neg.default", ["%0"], {})).run([torch.ones(1), torch.ones(1)])


def test_a_builder_gives_its_program_once() -> None:
    builder = Builder("once")
    x = builder.input()
    assert isinstance(x, Value)
    builder.finish([x])
    with pytest.raises(RuntimeError, match="given its program away"):
        builder.input()
