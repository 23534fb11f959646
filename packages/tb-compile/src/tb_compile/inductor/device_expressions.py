"""Prints sizes and index expressions in the language of device kernels."""

from __future__ import annotations

from typing import Any

import sympy  # type: ignore[import-untyped]
from torch.utils._sympy.printers import CppPrinter

from .target import target


class IndexPrinter(CppPrinter):
    """Integers are of the index's type or 64 bits wide; fractions have the type IndexReal."""

    def _function(self, name: str, *arguments: sympy.Expr) -> str:
        return f"{name}({', '.join(self.doprint(one) for one in arguments)})"

    def _real(self, expr: sympy.Expr) -> str:
        return f"static_cast<IndexReal>({self.doprint(expr)})"

    def _print_Integer(self, expr: sympy.Expr) -> str:
        number = int(expr)
        return f"{number}" if -(2**31) < number < 2**31 else f"{number}ll"

    def _print_Float(self, expr: sympy.Expr) -> str:
        return f"{float(expr)!r}{'f' if 'float64' in target().lacks else ''}"

    def _print_Rational(self, expr: sympy.Expr) -> str:
        return f"(static_cast<IndexReal>({expr.p}) / static_cast<IndexReal>({expr.q}))"

    def _print_FloorDiv(self, expr: sympy.Expr) -> str:
        number, divisor = expr.args
        if number.is_nonnegative and divisor.is_positive:  # C++ rounds towards zero
            return f"(({self.doprint(number)}) / ({self.doprint(divisor)}))"
        return self._function("floor_divide", number, divisor)

    def _print_ModularIndexing(self, expr: sympy.Expr) -> str:
        number, divisor, modulus = expr.args
        quotient = self.doprint(number)
        if divisor != 1:
            quotient = f"({quotient}) / ({self.doprint(divisor)})"
        return f"(({quotient}) % ({self.doprint(modulus)}))"

    def _print_PythonMod(self, expr: sympy.Expr) -> str:
        return self._function("floor_remainder", *expr.args)

    def _print_min_max(self, expr: sympy.Expr, name: Any) -> str:
        function = {"min": "least", "max": "greatest"}[name]
        text: str = self.doprint(expr.args[0])
        for one in expr.args[1:]:
            text = f"{function}({text}, {self.doprint(one)})"
        return text

    def _print_Abs(self, expr: sympy.Expr) -> str:
        return f"unary<Absolute>({self.doprint(expr.args[0])})"

    def _print_ToFloat(self, expr: sympy.Expr) -> str:
        return self._real(expr.args[0])

    def _print_IntTrueDiv(self, expr: sympy.Expr) -> str:
        return f"({self._real(expr.args[0])} / {self._real(expr.args[1])})"

    def _print_FloatPow(self, expr: sympy.Expr) -> str:
        return f"number::pow({self._real(expr.args[0])}, {self._real(expr.args[1])})"

    def _print_PowByNatural(self, expr: sympy.Expr) -> str:
        return f"binary<Power>(static_cast<Long>({self.doprint(expr.args[0])}), {self.doprint(expr.args[1])})"

    def _rounded(self, name: str, expr: sympy.Expr) -> str:
        return f"static_cast<Long>(number::{name}({self._real(expr.args[0])}))"

    def _print_FloorToInt(self, expr: sympy.Expr) -> str:
        return self._rounded("floor", expr)

    _print_floor = _print_FloorToInt

    def _print_CeilToInt(self, expr: sympy.Expr) -> str:
        return self._rounded("ceil", expr)

    _print_ceiling = _print_CeilToInt

    def _print_TruncToInt(self, expr: sympy.Expr) -> str:
        return self._rounded("trunc", expr)

    def _print_RoundToInt(self, expr: sympy.Expr) -> str:
        return self._rounded("rint", expr)

    def _print_TruncToFloat(self, expr: sympy.Expr) -> str:
        return f"number::trunc({self._real(expr.args[0])})"

    def _print_OpaqueUnaryFn_sqrt(self, expr: sympy.Expr) -> str:
        return f"number::sqrt({self._real(expr.args[0])})"

    def _print_Pow(self, expr: sympy.Expr) -> str:
        base, exponent = expr.args
        if exponent.is_integer and int(exponent) > 0:
            return "(" + " * ".join([f"({self.doprint(base)})"] * int(exponent)) + ")"
        return f"number::pow({self._real(base)}, {self._real(exponent)})"
