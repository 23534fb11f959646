"""flex_attention on tb. PyTorch has kernels for the devices on its own list, and plain operators for any device.

Compiled graphs use the plain operators, which a program runs one after another and Inductor fuses.
"""

from __future__ import annotations

import functools
import importlib
from collections.abc import Sequence
from typing import Any

import torch
from torch import fx
from torch._guards import detect_fake_mode
from torch._higher_order_ops.flex_attention import (
    flex_attention,
    flex_attention_backward,
    sdpa_dense,
    sdpa_dense_backward,
)
from torch.fx.experimental.proxy_tensor import make_fx

_PLAIN: dict[Any, Any] = {
    flex_attention: sdpa_dense,
    flex_attention_backward: sdpa_dense_backward,
}

_AUTOCAST: Any = torch._C._dispatch_key_parse("AutocastPrivateUse1")


@functools.cache
def allow() -> None:
    """Makes PyTorch accept tb, which is not on its list of devices, also under autocast."""
    public: Any = importlib.import_module("torch.nn.attention.flex_attention")  # not the function of its name
    stock = public._validate_device

    def validate(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor) -> None:
        if query.device.type != "tb":
            stock(query, key, value)

    public._validate_device = validate
    flex_attention.py_impl(_AUTOCAST)(_with_casts)


def _with_casts(query: torch.Tensor, key: torch.Tensor, value: torch.Tensor, *rest: Any) -> Any:
    wanted = torch.get_autocast_dtype("tb")
    cast: list[Any] = [one.to(wanted) if one.is_floating_point() else one for one in (query, key, value)]
    with torch._C._ExcludeDispatchKeyGuard(torch._C.DispatchKeySet(_AUTOCAST)):
        return flex_attention(*cast, *rest)


def in_plain_operators(graph_module: fx.GraphModule) -> None:
    """Replaces calls of flex_attention on tb in a graph of ATen calls, in place."""
    found = [node for node in graph_module.graph.nodes if node.target in _PLAIN and _is_on_tb(node)]
    for node in found:
        _replace(graph_module, node)
    if found:
        graph_module.graph.eliminate_dead_code()
        graph_module.recompile()


def _is_on_tb(node: fx.Node) -> bool:
    query = node.args[0]
    value = query.meta.get("val") if isinstance(query, fx.Node) else None
    return isinstance(value, torch.Tensor) and value.device.type == "tb"


def _replace(graph_module: fx.GraphModule, node: fx.Node) -> None:
    leaves, structure = torch.utils._pytree.tree_flatten((node.args, node.kwargs))
    nodes = [leaf for leaf in leaves if isinstance(leaf, fx.Node) and "val" in leaf.meta]
    wanting = _buffers_that_want_gradients(node)

    @torch.no_grad()
    def call(values: Sequence[Any]) -> Any:
        following = iter(
            [value.detach().requires_grad_(one in wanting) for one, value in zip(nodes, values, strict=True)]
        )
        given = [next(following) if leaf in nodes else _module(graph_module, leaf) for leaf in leaves]
        arguments, keywords = torch.utils._pytree.tree_unflatten(given, structure)
        return _PLAIN[node.target](*arguments, **keywords)

    from torch._inductor.decomposition import select_decomp_table

    examples = [one.meta["val"] for one in nodes]
    mode: Any = detect_fake_mode(examples)
    with mode:
        table: Any = select_decomp_table()
        plain = make_fx(call, decomposition_table=table)(examples)
    with graph_module.graph.inserting_before(node):
        values: dict[fx.Node, Any] = {}
        placeholders = [one for one in plain.graph.nodes if one.op == "placeholder"]
        values.update(zip(placeholders, nodes, strict=True))
        for one in plain.graph.nodes:
            if one.op == "get_attr":
                name = f"_{node.name}_{one.target}"
                graph_module.register_buffer(name, getattr(plain, str(one.target)), persistent=False)
                values[one] = graph_module.graph.get_attr(name)
                values[one].meta = dict(one.meta)
            elif one.op == "call_function":
                values[one] = graph_module.graph.node_copy(one, lambda old: values[old])
                values[one].meta = {**one.meta, "stack_trace": node.meta.get("stack_trace")}
        [output] = [one for one in plain.graph.nodes if one.op == "output"]
        flat: Any = output.args[0]
        results = [values[one] if isinstance(one, fx.Node) else one for one in flat]
    _hand_out(node, torch.utils._pytree.tree_unflatten(results, torch.utils._pytree.tree_flatten(node.meta["val"])[1]))


def _buffers_that_want_gradients(node: fx.Node) -> list[Any]:
    """The tensors that the user's score function reads and that require a gradient; the others get None."""
    if node.target is not flex_attention_backward:
        return []
    buffers: Any = node.args[12]
    return [one for one, gradient in zip(buffers, node.meta["val"][3], strict=True) if gradient is not None]


def _hand_out(node: fx.Node, results: Any) -> None:
    """Replaces the users of the call's results, which take an element of the result or of a list in it."""
    for user in list(node.users):
        index: Any = user.args[1]
        element = results[index]
        if isinstance(element, fx.Node):
            user.replace_all_uses_with(element)
        elif element is not None:
            _hand_out(user, element)
        user.graph.erase_node(user)


def _module(graph_module: fx.GraphModule, leaf: Any) -> Any:
    return getattr(graph_module, str(leaf.target)) if isinstance(leaf, fx.Node) else leaf
