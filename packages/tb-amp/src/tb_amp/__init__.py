"""Autocast rules, from PyTorch's own lists, and gradient scaling for PrivateUse1 devices."""

from typing import Any

import torch

from ._build import VERSION, extension_folder

# This comes before the imports of _core, which is in the folder of this torch.
__path__.insert(0, extension_folder(torch.__version__))

from torch.amp.autocast_mode import autocast as _autocast

from . import _core
from .custom_rules import add_rule, remove_rule
from .grad_scaler import GradScaler

__version__ = VERSION
__all__ = [
    "GradScaler",
    "add_rule",
    "autocast",
    "custom_bwd",
    "custom_fwd",
    "get_amp_supported_dtype",
    "make_way",
    "register",
    "remove_rule",
    "rules",
]


def register() -> None:
    """Registers the autocast rules and GradScaler's two operators for PrivateUse1 devices. Further calls do nothing.

    Importing this package registers nothing. A backend's own kernels of the two operators are kept. RuntimeError:
    another package has registered autocast rules already.
    """
    _core.register()


def make_way() -> None:
    """Removes GradScaler's two operators, so that a backend can register its own kernels for them.

    register() then registers those for which the backend has no kernel. Programs do not need this.
    """
    _core.withdraw_scaler()


def rules() -> dict[str, list[str]]:
    """The operators of each policy of autocast, named as in native_functions.yaml.

    Policies: lower_precision_fp, fp32, fp32_set_opt_dtype, fp32_append_dtype, promote (those of
    at::autocast::CastPolicy) and banned. The names are from the AT_FORALL_ lists of the ATen/autocast_mode.h with which
    this package was built, and which CUDA uses too. The operators of add_rule() follow, with their library's name.
    """
    found = _core.rules()
    for name, policy in _core.custom_rules().items():
        found[policy].append(name)
    return found


def get_amp_supported_dtype() -> list[torch.dtype]:
    """The dtypes that autocast can use; the first is the preferred one."""
    return [torch.bfloat16, torch.float16]


class autocast(_autocast):
    """torch.autocast for the PrivateUse1 device of any name. The default dtype is bfloat16."""

    def __init__(
        self, enabled: bool = True, dtype: torch.dtype = torch.bfloat16, cache_enabled: bool | None = None
    ) -> None:
        super().__init__(torch._C._get_privateuse1_backend_name(), dtype, enabled, cache_enabled)


def custom_fwd(forward: Any = None, *, cast_inputs: torch.dtype | None = None) -> Any:
    """torch.amp.custom_fwd for the PrivateUse1 device: a decorator for `forward` of an autograd.Function."""
    return torch.amp.custom_fwd(forward, device_type=torch._C._get_privateuse1_backend_name(), cast_inputs=cast_inputs)


def custom_bwd(backward: Any = None) -> Any:
    """torch.amp.custom_bwd for the PrivateUse1 device: a decorator that runs `backward` in forward's autocast state."""
    return torch.amp.custom_bwd(backward, device_type=torch._C._get_privateuse1_backend_name())
