"""Translates the small language of shape rules, checks and gradients, which is a part of Python's expressions, to C++.

In rules and checks a name is an argument; tensors have x.size(i), x.dim(), x.numel(), x.dtype, x.is_floating_point(),
x.is_complex(); lists have len(v) and v[i]; optional arguments compare with None. In gradients a name is an argument, an
output, or the gradient of an output, and a function is an operator of the file or of PyTorch.
"""

from __future__ import annotations

import ast
from collections.abc import Callable, Mapping

from ..model import Argument

# The c10::ScalarType of each dtype, by its name in torch.
DTYPES = {
    "float32": "at::kFloat",
    "float64": "at::kDouble",
    "float16": "at::kHalf",
    "bfloat16": "at::kBFloat16",
    "complex64": "at::kComplexFloat",
    "complex128": "at::kComplexDouble",
    "int64": "at::kLong",
    "int32": "at::kInt",
    "int16": "at::kShort",
    "int8": "at::kChar",
    "uint8": "at::kByte",
    "bool": "at::kBool",
}

_TENSOR_METHODS = {
    "size": "sym_size",
    "numel": "sym_numel",
    "dim": "dim",
    "is_floating_point": "is_floating_point",
    "is_complex": "is_complex",
}
_OPERATORS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.FloorDiv: "/"}
_COMPARISONS = {ast.Eq: "==", ast.NotEq: "!=", ast.Lt: "<", ast.LtE: "<=", ast.Gt: ">", ast.GtE: ">="}


class ExpressionError(ValueError):
    """An expression is wrong. The text says what may be written instead."""


def _parsed(text: str) -> ast.expr:
    try:
        return ast.parse(text, mode="eval").body
    except SyntaxError as error:
        raise ExpressionError(f"{text!r} is no expression: {error.msg}") from error


def _constant(node: ast.Constant) -> str:
    if isinstance(node.value, bool):
        return "true" if node.value else "false"
    if isinstance(node.value, int | float):
        return repr(node.value)
    raise ExpressionError(f"{node.value!r} cannot stand here: write numbers, True or False")


def rule(text: str, arguments: Mapping[str, Argument]) -> str:
    """C++ of a size or a condition over the arguments, with sizes as c10::SymInt.

    Raises:
        ExpressionError: the text has a syntax error, an unknown name, or something that rules do not support.
    """
    return _Rule(text, arguments).translate(_parsed(text))


class _Rule:
    def __init__(self, text: str, arguments: Mapping[str, Argument]) -> None:
        self._text = text
        self._arguments = arguments

    def translate(self, node: ast.expr) -> str:
        match node:
            case ast.Constant():
                return _constant(node)
            case ast.Name(id=name) if name in DTYPES:
                return DTYPES[name]
            case ast.Name(id=name):
                return self._argument(name).name
            case ast.BinOp(op=op) if type(op) in _OPERATORS:
                return f"({self.translate(node.left)} {_OPERATORS[type(op)]} {self.translate(node.right)})"
            case ast.UnaryOp(op=ast.USub()):
                return f"(-{self.translate(node.operand)})"
            case ast.UnaryOp(op=ast.Not()):
                return f"!({self.translate(node.operand)})"
            case ast.BoolOp(op=op):
                joined = (" && " if isinstance(op, ast.And) else " || ").join(map(self.translate, node.values))
                return f"({joined})"
            case ast.Compare(left=ast.Name(id=name), ops=[ast.Is() | ast.IsNot()]):
                return self._presence(name, node)
            case ast.Compare():
                return self._comparison(node)
            case ast.Attribute(value=ast.Name(id=name), attr="dtype"):
                return f"{self._tensor(name)}scalar_type()"
            case ast.Subscript(value=ast.Name(id=name), slice=place):
                return f"{self._argument(name).name}.at({self.translate(place)})"
            case ast.Call(func=ast.Name(id="len"), args=[ast.Name(id=name)], keywords=[]):
                return f"static_cast<int64_t>({self._argument(name).name}.size())"
            case ast.Call(func=ast.Name(id="max" | "min" as which), args=[first, *others], keywords=[]) if others:
                text = f"c10::SymInt({self.translate(first)})"
                for other in others:
                    text += f".{which}({self.translate(other)})"
                return text
            case ast.Call(func=ast.Attribute(value=ast.Name(id=name), attr=method), args=given, keywords=[]) if (
                method in _TENSOR_METHODS and len(given) == (method == "size")
            ):
                return f"{self._tensor(name)}{_TENSOR_METHODS[method]}({', '.join(map(self.translate, given))})"
        raise ExpressionError(
            f"{ast.unparse(node)!r} in {self._text!r} is not in the language of rules: numbers, arguments, + - * //, "
            "min, max, comparisons, and, or, not, len(list), list[i], and of tensors "
            f"{', '.join(f'.{method}()' for method in _TENSOR_METHODS)} and .dtype"
        )

    def _comparison(self, node: ast.Compare) -> str:
        sides = [self.translate(side) for side in (node.left, *node.comparators)]
        parts = []
        for left, op, right in zip(sides, node.ops, sides[1:], strict=False):
            if type(op) not in _COMPARISONS:
                raise ExpressionError(f"{ast.unparse(node)!r} compares in a way that rules do not know: use == != < <=")
            parts.append(f"{left} {_COMPARISONS[type(op)]} {right}")
        return f"({' && '.join(parts)})"

    def _presence(self, name: str, node: ast.Compare) -> str:
        argument = self._argument(name)
        if not argument.schema_type.endswith("?") or ast.unparse(node.comparators[0]) != "None":
            raise ExpressionError(f"{ast.unparse(node)!r}: `is` compares optional arguments with None")
        return f"{'!' if isinstance(node.ops[0], ast.Is) else ''}{name}.has_value()"

    def _argument(self, name: str) -> Argument:
        if name not in self._arguments:
            raise ExpressionError(f"{name!r} in {self._text!r} is no argument: there are {', '.join(self._arguments)}")
        return self._arguments[name]

    def _tensor(self, name: str) -> str:
        argument = self._argument(name)
        if argument.is_optional_tensor:
            return f"{name}->"
        if not argument.is_tensor:
            raise ExpressionError(f"{name!r} in {self._text!r} is of type {argument.schema_type}, no tensor")
        return f"{name}."


_TENSOR_OPERATORS = {ast.Add: "+", ast.Sub: "-", ast.Mult: "*", ast.Div: "/"}


def formula(text: str, names: set[str], function: Callable[[str], str]) -> str:
    """C++ of a gradient over the variables `names`. `function` returns the C++ name of an operator that is called.

    Raises:
        ExpressionError: the text has a syntax error, an unknown name, or something that formulas do not support.
    """

    def translate(node: ast.expr) -> str:
        match node:
            case ast.Constant(value=None):
                return "std::nullopt"
            case ast.Constant():
                return _constant(node)
            case ast.Name(id=name):
                if name not in names:
                    raise ExpressionError(f"{name!r} in {text!r} is unknown: there are {', '.join(sorted(names))}")
                return name
            case ast.List(elts=items):
                return f"{{{', '.join(map(translate, items))}}}"
            case ast.UnaryOp(op=ast.USub()):
                return f"(-{translate(node.operand)})"
            case ast.BinOp(op=op) if type(op) in _TENSOR_OPERATORS:
                return f"({translate(node.left)} {_TENSOR_OPERATORS[type(op)]} {translate(node.right)})"
            case ast.Call(func=ast.Name(id=name), args=given, keywords=[]):
                return f"{function(name)}({', '.join(map(translate, given))})"
            case ast.Call(func=ast.Attribute(value=value, attr=method), args=given, keywords=[]):
                return f"{translate(value)}.{method}({', '.join(map(translate, given))})"
        raise ExpressionError(
            f"{ast.unparse(node)!r} in {text!r} is not in the language of gradients: numbers, arguments, outputs, "
            "gradients, + - * /, lists, and calls of operators or of tensors' methods, without keywords"
        )

    return translate(_parsed(text))


def names_in(text: str) -> set[str]:
    """The variables of a formula, without the operators that it calls."""
    tree = _parsed(text)
    called = {id(node.func) for node in ast.walk(tree) if isinstance(node, ast.Call)}
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and id(node) not in called}


def functions_in(text: str) -> set[str]:
    """The operators that a formula calls by name."""
    calls = [node.func for node in ast.walk(_parsed(text)) if isinstance(node, ast.Call)]
    return {func.id for func in calls if isinstance(func, ast.Name)}
