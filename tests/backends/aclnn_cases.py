"""Calls every operator of a table of a vendor's two-phase functions on tb and on stock CPU, in all of its types.

`python aclnn_cases.py TABLE.yaml` prints the operators that differ or fall back as JSON. A process has one driver, so
the tests start this program with the driver that they choose. Arguments are derived from the schemas and SAMPLES.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import sys
from collections.abc import Callable, Iterator
from typing import Any

import torch
import yaml
from sim_vendor.simulated import Control
from tb_ops.device_kernels.case_inputs import HALVES, numbers
from torch import Tensor

POSITIVE = {"log.out", "log2.out", "log10.out", "log1p.out", "sqrt.out", "rsqrt.out", "pow.Tensor_Tensor_out"}
WITHIN_ONE = {"asin.out", "acos.out"}
INDEX = torch.tensor([[0, 3, 2], [1, 0, 3]])


def _values(name: str, dtype: torch.dtype, *shape: int, low: float = -3) -> Tensor:
    """Numbers inside the operator's domain."""
    if name in WITHIN_ONE:
        return numbers(*shape, dtype=dtype, low=-0.99, high=0.99)
    if name in POSITIVE:
        low = 0.5
    return numbers(*shape, dtype=dtype, low=low)


def _divisor(dtype: torch.dtype, *shape: int) -> Tensor:
    return torch.ones(shape, dtype=dtype) if dtype == torch.bool else numbers(*shape, dtype=dtype, low=1)


Arguments = dict[str, Any]
SAMPLES: dict[str, Callable[[torch.dtype], Arguments]] = {
    "pow.Tensor_Scalar_out": lambda t: {"exponent": 2 if not t.is_floating_point else 3},
    "pow.Scalar_out": lambda t: {"self": 2, "exponent": numbers(4, 6, dtype=t).abs()},
    "pow.Tensor_Tensor_out": lambda t: {"exponent": numbers(4, 6, dtype=t, low=0, high=1.4).abs()},
    "div.out": lambda t: {"other": _divisor(t, 4, 6)},
    "div.out_mode": lambda t: {"other": _divisor(t, 4, 6), "rounding_mode": "floor"},
    "remainder.Tensor_out": lambda t: {"other": _divisor(t, 4, 6)},
    "fmod.Tensor_out": lambda t: {"other": _divisor(t, 4, 6)},
    "addcdiv.out": lambda t: {"tensor2": _divisor(t, 4, 6)},
    "clamp.out": lambda t: {"min": 1, "max": 2},
    "addcmul.out": lambda t: {"value": 2},
    "where.self_out": lambda t: {"condition": numbers(4, 6) > 0},
    "mse_loss.out": lambda t: {"reduction": 1},
    "mse_loss_backward.grad_input": lambda t: {"reduction": 0},
    "mm.out": lambda t: {"mat2": numbers(6, 5, dtype=t)},
    "bmm.out": lambda t: {"self": numbers(2, 4, 6, dtype=t), "mat2": numbers(2, 6, 3, dtype=t)},
    "addmm.out": lambda t: {
        "self": numbers(5, dtype=t),
        "mat1": numbers(4, 6, dtype=t),
        "mat2": numbers(6, 5, dtype=t),
    },
    "baddbmm.out": lambda t: {
        "self": numbers(2, 1, 3, dtype=t),
        "batch1": numbers(2, 4, 6, dtype=t),
        "batch2": numbers(2, 6, 3, dtype=t),
    },
    "addmv.out": lambda t: {"self": numbers(4, dtype=t), "mat": numbers(4, 6, dtype=t), "vec": numbers(6, dtype=t)},
    "dot": lambda t: {"self": numbers(30, dtype=t), "tensor": numbers(30, dtype=t, low=0)},
    "_softmax.out": lambda t: {"half_to_float": False},
    "_log_softmax.out": lambda t: {"half_to_float": False},
    "_softmax_backward_data.out": lambda t: {"output": numbers(4, 6, dtype=t).softmax(1), "input_dtype": t},
    "_log_softmax_backward_data.out": lambda t: {"output": numbers(4, 6, dtype=t).log_softmax(1), "input_dtype": t},
    "native_layer_norm": lambda t: {
        "normalized_shape": [6],
        "weight": numbers(6, dtype=t),
        "bias": numbers(6, dtype=t),
        "eps": 1e-5,
    },
    "native_layer_norm_backward": lambda t: _layer_norm_backward(t),
    "gather.out": lambda t: {"dim": 0, "index": INDEX},
    "scatter.src_out": lambda t: {"dim": 1, "index": INDEX[:, 1:], "src": numbers(2, 2, dtype=t)},
    "scatter.value_out": lambda t: {"dim": 1, "index": INDEX, "value": 1},
    "scatter_add.out": lambda t: {"dim": 0, "index": INDEX, "src": numbers(2, 3, dtype=t)},
    "index_add.out": lambda t: {"dim": 0, "index": INDEX[0], "source": numbers(3, 6, dtype=t), "alpha": 1},
    "index_select": lambda t: {"dim": 1, "index": INDEX[0]},
    "index_select.out": lambda t: {"dim": 0, "index": INDEX[1].int()},
    "embedding": lambda t: {"indices": INDEX, "sparse": False},
    "embedding_dense_backward": lambda t: {
        "grad_output": numbers(2, 3, 6, dtype=t),
        "indices": INDEX,
        "num_weights": 4,
        "padding_idx": 3,
        "scale_grad_by_freq": False,
    },
    "masked_fill_.Scalar": lambda t: {"mask": numbers(6) > 0, "value": 1},
    "nll_loss_forward.output": lambda t: {
        "target": INDEX.reshape(-1)[:4],
        "weight": None,
        "reduction": 1,
        "ignore_index": 2,
    },
    "nll_loss_backward.grad_input": lambda t: {
        "grad_output": torch.ones((), dtype=t),
        "target": INDEX.reshape(-1)[:4],
        "weight": None,
        "reduction": 1,
        "ignore_index": 2,
        "total_weight": torch.tensor(3, dtype=t),
    },
}


def _layer_norm_backward(dtype: torch.dtype) -> Arguments:
    x, weight = numbers(4, 6, dtype=dtype), numbers(6, dtype=dtype)
    _, mean, rstd = torch.native_layer_norm(x, [6], weight, weight, 1e-5)
    wide = {"mean": mean.float(), "rstd": rstd.float()}
    mask = [True, True, True]
    return {"input": x, "normalized_shape": [6], "weight": weight, "bias": weight, "output_mask": mask, **wide}


DEFAULTS: dict[str, Any] = {
    "bool": True,
    "int": 1,
    "int?": 1,
    "int[1]": [1],
    "int[1]?": [1],
    "int[]": [0],
    "int[]?": [1],
}


def arguments(name: str, dtype: torch.dtype) -> tuple[list[Any], dict[str, Any], list[str]]:
    """Positional and keyword arguments of one call, without the outputs; and the names of the outputs."""
    given = SAMPLES[name](dtype) if name in SAMPLES else {}
    positional: list[Any] = []
    named: dict[str, Any] = {}
    outputs: list[str] = []
    for argument in torch._C._get_schema(f"aten::{name.split('.')[0]}", name.partition(".")[2]).arguments:
        if argument.is_out:
            outputs.append(argument.name)
            continue
        kind = str(argument.real_type) if hasattr(argument, "real_type") else str(argument.type)
        if argument.name in given:
            value = given[argument.name]
        elif kind == "Tensor":
            value = _values(name, dtype, 4, 6, low=-3 if argument.name == "self" else -2)
        elif kind in ("Scalar", "number"):
            value = 2
        elif argument.has_default_value() and argument.kwarg_only:
            continue
        else:
            value = _default(str(argument.type), argument)
        if argument.kwarg_only:
            named[argument.name] = value
        else:
            positional.append(value)
    return positional, named, outputs


def _default(kind: str, argument: Any) -> Any:
    if kind == "bool":
        return True
    if kind in ("int", "Optional[int]"):
        return 1
    if kind in ("List[int]", "Optional[List[int]]"):
        return [1]
    if argument.has_default_value():
        return argument.default_value
    raise ValueError(f"no sample for {argument}: say one in SAMPLES")


def plain(x: Any) -> Any:
    return x


def transposed(x: Any) -> Any:
    """The same matrix, stored column by column; other arguments unchanged."""
    return x.t().contiguous().t() if isinstance(x, Tensor) and x.dim() == 2 else x


def sliced(x: Any) -> Any:
    """The same elements as every other element of a larger tensor, with a storage offset."""
    if not isinstance(x, Tensor) or x.dim() == 0:
        return x
    larger = torch.zeros(*x.shape[:-1], 2 * x.shape[-1] + 1, dtype=x.dtype, device=x.device)
    view = larger[..., 1::2]
    return view.copy_(x)


LAYOUTS = {"plain": plain, "transposed": transposed, "sliced": sliced}


def called(name: str, device: str, layout: Callable[[Any], Any], dtype: torch.dtype) -> list[Tensor]:
    """Calls the operator on a device and returns the results on the CPU."""
    positional, named, outputs = arguments(name, dtype)
    root, _, overload = name.partition(".")
    operator = getattr(getattr(torch.ops.aten, root), overload or "default")

    def moved(x: Any) -> Any:
        return layout(x.to(device)) if isinstance(x, Tensor) else x

    positional, named = [moved(x) for x in positional], {k: moved(x) for k, x in named.items()}
    if device == "tb":
        torch.tb.reset_fallbacks()  # type: ignore[attr-defined]
    if not outputs:
        out = operator(*positional, **named)
    else:
        functional = _functional(root, overload, positional, named)
        out = functional(*positional, **named)
        if device == "tb" and not isinstance(out, tuple):  # once more with a strided out=
            _close(operator(*positional, **named, **{outputs[0]: sliced(torch.empty_like(out))}), out, dtype)
    if device == "tb" and root in WITH_NUMBERS:
        _number(operator if not outputs else functional, positional, named)
    return [x.cpu() for x in (out if isinstance(out, tuple) else (out,))]


# Operators that have a function for a number as the second operand.
WITH_NUMBERS = ("add", "sub", "mul", "div", "remainder", "fmod", "eq", "ne", "lt", "le", "gt", "ge")


def _number(operator: Any, positional: list[Any], named: dict[str, Any]) -> None:
    """Compares the same call on tb and on the CPU, with a number instead of the second tensor."""
    if not isinstance(positional[1], Tensor):
        return
    dtype = positional[0].dtype
    number = torch.tensor(True if dtype == torch.bool else 2, dtype=dtype)
    found = operator(positional[0], number, **named)
    try:
        expected = operator(positional[0].cpu(), number, **named)
    except RuntimeError:
        return
    _close(found.cpu(), expected, dtype)


# The functional overload of each out= overload whose name differs.
FUNCTIONAL = {
    "clamp.out": "default",
    "clamp_min.out": "default",
    "clamp_max.out": "default",
    "div.out_mode": "Tensor_mode",
    "max.dim_max": "dim",
    "min.dim_min": "dim",
    "pow.Tensor_Scalar_out": "Tensor_Scalar",
    "sum.IntList_out": "dim_IntList",
    "prod.int_out": "dim_int",
    "mean.out": "dim",
    "all.out": "dim",
    "any.out": "dim",
    "all.all_out": "default",
    "any.all_out": "default",
    "all.dims_out": "dims",
    "any.dims_out": "dims",
    "scatter.src_out": "src",
    "scatter.value_out": "value",
    "pow.Scalar_out": "Scalar",
    "where.self_out": "self",
    "lerp.Scalar_out": "Scalar",
    "lerp.Tensor_out": "Tensor",
    "pow.Tensor_Tensor_out": "Tensor_Tensor",
    "remainder.Tensor_out": "Tensor",
    "fmod.Tensor_out": "Tensor",
}


def _functional(root: str, overload: str, positional: list[Any], named: dict[str, Any]) -> Any:
    packet = getattr(torch.ops.aten, root)
    wanted = FUNCTIONAL.get(f"{root}.{overload}")
    if wanted is None:
        short = overload.removesuffix("_out")
        wanted = short if short in packet.overloads() and short != overload else "default"
        if wanted == "default" and "Tensor" in packet.overloads():
            wanted = "Tensor"
    return getattr(packet, wanted)


def _close(actual: Tensor, expected: Tensor, dtype: torch.dtype) -> None:
    bound = 2e-2 if dtype in HALVES else None  # the CPU and the library round different intermediate results
    torch.testing.assert_close(actual, expected, rtol=bound, atol=bound, equal_nan=True)


def difference(name: str, layout: str, dtype: torch.dtype) -> str | None:
    """How the call differs from stock CPU, or that it fell back; None: it agrees."""
    try:
        found = called(name, "tb", LAYOUTS[layout], dtype)
        fallen = [row.operator for row in torch.tb.fallbacks()]  # type: ignore[attr-defined]
        try:
            expected = called(name, "cpu", plain, dtype)
        except (NotImplementedError, RuntimeError):  # the CPU has no kernel for 16-bit types
            expected = [x.to(y.dtype) for x, y in zip(called(name, "cpu", plain, torch.float32), found, strict=True)]
        for actual, wanted in zip(found, expected, strict=True):
            wider = actual.is_floating_point() and dtype in HALVES  # the library returns moments as float32
            _close(actual, wanted.to(actual.dtype) if wider else wanted, dtype)
    except (AssertionError, RuntimeError, NotImplementedError, ValueError, IndexError, TypeError) as error:
        return f"{type(error).__name__}: {str(error)[:400]}"
    return f"fell back: {fallen}" if fallen else None


def cases(table: dict[str, Any]) -> Iterator[tuple[str, str, torch.dtype]]:
    """Yields every operator in every layout, with every type that the table lists for it."""
    names = {"Half": "float16", "BFloat16": "bfloat16", "Float": "float32", "Double": "float64", "Byte": "uint8"}
    names |= {"Char": "int8", "Short": "int16", "Int": "int32", "Long": "int64", "Bool": "bool"}
    for group in table["groups"]:
        for name, own in group["operators"].items():
            types = own.get("types", group.get("types")) if isinstance(own, dict) else group["types"]
            for each in table["types"][types]:
                for layout in LAYOUTS:
                    yield name, layout, getattr(torch, names[each])


def uncalled(table: dict[str, Any]) -> list[str]:
    """The functions of the table that no call has used."""
    library = pathlib.Path(os.environ["TB_NPU_LIBRARY"])
    control = Control("npu", library)
    texts = [
        own if isinstance(own, str) else f"{own['aclnn']} {own.get('number', '')}"
        for group in table["groups"]
        for own in group["operators"].values()
    ]
    names = {name for text in texts for name in re.findall(r"\b([A-Z]\w*)\(", text)}
    return sorted(name for name in names if control.calls(f"aclnn{name}") == 0)


def main() -> None:
    table = yaml.safe_load(pathlib.Path(sys.argv[1]).read_text())
    wrong, count = {}, 0
    for name, layout, dtype in cases(table):
        count += 1
        if (text := difference(name, layout, dtype)) is not None:
            wrong[f"{name} {layout} {dtype}"] = text
    print(json.dumps({"cases": count, "wrong": wrong, "uncalled": uncalled(table)}))


if __name__ == "__main__":
    main()
