"""Context parallelism: attention over a sequence whose parts are on several ranks.

PyTorch goes round the ranks with kernels that it knows from CUDA, and has no rule for the one that tb and the CPU run.
Its rounds fit that kernel as well: it also gives the logarithm of the sums, by which parts are put together.
"""

from __future__ import annotations

import functools
import importlib
import inspect
from typing import Any

import torch

from torch_backend._after_import import after_import

_MODULE = "torch.distributed.tensor.experimental._context_parallel._attention"
_SEQUENCE = 2  # the dimension of the sequence in query, key and value
_FLASH = 1  # what _fused_sdp_choice answers: at::SDPBackend::flash_attention


def install() -> None:
    """Gives PyTorch's module the kernel once it is imported."""
    after_import(_MODULE, _add_kernel)


def _add_kernel() -> None:
    found: Any = importlib.import_module(_MODULE)
    needed = ("custom_ops", "_templated_ring_attention", "_templated_ring_attention_backward", "_ContextParallel")
    if not all(hasattr(found, name) for name in needed):
        return  # another version of PyTorch's, which refuses as it did
    aten: Any = torch.ops.aten
    found.custom_ops[aten._scaled_dot_product_flash_attention_for_cpu.default] = functools.partial(_forward, found)
    found.custom_ops[aten._scaled_dot_product_flash_attention_for_cpu_backward.default] = functools.partial(
        _backward, found
    )
    stock = found._ContextParallel.sdpa_input_fn

    @functools.wraps(stock)
    def sdpa_input_fn(self: Any, module: Any, args: Any, kwargs: Any, mesh: Any) -> Any:
        if mesh.device_type == "tb":
            _check(args, kwargs)
        return stock(self, module, args, kwargs, mesh)

    found._ContextParallel.sdpa_input_fn = sdpa_input_fn


def _check(args: Any, kwargs: Any) -> None:
    """Refuses what PyTorch would compute by plain products, whose mask does not know the order of the parts.

    NotImplementedError: the arguments are not for the kernel that goes round the ranks.
    """

    def attention(
        query: Any,
        key: Any,
        value: Any,
        attn_mask: Any = None,
        dropout_p: float = 0.0,
        is_causal: bool = False,
        **_: Any,
    ) -> None:
        mine = [part.to_local() if hasattr(part, "to_local") else part for part in (query, key, value)]
        mask = attn_mask.to_local() if hasattr(attn_mask, "to_local") else attn_mask
        more = {name: kwargs[name] for name in ("scale", "enable_gqa") if name in kwargs}
        fused_choice: Any = torch._fused_sdp_choice
        choice = fused_choice(*mine, mask, dropout_p, is_causal, **more)
        if mask is not None or choice != _FLASH:
            raise NotImplementedError(
                "context_parallel on tb splits the attention of the flash kernel: four dimensions, no attn_mask, no "
                "dropout. scaled_dot_product_attention was called with something else. Call it outside of "
                "context_parallel, or with is_causal instead of a mask and dropout_p=0.0."
            )

    inspect.signature(attention).bind(*args, **kwargs)
    attention(*args, **kwargs)


def _forward(ring: Any, operator: Any, args: Any, kwargs: Any) -> Any:
    given: list[Any] = [*args, *(0.0, False)[len(args) - 3 :]]
    query, key, value, dropout_p, is_causal = given
    mesh = _mesh(operator, args, kwargs)
    return _distributed(
        mesh,
        ring._templated_ring_attention(
            mesh.get_group(),
            _SEQUENCE,
            operator,
            query=query._local_tensor,
            key=key._local_tensor,
            value=value._local_tensor,
            is_causal=is_causal,
            dropout_p=dropout_p,
            scale=kwargs.get("scale"),
        ),
    )


def _backward(ring: Any, operator: Any, args: Any, kwargs: Any) -> Any:
    *tensors, dropout_p, is_causal = args
    mesh = _mesh(operator, args, kwargs)
    grad_out, query, key, value, out, logsumexp = (tensor._local_tensor for tensor in tensors)
    return _distributed(
        mesh,
        ring._templated_ring_attention_backward(
            mesh.get_group(),
            _SEQUENCE,
            operator,
            grad_out=grad_out,
            grad_out_name="grad_out",
            query=query,
            key=key,
            value=value,
            out=out,
            logsumexp=logsumexp,
            is_causal=is_causal,
            dropout_p=dropout_p,
            scale=kwargs.get("scale"),
        ),
    )


def _mesh(operator: Any, args: Any, kwargs: Any) -> Any:
    """The ranks among which the sequence is divided. NotImplementedError: on another device, in PyTorch's words."""
    from torch.distributed.tensor import DTensor

    mesh = args[0].device_mesh
    if mesh.device_type != "tb":
        dispatcher = DTensor._op_dispatcher
        dispatcher.sharding_propagator.propagate(dispatcher.unwrap_to_op_info(operator, args, kwargs))
        raise NotImplementedError(f"context parallelism has no rule for {operator} on {mesh.device_type}")
    return mesh


def _distributed(mesh: Any, parts: Any) -> Any:
    from torch.distributed.tensor import DTensor, Shard

    return tuple(DTensor.from_local(part, mesh, [Shard(_SEQUENCE)], run_check=False) for part in parts)
