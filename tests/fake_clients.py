"""Clients that look like the real ones and do nothing, in a folder for the search path of a fresh interpreter."""

from __future__ import annotations

import pathlib
import textwrap
from collections.abc import Mapping

INFER_DEVICE = """
    import torch

    def infer_device():
        if torch.cuda.is_available():
            return "cuda"
        elif is_xpu_available():
            return "xpu"
        return "cpu"

    def is_xpu_available():
        return False
"""
GET_DEVICE = """
    import torch as th

    def get_device(device="auto"):
        if device == "auto":
            device = "cuda"
        device = th.device(device)
        return th.device("cpu") if device.type == "cuda" and not th.cuda.is_available() else device
"""
STATE = """
    import os, torch
    from accelerate.utils import DistributedType

    def is_mps_available():
        return False

    class PartialState:
        def __init__(self, cpu=False):
            device = os.environ.get("ACCELERATE_TORCH_DEVICE")
            self.device = torch.device(device) if device else None
            self.backend, self.distributed_type = self._prepare_backend(cpu)
            if self.device is None:
                self.device = torch.device("cpu") if cpu else self.default_device

        def _prepare_backend(self, cpu=False, sagemaker_dp=False, backend=None):
            if int(os.environ.get("LOCAL_RANK", -1)) != -1 and not cpu and torch.cuda.is_available():
                return backend or "nccl", DistributedType.MULTI_GPU
            return backend, DistributedType.NO

        @property
        def default_device(self):
            if is_mps_available():
                return torch.device("mps")
            return torch.device("cuda" if torch.cuda.is_available() else "cpu")
"""
DISTRIBUTED_TYPE = """
    import enum

    class DistributedType(enum.Enum):
        NO = "NO"
        MULTI_GPU = "MULTI_GPU"
"""
ACCELERATOR = """
    import torch
    from accelerate.state import PartialState

    def get_grad_scaler():
        pass

    class Accelerator:
        def __init__(self, cpu=False, mixed_precision="no"):
            self.device = PartialState(cpu).device
            supported = ("xpu", "cuda", "npu", "xla", "mlu", "musa", "hpu", "sdaa", "mps")
            if mixed_precision == "fp16" and self.device.type not in supported:
                raise ValueError(self.device)
            get_grad_scaler()
"""


class Folder:
    """A folder of such clients."""

    def __init__(self, path: pathlib.Path) -> None:
        self.path = path

    @property
    def environment(self) -> dict[str, str]:
        """The variables with which an interpreter finds them."""
        return {"PYTHONPATH": str(self.path)}

    def add(self, distribution: str, version: str, modules: Mapping[str, str]) -> None:
        """Adds a distribution and its modules, by their dotted names."""
        for name, text in modules.items():
            folder = self.path.joinpath(*name.split(".")[:-1])
            folder.mkdir(parents=True, exist_ok=True)
            for package in [folder, *folder.parents]:
                if self.path in package.parents and not (package / "__init__.py").exists():
                    (package / "__init__.py").write_text("")
            path = self.path.joinpath(*name.split("."))
            target = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
            target.write_text(textwrap.dedent(text))
        information = self.path / f"{distribution.replace('-', '_')}-{version}.dist-info"
        information.mkdir()
        (information / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {distribution}\nVersion: {version}\n")

    def add_peft(self, version: str = "0.21.7", other: str = INFER_DEVICE) -> None:
        """peft, whose chooser is exported again."""
        self.add("peft", version, {"peft.utils.other": other, "peft.utils": "from .other import infer_device"})

    def add_accelerate(self, version: str = "1.15.3", state: str = STATE) -> None:
        """accelerate, which imports torch in the middle of its own import."""
        modules = {"accelerate.utils": DISTRIBUTED_TYPE, "accelerate.state": state}
        modules |= {"accelerate.accelerator": ACCELERATOR}
        self.add("accelerate", version, {**modules, "accelerate": "from .accelerator import Accelerator"})
