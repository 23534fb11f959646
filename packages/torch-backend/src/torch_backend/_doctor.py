"""The diagnosis on one screen: torch, the registration, a first tensor, clients, then tb_device's report on drivers."""

import os
import sys
from importlib import metadata
from typing import TextIO


def doctor(file: TextIO | None = None) -> bool:
    """Prints what works, what does not and the remedy to `file` (None: standard output).

    It uses the device: it opens the driver and makes one tensor. Never raises. Returns whether tb can be used.
    """
    problem = _first_use()
    lines = [f"PROBLEM: {problem}" if problem else "torch.device('tb') works.", "", "Torch"]
    lines += [f"  {name:<22} {value}" for name, value in _torch_facts().items()]
    if problem is None:
        lines += ["", "Operators", *_operators()]
    lines += ["", "Clients", *_clients()]
    lines += ["", *_driver_report()]
    print(_fit("\n".join(lines)), file=file or sys.stdout)
    return problem is None


def _first_use() -> str | None:
    import torch

    if os.environ.get("TB_REGISTER") == "0":
        return "TB_REGISTER=0 leaves PyTorch's slot for outside devices to another backend. Unset it to have tb"
    try:
        import torch_backend  # noqa: F401  (PyTorch may not have loaded it)

        torch.tb.init()  # type: ignore[attr-defined]
        value = torch.ones(1, device="tb").item()
        return None if value == 1 else f"torch.ones(1, device='tb') gave {value}"
    except Exception as error:
        return str(error) or repr(error)


def _torch_facts() -> dict[str, str]:
    import torch

    from torch_backend import _build

    others = [
        f"{point.name} ({point.value})"
        for point in metadata.entry_points(group="torch.backends")
        if not point.value.startswith("torch_backend:")
    ]
    return {
        "torch": f"{torch.__version__} in {os.path.dirname(torch.__file__)}",
        "torch-backend": f"{_build.VERSION}, built for torch {', '.join(_build.torch_minors())}",
        "PrivateUse1 is named": torch._C._get_privateuse1_backend_name(),
        "other backends": ", ".join(others) or "none",
        "loads with torch": "no: TORCH_DEVICE_BACKEND_AUTOLOAD=" + os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"]
        if os.environ.get("TORCH_DEVICE_BACKEND_AUTOLOAD", "1") != "1"
        else "yes",
    }


def _operators() -> list[str]:
    """The backends that serve the open driver, in the order in which they register."""
    import tb_ops

    lines = [
        f"  {each.name:<22} {each.description}" + (f" (from {each.source})" if each.source != "tb-ops" else "")
        for each in tb_ops.backends()
        if each.serves
    ]
    if missing := tb_ops.missing_compiler():
        lines.append(f"  {'jit, not here':<22} {missing}")
    return lines


def _clients() -> list[str]:
    """The installed packages that are made to find tb; see torch_backend.integrations."""
    from torch_backend import integrations

    return [f"  {line}" for line in integrations.report() or ["none of those that find tb by themselves is installed"]]


def _fit(text: str) -> str:
    try:
        from tb_device import console
    except Exception:  # _driver_report() says why
        return text
    return console.fit(text)


def _driver_report() -> list[str]:
    try:
        from tb_device import doctor as drivers

        return [drivers.readable(drivers.examine())]
    except Exception as error:
        return [f"PROBLEM: tb-device cannot report: {error}"]
