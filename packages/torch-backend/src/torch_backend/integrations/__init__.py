"""Makes programs of other packages, here called clients, find device tb where they choose a device by themselves.

Such a package has a list of the devices that it knows, and takes the CPU on all others. The modules of this package
replace those places right after a client is imported: where the client would take the CPU, and tb is the accelerator of
this process, it takes tb. An explicit choice, such as `cpu=True`, keeps its meaning. No client is imported from here.

No version of a client is asked for: each place is mended if it has what its replacement needs, and otherwise it is left
and there is one warning for the client. `TB_INTEGRATIONS=0` switches all off, `TB_INTEGRATIONS=accelerate,lightning`
picks some; the first client that is imported and left alone so is named in a warning. `python -m torch_backend` lists
them.
"""

from __future__ import annotations

import functools
import importlib
import os
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING

from torch_backend._after_import import before_import

if TYPE_CHECKING:
    from torch_backend.integrations.client import Client

# The packages that programs import, and the module here that has their `Client` under the same name.
CLIENTS = {
    "accelerate": "accelerate",
    "transformers": "transformers",
    "lightning": "lightning",
    "pytorch_lightning": "lightning",
    "safetensors": "safetensors",
    "peft": "choosers",
    "sentence_transformers": "choosers",
    "stable_baselines3": "choosers",
    "torch_geometric": "choosers",
    "fastai": "choosers",
    "ignite": "choosers",
    "keras": "choosers",
}

_said = False  # by _leave


def install() -> None:
    """Called at the import of torch_backend. It imports nothing in a process that imports no client."""
    names = _named()
    unknown = [name for name in names if name not in CLIENTS]
    if unknown:
        _warn(
            f"TB_INTEGRATIONS={os.environ['TB_INTEGRATIONS']} names {', '.join(unknown)}, which torch_backend does not "
            f"know and leaves as it is. Known are {', '.join(CLIENTS)}; 0 switches all off."
        )
    for package in CLIENTS:
        if package in names:
            before_import(package, functools.partial(_safely, _begin, package))
        elif package != "safetensors":  # which always gets the device
            before_import(package, functools.partial(_safely, _leave, package))


def _named() -> list[str]:
    """The names in TB_INTEGRATIONS: those of all clients without it, none for "0"."""
    value = os.environ.get("TB_INTEGRATIONS", "").strip()
    if value in ("", "1"):
        return list(CLIENTS)
    return [] if value == "0" else [name.strip() for name in value.split(",") if name.strip()]


def client_of(package: str) -> Client:
    """What is replaced in this package, with the record of it."""
    module = importlib.import_module(f"torch_backend.integrations.{CLIENTS[package]}")
    clients: dict[str, Client] = module.CLIENTS
    return clients[package]


def report() -> list[str]:
    """One line for each client that is installed: its version, and what is or would be replaced."""
    lines = []
    for package, found in ((package, client_of(package)) for package in CLIENTS):
        version = found.installed()
        if version is not None:
            off = "" if package in _named() else f"off: TB_INTEGRATIONS={os.environ['TB_INTEGRATIONS']}"
            lines.append(f"{package:<22} {version:<8} {off or found.state()}")
    return lines


def _safely(function: Callable[[str], None], package: str) -> None:
    try:
        function(package)
    except Exception as error:  # a program that uses the CPU must not fail
        _warn(f"torch_backend cannot make {package} find device tb: {error!r}")


def _begin(package: str) -> None:
    client_of(package).begin()


def _leave(package: str) -> None:
    """Says once in a process that a client which is switched off takes the CPU although tb is there."""
    global _said
    from torch_backend.integrations.device import tb_is_current

    if not _said and tb_is_current():
        _said = True
        _warn(
            f"{package} uses the cpu unless it is given the device, because TB_INTEGRATIONS="
            f"{os.environ['TB_INTEGRATIONS']} keeps torch_backend from making it find device tb. Give it the device "
            f'yourself, such as device="tb", or unset TB_INTEGRATIONS.'
        )


def _warn(text: str) -> None:
    try:
        warnings.warn(text, RuntimeWarning, stacklevel=3)
    except RuntimeWarning:  # warnings are errors in this process, and an import must not fail for one
        return
