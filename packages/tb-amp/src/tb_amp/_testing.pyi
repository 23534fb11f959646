"""
What only the tests of tb_amp call.
"""
from __future__ import annotations
import collections.abc
import torch
__all__: list[str] = ['unscale_', 'update_scale_']
def unscale_(gradients: collections.abc.Sequence[torch.Tensor], found_inf: torch.Tensor, inv_scale: torch.Tensor) -> None:
    """
    aten::_amp_foreach_non_finite_check_and_unscale_
    """
def update_scale_(scale: torch.Tensor, growth_tracker: torch.Tensor, found_inf: torch.Tensor, growth_factor: float, backoff_factor: float, growth_interval: int) -> None:
    """
    aten::_amp_update_scale_
    """
