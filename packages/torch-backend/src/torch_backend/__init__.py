"""torch-backend: the tb components composed into one PyTorch device, `torch.device("tb")`.

PyTorch loads this package by itself (entry point `torch.backends`); `import torch_backend` does the same explicitly,
before or after `import torch`. Neither fails because of a driver, a version or another backend: the first use of `tb`
raises the reason, and `python -m torch_backend` prints it.
"""

import os
import sys


def _autoload() -> None:
    """Registers `tb` with PyTorch. Called by `import torch`; never raises; may be called again and recursively.

    With TB_REGISTER=0 it does nothing: PyTorch has one slot for outside devices, and another backend takes it.
    """
    if os.environ.get("TB_REGISTER") == "0":
        return
    # Defined before anything is imported: if `import torch_backend` comes first, PyTorch calls it while this module is
    # still being loaded.
    try:
        from torch_backend import _registration

        _registration.register()
    except Exception as error:  # a damaged installation, in which _state cannot keep the reason for later
        print(f"torch_backend: not registered, torch.device('tb') will be unknown: {error!r}", file=sys.stderr)


import torch  # noqa: F401  (loads this backend by itself unless TORCH_DEVICE_BACKEND_AUTOLOAD=0)

from torch_backend._build import VERSION as __version__
from torch_backend._doctor import doctor

_autoload()

__all__ = ["__version__", "doctor"]
