"""Copies of sample inputs on a device, with equal values, strides, storage offsets, conjugate and negative bits."""

from __future__ import annotations

from typing import Any

import torch
from torch.nn.utils.rnn import PackedSequence
from torch.utils import _pytree as pytree


def _dense(tensor: torch.Tensor) -> bool:
    """Whether the elements fill their memory without gaps or overlaps. A copy keeps the strides of such tensors."""
    if tensor.numel() == 0 or tensor.storage_offset() != 0:
        return False
    expected = 1
    for stride, size in sorted(zip(tensor.stride(), tensor.shape, strict=True)):
        if size == 1:
            continue
        if stride != expected:
            return False
        expected *= size
    return True


def _copied(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    copied = tensor.to(device)
    return copied.clone() if copied is tensor else copied


def copy_tensor_to_device(tensor: torch.Tensor, device: torch.device) -> torch.Tensor:
    """A copy that shares no memory with the original. If a tensor is not dense, its whole storage is copied."""
    with torch.no_grad():
        plain = tensor.detach()
        if plain.layout != torch.strided or plain.is_quantized or type(plain) is not torch.Tensor:
            placed = _copied(plain, device)
        elif plain.is_conj():
            placed = copy_tensor_to_device(plain.conj(), device).conj()
        elif plain.is_neg():
            placed = copy_tensor_to_device(plain._neg_view(), device)._neg_view()
        elif _dense(plain) and plain.untyped_storage().nbytes() == plain.numel() * plain.element_size():
            placed = _copied(plain, device)
        else:
            elements = plain.untyped_storage().nbytes() // plain.element_size()
            storage = _copied(plain.as_strided((elements,), (1,), 0), device)
            placed = storage.as_strided(plain.size(), plain.stride(), plain.storage_offset())
        placed = placed.detach()
    if isinstance(tensor, torch.nn.Parameter):
        return torch.nn.Parameter(placed, requires_grad=tensor.requires_grad)
    return placed.requires_grad_(tensor.requires_grad)


def copy_to_device(values: Any, device: torch.device) -> Any:
    """Copies a structure of sample inputs to the device. An argument that names the CPU names the device in the copy.

    A tensor that occurs twice in the structure is copied once.
    """
    known: dict[int, torch.Tensor] = {}

    def leaf(value: Any) -> Any:
        if isinstance(value, torch.Tensor):
            if id(value) not in known:
                known[id(value)] = copy_tensor_to_device(value, device)
            return known[id(value)]
        if isinstance(value, PackedSequence):
            return value.to(device)  # type: ignore[arg-type]  # declared for dtypes only
        if (isinstance(value, torch.device) and value.type == "cpu") or (isinstance(value, str) and value == "cpu"):
            return device
        if isinstance(value, torch.Generator):
            return torch.Generator(device).manual_seed(value.initial_seed())
        return value

    def walk(value: Any) -> Any:
        if isinstance(value, dict):
            return {key: walk(member) for key, member in value.items()}
        if type(value) in (list, tuple):
            return type(value)(walk(member) for member in value)
        return pytree.tree_map(leaf, value, is_leaf=lambda inner: isinstance(inner, PackedSequence))

    return walk(values)


def tensors_in(values: Any) -> list[torch.Tensor]:
    """The tensors of a structure, in order."""
    leaves = pytree.tree_leaves(values, is_leaf=lambda inner: isinstance(inner, PackedSequence))
    flat = [leaf.data if isinstance(leaf, PackedSequence) else leaf for leaf in leaves]
    return [leaf for leaf in flat if isinstance(leaf, torch.Tensor)]
