"""Cases of normalization, attention and convolution kernels."""

from __future__ import annotations

from typing import Any

import torch
import torch.nn.functional as F
from ops.cases.case import Source, backward, case
from torch import Tensor

aten = torch.ops.aten

# ---- normalization ---------------------------------------------------------------------------------------------------


def layer_norm(source: Source, dtype: torch.dtype, parameters: torch.dtype) -> Any:
    x = source.randn(4, 6, 16, dtype=dtype, grad=True)
    w, b = (source.randn(16, dtype=parameters, grad=True) for _ in range(2))
    y = F.layer_norm(x, (16,), w, b)
    return y, backward(y, x, w, b), aten.native_layer_norm(x.detach(), [6, 16], None, None, 1e-5)


@case
def layer_norm_float(source: Source) -> Any:
    return layer_norm(source, torch.float32, torch.float32)


@case
def layer_norm_double(source: Source) -> Any:
    return layer_norm(source, torch.float64, torch.float64)


@case
def layer_norm_bfloat16(source: Source) -> Any:
    return layer_norm(source, torch.bfloat16, torch.bfloat16)


@case
def layer_norm_mixed(source: Source) -> Any:
    return layer_norm(source, torch.bfloat16, torch.float32)


@case
def layer_norm_strided_and_bare(source: Source) -> Any:
    x = source.randn(4, 16, 6, grad=True)
    y = F.layer_norm(x.transpose(1, 2), (16,))
    return y, backward(y, x)


@case
def layer_norm_of_no_rows(source: Source) -> Any:
    x = source.randn(0, 4).requires_grad_()
    w, b = source.randn(4, grad=True), source.randn(4, grad=True)
    y = F.layer_norm(x, (4,), w, b)
    return y, torch.autograd.grad(y.sum(), [x, w, b])


def batch_norm(source: Source, dtype: torch.dtype, layout: torch.memory_format, training: bool, affine: bool) -> Any:
    x = source.randn(3, 4, 5, 5, dtype=dtype).contiguous(memory_format=layout).requires_grad_()
    w, b = (source.randn(4, dtype=torch.float32, grad=True) if affine else None for _ in range(2))
    mean, var = source.randn(4), source.randn(4).abs() + 1
    y = F.batch_norm(x, mean, var, w, b, training=training)
    return y, mean, var, backward(y, x, w, b)


@case
def batch_norm_training(source: Source) -> Any:
    return batch_norm(source, torch.float32, torch.contiguous_format, True, True)


@case
def batch_norm_evaluation(source: Source) -> Any:
    return batch_norm(source, torch.float32, torch.contiguous_format, False, True)


@case
def batch_norm_channels_last(source: Source) -> Any:
    return batch_norm(source, torch.float32, torch.channels_last, True, True)


@case
def batch_norm_bare(source: Source) -> Any:
    return batch_norm(source, torch.float32, torch.contiguous_format, True, False)


@case
def batch_norm_mixed(source: Source) -> Any:
    return batch_norm(source, torch.bfloat16, torch.contiguous_format, True, True)


@case
def batch_norm_without_statistics(source: Source) -> Any:
    x = source.randn(3, 4, 5, grad=True)
    y = F.instance_norm(x)
    return y, backward(y, x)


@case
def batch_norm_strided(source: Source) -> Any:
    x = source.randn(3, 5, 4, grad=True)
    y = F.batch_norm(x.transpose(1, 2), None, None, training=True)
    return y, backward(y, x)


@case
def batch_norm_functional_forms(source: Source) -> Any:
    x, w, b = source.randn(3, 4, 5), source.randn(4), source.randn(4)
    mean, var = source.randn(4), source.randn(4).abs()
    return (
        aten.native_batch_norm(x, w, b, mean, var, True, 0.1, 1e-5),
        aten._native_batch_norm_legit(x, w, b, mean, var, True, 0.1, 1e-5),
        aten._native_batch_norm_legit.no_stats(x, w, b, True, 0.1, 1e-5),
        aten._batch_norm_with_update(x, w, b, mean, var, 0.1, 1e-5),
        mean,
        var,
    )


def group_norm(source: Source, dtype: torch.dtype, layout: torch.memory_format, affine: bool = True) -> Any:
    x = source.randn(3, 6, 5, 5, dtype=dtype).contiguous(memory_format=layout).requires_grad_()
    w, b = (source.randn(6, dtype=dtype, grad=True) if affine else None for _ in range(2))
    y = F.group_norm(x, 3, w, b)
    return y, backward(y, x, w, b)


@case
def group_norm_float(source: Source) -> Any:
    return group_norm(source, torch.float32, torch.contiguous_format)


@case
def group_norm_channels_last(source: Source) -> Any:
    # The operator is called directly, because F.group_norm makes its input contiguous on devices other than the CPU.
    x = source.randn(3, 6, 5, 5).contiguous(memory_format=torch.channels_last)
    w, b = source.randn(6), source.randn(6)
    out, mean, rstd = aten.native_group_norm(x, w, b, 3, 6, 25, 3, 1e-5)
    grads = aten.native_group_norm_backward(x, x, mean, rstd, w, 3, 6, 25, 3, [True, True, True])
    return out, mean, rstd, grads


@case
def group_norm_bfloat16(source: Source) -> Any:
    return group_norm(source, torch.bfloat16, torch.contiguous_format)


@case
def group_norm_bare(source: Source) -> Any:
    return group_norm(source, torch.float32, torch.contiguous_format, affine=False)


# ---- attention -------------------------------------------------------------------------------------------------------


def attention(
    source: Source,
    dtype: torch.dtype = torch.float32,
    causal: bool = False,
    mask: Tensor | None = None,
    split: bool = False,
    scale: float | None = None,
    length: int = 9,
) -> Any:
    if split:  # as in transformers, the operands are three parts of one projection
        joint = source.randn(2, 9, 3 * 16, dtype=dtype, grad=True)
        q, k, v = (part.view(2, 9, 4, 4).transpose(1, 2) for part in joint.chunk(3, -1))
        y = F.scaled_dot_product_attention(q, k, v, mask, is_causal=causal, scale=scale)
        return y, backward(y, joint)
    q = source.randn(2, 4, 9, 8, dtype=dtype, grad=True)
    k, v = (source.randn(2, 4, length, 8, dtype=dtype, grad=True) for _ in range(2))
    y = F.scaled_dot_product_attention(q, k, v, mask, is_causal=causal, scale=scale)
    return y, backward(y, q, k, v)


@case
def attention_float(source: Source) -> Any:
    return attention(source)


@case
def attention_causal(source: Source) -> Any:
    return attention(source, causal=True)


@case
def attention_split_causal(source: Source) -> Any:
    return attention(source, causal=True, split=True)


@case
def attention_bfloat16(source: Source) -> Any:
    return attention(source, torch.bfloat16, causal=True)


@case
def attention_half_split(source: Source) -> Any:
    return attention(source, torch.float16, split=True)


@case
def attention_double_scaled(source: Source) -> Any:
    return attention(source, torch.float64, scale=0.3, length=13)


@case
def attention_with_boolean_mask(source: Source) -> Any:
    return attention(source, mask=source.mask(9, 9) | torch.eye(9, dtype=torch.bool, device=source.device))


@case
def attention_with_added_mask(source: Source) -> Any:
    return attention(source, mask=source.randn(2, 1, 9, 9))


@case
def attention_operators(source: Source) -> Any:
    q, k, v = (source.randn(2, 4, 5, 8) for _ in range(3))
    out, logsumexp = aten._scaled_dot_product_flash_attention_for_cpu(q, k, v, 0.0, True)
    grads = aten._scaled_dot_product_flash_attention_for_cpu_backward(q, q, k, v, out, logsumexp, 0.0, True)
    return out, logsumexp, grads


# ---- convolution -----------------------------------------------------------------------------------------------------


def convolution(
    source: Source, dims: int, layout: torch.memory_format | None = None, dtype: torch.dtype = torch.float32, **how: Any
) -> Any:
    transposed, groups = how.pop("transposed", False), how.pop("groups", 1)
    x = source.randn(2, 4, *[7] * dims, dtype=dtype)
    w = source.randn(4 if transposed else 6, (6 if transposed else 4) // groups, *[3] * dims, dtype=dtype)
    if layout is not None:
        x = x.contiguous(memory_format=layout)
    x.requires_grad_()
    w.requires_grad_()
    b = source.randn(6, dtype=dtype, grad=True) if how.pop("bias", True) else None
    name = f"conv{'_transpose' if transposed else ''}{dims}d"
    y = getattr(F, name)(x, w, b, groups=groups, **how)
    return y, backward(y, x, w, b)


@case
def convolution_2d(source: Source) -> Any:
    return convolution(source, 2, padding=1)


@case
def convolution_1d(source: Source) -> Any:
    return convolution(source, 1, stride=2)


@case
def convolution_3d(source: Source) -> Any:
    return convolution(source, 3)


@case
def convolution_bare(source: Source) -> Any:
    return convolution(source, 2, bias=False, stride=(2, 1))


@case
def convolution_channels_last(source: Source) -> Any:
    return convolution(source, 2, torch.channels_last, padding=1)


@case
def convolution_grouped(source: Source) -> Any:
    return convolution(source, 2, groups=2)


@case
def convolution_dilated_double(source: Source) -> Any:
    return convolution(source, 2, dtype=torch.float64, dilation=2)


@case
def convolution_transposed(source: Source) -> Any:
    return convolution(source, 2, transposed=True, stride=2, output_padding=1)


@case
def convolution_bfloat16(source: Source) -> Any:
    return convolution(source, 2, dtype=torch.bfloat16)
