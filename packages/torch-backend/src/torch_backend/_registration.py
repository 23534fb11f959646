"""What happens at `import torch`: the name, the module torch.tb, and the C++ registrations. No device is used.

If a step fails, `_state` keeps the reason, which the first use of tb raises.
"""

import inspect
import sys
import warnings

import torch
from torch.utils.backend_registration import generate_methods_for_privateuse1_backend, rename_privateuse1_backend

import torch_backend
from torch_backend import _state
from torch_backend._after_import import after_import
from torch_backend._build import extension_folder

_UNNAMED = "privateuseone"
_done = False


def register() -> None:
    """Registers the backend. Idempotent and re-entrant; never raises."""
    global _done
    if _done:
        return
    _done = True
    try:
        _claim_name()
        _load_core()
    except Exception as error:
        _state.set_failure(str(error) or repr(error))


def _claim_name() -> None:
    name = torch._C._get_privateuse1_backend_name()
    if name not in (_UNNAMED, "tb"):
        _add_module_without_name()
        owner = getattr(getattr(torch, name, None), "__name__", "unknown module")
        text = (
            f"torch.device('tb') is not available in this process: PyTorch has one slot for outside devices, and the "
            f"backend '{name}' ({owner}) took it first. Uninstall one of the two, or set TB_REGISTER=0 to have "
            f"'{name}' alone, or TORCH_DEVICE_BACKEND_AUTOLOAD=0 and import torch_backend to have tb."
        )
        _warn(text)
        raise RuntimeError(text)
    if name == _UNNAMED:
        rename_privateuse1_backend("tb")
    if not hasattr(torch, "tb"):
        from torch_backend import device_module

        torch._register_device_module("tb", device_module)  # type: ignore[no-untyped-call]
        for name, part in inspect.getmembers(device_module, inspect.ismodule):
            if part.__name__ == f"{device_module.__name__}.{name}":
                sys.modules[f"torch.tb.{name}"] = part  # `import torch.tb.memory` would load it a second time
        generate_methods_for_privateuse1_backend(for_storage=True)


def _add_module_without_name() -> None:
    """Makes torch.tb exist, so that it can raise the reason why torch.device('tb') does not."""
    if not hasattr(torch, "tb"):
        from torch_backend import device_module

        torch.tb = device_module  # type: ignore[attr-defined]
        sys.modules["torch.tb"] = device_module


def _warn(text: str) -> None:
    try:
        warnings.warn(text, RuntimeWarning, stacklevel=2)
    except RuntimeWarning:  # warnings are errors in this process; the first use raises the text
        return


def _prepare_before_operators() -> None:
    """A program may ask tb-ops something before it uses tb. Its kernels come with all that belongs to tb."""
    import tb_ops

    tb_ops.prepare_by(_state.initialize)


def _load_core() -> None:
    torch_backend.__path__.insert(0, extension_folder(torch.__version__))  # _core is in the folder of this torch
    from torch_backend import (
        _compilers,
        _core,
        _data_parallel,
        _dlpack,
        _modes,
        _multiprocessing,
        distributed,
        integrations,
    )

    _core._connect()
    _core._register()
    _dlpack.repair()
    _data_parallel.divide_models_of_tb()
    distributed.register()
    _multiprocessing.send_storages_by_value()
    _modes.synchronize_before_changes()
    _compilers.introduce()
    _state.set_registered()
    after_import("tb_ops", _prepare_before_operators)
    integrations.install()  # a client that imports torch is in the middle of its import and may be warned of
