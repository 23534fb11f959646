"""Lowers FX graphs of ATen calls, as AOTAutograd makes them, to programs."""

from __future__ import annotations

import math
import operator
from collections.abc import Callable
from typing import Any

import torch
from torch import fx

from ._core import Builder, Program


class Unsupported(Exception):
    """A straight-line program cannot hold something in the graph; the text says what."""


# Arithmetic of sizes: the functions that FX graphs call on numbers, and the equivalent operators of TorchScript.
_OF_NUMBERS: dict[Callable[..., Any], str] = {
    operator.add: "aten::add.int",
    operator.sub: "aten::sub.int",
    operator.mul: "aten::mul.int",
    operator.floordiv: "aten::floordiv.int",
    operator.mod: "aten::remainder.int",
    operator.neg: "aten::neg.int",
    operator.eq: "aten::eq.int",
    operator.ne: "aten::ne.int",
    operator.lt: "aten::lt.int",
    operator.le: "aten::le.int",
    operator.gt: "aten::gt.int",
    operator.ge: "aten::ge.int",
    math.ceil: "aten::ceil.int",
    torch.sym_max: "prim::max.int",
    torch.sym_min: "prim::min.int",
}


def _source(node: fx.Node) -> str:
    """The user's line: 'File "model.py", line 7, in forward'."""
    trace = node.meta.get("stack_trace") or ""
    lines = [line.strip() for line in trace.splitlines() if line.strip().startswith("File ")]
    return lines[-1] if lines else ""


_NUMBERS = (int, float, bool, torch.SymInt, torch.SymFloat, torch.SymBool)


class _Lowering:
    """The lowering of one graph."""

    def __init__(self, graph_module: fx.GraphModule, name: str) -> None:
        self.graph_module = graph_module
        self.builder = Builder(name)
        self.values: dict[fx.Node, Any] = {}  # a list for an operator with several results

    def argument(self, value: Any) -> Any:
        """An argument of a call, with nodes replaced by values of the program."""
        if isinstance(value, fx.Node):
            found = self.values[value]
            if isinstance(found, list):
                raise Unsupported(f"{value.name}, which has several results, is an argument")
            return found
        if isinstance(value, (list, tuple)):
            return [self.argument(one) for one in value]
        if isinstance(value, (torch.SymInt, torch.SymFloat, torch.SymBool)):
            raise Unsupported(f"the symbolic number {value} is an argument, and no node of the graph")
        return value

    def call(self, node: fx.Node) -> Any:
        target = node.target
        if target is operator.getitem:
            source, index = node.args
            if not isinstance(source, fx.Node) or not isinstance(index, int):
                raise Unsupported("an element whose number is not known before the run")
            found = self.values[source]
            if isinstance(found, list):
                return found[index]
            return self.builder.element(found, index)
        if isinstance(target, torch._ops.OpOverload):
            schema = target._schema
            name, several = f"{schema.name}.{schema.overload_name or 'default'}", len(schema.returns) != 1
        elif target in _OF_NUMBERS:
            if not all(isinstance(self._example(argument), (int, torch.SymInt)) for argument in node.args):
                raise Unsupported(f"{target} of numbers that are no integers")
            name, several = _OF_NUMBERS[target], False
        else:
            raise Unsupported(f"{getattr(target, '__module__', '')}.{getattr(target, '__name__', target)}")
        arguments = [self.argument(one) for one in node.args]
        keywords = {key: self.argument(value) for key, value in node.kwargs.items()}
        if isinstance(example := node.meta.get("val"), torch.Tensor) and isinstance(
            keywords.get("device"), torch.device
        ):
            keywords["device"] = example.device  # with its number: "tb" was the current device of the user's code
        try:
            results = self.builder.call(name, arguments, keywords, _source(node))
        except (NotImplementedError, KeyError) as error:
            raise Unsupported(f"{name}: {error.args[0]}") from error
        return results if several else results[0]

    @staticmethod
    def _example(argument: Any) -> Any:
        return argument.meta.get("val") if isinstance(argument, fx.Node) else argument

    def constant(self, node: fx.Node) -> Any:
        found: Any = self.graph_module
        for part in str(node.target).split("."):
            found = getattr(found, part)
        if not isinstance(found, torch.Tensor):
            raise Unsupported(f"{node.target}, a {type(found).__name__}: only tensors are constants of a program")
        return found

    def input(self, node: fx.Node) -> Any:
        example = node.meta.get("val")
        if not isinstance(example, (torch.Tensor, *_NUMBERS, type(None))):
            raise Unsupported(f"input {node.name}, a {type(example).__name__}: a program takes tensors and numbers")
        return self.builder.input(not isinstance(example, torch.Tensor))

    def run(self) -> Program:
        for node in self.graph_module.graph.nodes:
            if isinstance(node.target, torch._ops.HigherOrderOperator):
                raise Unsupported(f"{node.target}, an operator on functions: a program is one straight line")
        for node in self.graph_module.graph.nodes:
            if node.op == "placeholder":
                self.values[node] = self.input(node)
            elif node.op == "get_attr":
                self.values[node] = self.constant(node)
            elif node.op == "call_function":
                self.values[node] = self.call(node)
            elif node.op == "output":
                return self.builder.finish([self.argument(one) for one in node.args[0]])
            else:
                raise Unsupported(f"{node.op} {node.target}: AOTAutograd leaves calls of functions only")
        raise Unsupported("a graph without an output")


def lower(graph_module: fx.GraphModule, name: str) -> Program:
    """The program of a graph whose calls are operators and arithmetic of sizes, and whose output is a list.

    Unsupported: the graph has higher-order operators or something else without a straight-line form.
    """
    return _Lowering(graph_module, name).run()
