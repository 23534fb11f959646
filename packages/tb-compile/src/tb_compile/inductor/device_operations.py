"""Inductor's operations in the language of device kernels, each as an expression of C++."""

from __future__ import annotations

import functools
from typing import Any

import sympy  # type: ignore[import-untyped]
import torch
from torch._inductor.codegen.common import CSEVariable, OpOverrides
from torch._inductor.utils import get_bounds_index_expr
from torch._inductor.virtualized import V
from torch.utils._ordered_set import OrderedSet

from .device_types import STORED, computed, literal, type_of

# What has the name of a function in mathematics.cuh.
_FUNCTIONS = [
    *["exp", "exp2", "expm1", "log", "log2", "log10", "log1p", "sqrt", "sin", "cos", "tan", "asin", "acos", "atan"],
    *["sinh", "cosh", "tanh", "erf", "erfc"],
]
_FUNCTORS_OF_ONE = {
    "abs": "Absolute",
    "sign": "Sign",
    "rsqrt": "InverseSquareRoot",
    "floor": "Floor",
    "ceil": "Ceiling",
    "trunc": "Truncate",
    "round": "Round",
    "asinh": "InverseHyperbolicSine",
    "acosh": "InverseHyperbolicCosine",
    "atanh": "InverseHyperbolicTangent",
}
_FUNCTORS_OF_TWO = {
    "maximum": "Maximum",
    "minimum": "Minimum",
    "remainder": "Remainder",
    "mod": "Fmod",
    "fmod": "Fmod",
    "floordiv": "DivideFloor",
    "truncdiv": "DivideTruncate",
    "pow": "Power",
    "atan2": "ArcTangent2",
    "copysign": "CopySign",
    "hypot": "Hypotenuse",
    "logical_and": "LogicalAnd",
    "logical_or": "LogicalOr",
    "logical_xor": "LogicalXor",
    "and_": "BitwiseAnd",
    "or_": "BitwiseOr",
    "xor": "BitwiseXor",
    "bitwise_and": "BitwiseAnd",
    "bitwise_or": "BitwiseOr",
    "bitwise_xor": "BitwiseXor",
}
_SMALL = OrderedSet([torch.int8, torch.uint8, torch.int16])  # C++ computes with them as int


def _kept_small(expression: str, *operands: Any) -> str:
    """The expression, wrapped as PyTorch's small integers are."""
    dtypes = [one.dtype for one in operands if isinstance(one, CSEVariable) and one.dtype is not None]
    dtype = functools.reduce(torch.promote_types, dtypes, torch.bool)
    return f"static_cast<{STORED[dtype]}>({expression})" if dtype in _SMALL else expression


class DeviceOperations(OpOverrides):
    """What an operation is in C++. Operands are variables of the types that type_of() gives."""

    @staticmethod
    def constant(value: Any, dtype: torch.dtype) -> str:
        return literal(value, dtype)

    @staticmethod
    def to_dtype(
        x: Any, dtype: torch.dtype, src_dtype: torch.dtype | None = None, use_compute_types: bool = True
    ) -> str:
        return f"convert<{type_of(dtype)}>({x})"

    @staticmethod
    def to_dtype_bitcast(x: Any, dtype: torch.dtype, src_dtype: torch.dtype) -> str:
        return f"reinterpret<{STORED[dtype]}>(convert<{STORED[src_dtype]}>({x}))"

    @staticmethod
    def index_expr(expr: sympy.Expr, dtype: torch.dtype) -> Any:
        kernel: Any = V.kernel
        text = kernel.index_to_str(kernel.prepare_indexing(expr))
        return kernel.cse.generate(
            kernel.compute,
            f"static_cast<{type_of(dtype)}>({text})",
            bounds=get_bounds_index_expr(expr),
            dtype=computed(dtype),
        )

    value_expr = index_expr

    @staticmethod
    def masked(mask: Any, body: Any, other: Any) -> Any:
        kernel: Any = V.kernel
        return kernel.masked(mask, body, other)

    @staticmethod
    def where(a: Any, b: Any, c: Any) -> str:
        return f"{a} ? {b} : {c}"

    @staticmethod
    def add(a: Any, b: Any) -> str:
        return _kept_small(f"{a} + {b}", a, b)

    @staticmethod
    def sub(a: Any, b: Any) -> str:
        return _kept_small(f"{a} - {b}", a, b)

    @staticmethod
    def mul(a: Any, b: Any) -> str:
        return _kept_small(f"{a} * {b}", a, b)

    @staticmethod
    def neg(x: Any) -> str:
        return _kept_small(f"-{x}", x)

    @staticmethod
    def truediv(a: Any, b: Any) -> str:
        return f"{a} / {b}"

    @staticmethod
    def int_truediv(a: Any, b: Any) -> str:
        return f"static_cast<float>({a}) / static_cast<float>({b})"

    @staticmethod
    def fma(x: Any, y: Any, z: Any) -> str:
        return f"number::fma({x}, {y}, {z})"

    @staticmethod
    def isnan(x: Any) -> str:
        return f"is_nan({x})"

    @staticmethod
    def isinf(x: Any) -> str:
        return f"unary<IsInfinity<true>>({x}) || unary<IsInfinity<false>>({x})"

    @staticmethod
    def signbit(x: Any) -> str:
        return f"sign_bit({x})"

    @staticmethod
    def logical_not(x: Any) -> str:
        return f"!{x}"

    @staticmethod
    def bitwise_not(x: Any) -> str:
        return f"!{x}" if x.dtype == torch.bool else _kept_small(f"~{x}", x)

    @staticmethod
    def bitwise_left_shift(x: Any, y: Any) -> str:
        return f"shift_left({x}, {y})"

    @staticmethod
    def bitwise_right_shift(x: Any, y: Any) -> str:
        return f"shift_right({x}, {y})"

    @staticmethod
    def rand(seed: Any, offset: Any) -> str:
        V.kernel.headers.add("fused_random.cuh")
        return f"random_uniform({seed}, {offset})"

    @staticmethod
    def randn(seed: Any, offset: Any) -> str:
        V.kernel.headers.add("fused_random.cuh")
        return f"random_normal({seed}, {offset})"

    @staticmethod
    def randint64(seed: Any, offset: Any, low: Any, high: Any) -> str:
        V.kernel.headers.add("fused_random.cuh")
        return f"random_integer({seed}, {offset}, {low}, {high})"


def _add_functions() -> None:
    """Adds the operations that are calls of a function or a functor."""

    def of_one(form: str) -> Any:
        return staticmethod(lambda x: form.format(x))

    def of_two(form: str) -> Any:
        return staticmethod(lambda a, b: form.format(a, b))

    for name in _FUNCTIONS:
        setattr(DeviceOperations, name, of_one(f"number::{name}({{}})"))
    for name, functor in _FUNCTORS_OF_ONE.items():
        setattr(DeviceOperations, name, of_one(f"unary<{functor}>({{}})"))
    for name, functor in _FUNCTORS_OF_TWO.items():
        setattr(DeviceOperations, name, of_two(f"binary<{functor}>({{}}, {{}})"))


_add_functions()
