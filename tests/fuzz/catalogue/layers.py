"""Layers of networks: convolution, pooling, norms, attention, losses, embeddings."""

from __future__ import annotations

import torch

from ..pool import Draft, Pool
from .operation import operation

KINDS = (torch.float32, torch.float32, torch.float64)


def _leaf(pool: Pool, shape: tuple[int, ...], dtype: torch.dtype) -> str:
    return pool.make(shape, dtype) + (".requires_grad_()" if pool.grad and pool.chance.random() < 0.3 else "")


@operation(3)
def image(pool: Pool) -> Draft:
    chance, dtype = pool.chance, pool.chance.choice(KINDS)
    channels, side = 2 * chance.randint(1, 3), chance.randint(5, 9)
    found = pool.names(lambda x: x.dim() == 4 and x.dtype == dtype and min(x.shape[2:]) >= 5 and x.size(1) % 2 == 0)
    x = chance.choice(found) if found else _leaf(pool, (2, channels, side, side), dtype)
    if found:
        channels = pool[x].size(1)
    weight, bias = pool.make((4, channels, 3, 3), dtype), pool.make((4,), dtype)
    one, statistics = pool.make((channels,), dtype), f"torch.zeros({channels}, dtype={dtype}, device=stage.device)"
    return Draft(
        chance.choice(
            (
                f"F.conv2d({x}, {weight}, {bias}, stride={chance.randint(1, 2)}, padding=1)",
                f"F.conv2d({x}, {pool.make((channels, 1, 3, 3), dtype)}, groups={channels})",
                f"F.conv_transpose2d({x}, {pool.make((channels, 3, 2, 2), dtype)}, stride=2)",
                f"F.max_pool2d({x}, 2)",
                f"F.max_pool2d({x}, 3, 2, 1, return_indices=True)",
                f"F.avg_pool2d({x}, 2)",
                f"F.adaptive_avg_pool2d({x}, (2, 3))",
                f"F.batch_norm({x}, {statistics}, {statistics}, {one}, None, training=True)",
                f"F.group_norm({x}, 2, {one}, {one})",
                f"F.instance_norm({x})",
                f"F.interpolate({x}, scale_factor=2)",
                f"F.interpolate({x}, size=(4, 5), mode='bilinear')",
                f"F.pad({x}, (1, 2, 0, 1), mode={chance.choice(('constant', 'reflect', 'replicate', 'circular'))!r})",
                f"F.pixel_shuffle({pool.make((1, 4, 3, 3), dtype)}, 2)",
                f"F.unfold({x}, 2)",
                f"{x}.contiguous(memory_format=torch.channels_last)",
            )
        )
    )


@operation(3)
def sequence(pool: Pool) -> Draft:
    chance, dtype = pool.chance, pool.chance.choice(KINDS)
    found = pool.names(lambda x: x.dim() >= 2 and x.dtype == dtype and 0 < x.numel() <= 500)
    x = chance.choice(found) if found else _leaf(pool, (2, 3, 8), dtype)
    width = pool[x].size(-1) if found else 8
    one, length = pool.make((width,), dtype), chance.randint(1, 6)
    queries = [_leaf(pool, (1, 2, length, 8), dtype) for _ in range(3)]
    table, words = _leaf(pool, (7, 4), dtype), pool.indices(7, (2, 3))
    return Draft(
        chance.choice(
            (
                f"F.layer_norm({x}, ({width},), {one}, {one})",
                f"F.rms_norm({x}, ({width},), {one})",
                f"F.scaled_dot_product_attention({', '.join(queries)}, is_causal={chance.random() < 0.5})",
                f"F.embedding({words}, {table})",
                f"F.embedding_bag({words}, {table}, mode={chance.choice(('sum', 'mean', 'max'))!r})",
                f"F.glu({_leaf(pool, (3, 4), dtype)})",
                f"F.normalize({x}, dim=-1)",
                f"F.cosine_similarity({x}, {x} + 1, -1)",
                f"F.one_hot({words}, 7)",
                f"F.conv1d({_leaf(pool, (2, 3, 9), dtype)}, {pool.make((4, 3, 2), dtype)}, padding=1)",
                f"F.max_pool1d({_leaf(pool, (2, 3, 9), dtype)}, 2)",
                f"F.local_response_norm({_leaf(pool, (2, 3, 9), dtype)}, 2)",
            )
        )
    )


@operation(2)
def loss(pool: Pool) -> Draft:
    chance, dtype = pool.chance, pool.chance.choice(KINDS)
    rows, classes = chance.randint(1, 6), chance.randint(2, 5)
    x, y = _leaf(pool, (rows, classes), dtype), pool.make((rows, classes), dtype)
    chosen, how = pool.indices(classes, (rows,)), chance.choice(("mean", "sum", "none"))
    return Draft(
        chance.choice(
            (
                f"F.cross_entropy({x}, {chosen}, reduction={how!r}, label_smoothing=0.1)",
                f"F.nll_loss(F.log_softmax({x}, 1), {chosen}, reduction={how!r})",
                f"F.mse_loss({x}, {y}, reduction={how!r})",
                f"F.l1_loss({x}, {y}, reduction={how!r})",
                f"F.smooth_l1_loss({x}, {y}, reduction={how!r})",
                f"F.huber_loss({x}, {y}, reduction={how!r})",
                f"F.binary_cross_entropy_with_logits({x}, {y}.sigmoid(), reduction={how!r})",
                f"F.kl_div({x}, {y}.softmax(1), reduction={how!r})",
                f"F.soft_margin_loss({x}, {y}.sign(), reduction={how!r})",
            )
        )
    )
