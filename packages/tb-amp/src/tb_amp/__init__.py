"""Autocast rules and gradient scaling for PyTorch's PrivateUse1 devices, made from PyTorch's own lists."""

from typing import Any

import torch

from ._build import TORCH_MINOR, VERSION

# Before the extension is loaded: in another minor version it would not load, or worse, load and crash.
if torch.__version__.split(".")[:2] != TORCH_MINOR.split("."):
    raise ImportError(
        f"tb-amp {VERSION} was built for torch {TORCH_MINOR}, but torch {torch.__version__} is installed: "
        f"pip install 'torch=={TORCH_MINOR}.*' or a tb-amp built for {torch.__version__}"
    )

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
    """Registers the autocast rules, and GradScaler's two operators, for PrivateUse1 devices; again does nothing.

    Importing this package registers nothing. RuntimeError where another package has registered autocast rules already;
    a backend's own kernels of the two operators stay.
    """
    _core.register()


def make_way() -> None:
    """For a backend: takes back GradScaler's two operators, so that it can register kernels of its own for them.

    register() then registers those again that the backend did not. A program has no use for this.
    """
    _core.withdraw_scaler()


def rules() -> dict[str, list[str]]:
    """Names of the operators that autocast treats by each policy, as they stand in native_functions.yaml.

    Policies: lower_precision_fp, fp32, fp32_set_opt_dtype, fp32_append_dtype, promote (those of
    at::autocast::CastPolicy) and banned. The names come from the AT_FORALL_ lists of the ATen/autocast_mode.h that this
    package was built with, which are also CUDA's; then follow those of add_rule(), with their library's name.
    """
    found = _core.rules()
    for name, policy in _core.custom_rules().items():
        found[policy].append(name)
    return found


def get_amp_supported_dtype() -> list[torch.dtype]:
    """Types that autocast may use; the first is the one to prefer."""
    return [torch.bfloat16, torch.float16]


class autocast(_autocast):
    """torch.autocast for the PrivateUse1 device, whatever its name; to bfloat16 unless told otherwise."""

    def __init__(
        self, enabled: bool = True, dtype: torch.dtype = torch.bfloat16, cache_enabled: bool | None = None
    ) -> None:
        super().__init__(torch._C._get_privateuse1_backend_name(), dtype, enabled, cache_enabled)


def custom_fwd(forward: Any = None, *, cast_inputs: torch.dtype | None = None) -> Any:
    """torch.amp.custom_fwd for the PrivateUse1 device: for `forward` of an autograd.Function. A decorator."""
    return torch.amp.custom_fwd(forward, device_type=torch._C._get_privateuse1_backend_name(), cast_inputs=cast_inputs)


def custom_bwd(backward: Any = None) -> Any:
    """torch.amp.custom_bwd for the PrivateUse1 device: `backward` runs in forward's autocast state. A decorator."""
    return torch.amp.custom_bwd(backward, device_type=torch._C._get_privateuse1_backend_name())
