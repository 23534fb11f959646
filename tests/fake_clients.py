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
LIGHTNING_ACCELERATORS = """
    class Accelerator:
        @staticmethod
        def is_available():
            return True

    class CPUAccelerator(Accelerator):
        def setup_device(self, device):
            assert device.type == "cpu", device

        @staticmethod
        def get_parallel_devices(devices):
            import torch
            return [torch.device("cpu")]

    class CUDAAccelerator(Accelerator):
        pass

    class _Registry(dict):
        def register(self, name, accelerator, description=""):
            self[name] = accelerator

    AcceleratorRegistry = _Registry(cpu=CPUAccelerator)
"""
LIGHTNING_CONNECTOR = """
    import torch
    import lightning.pytorch.accelerators as accelerators
    from lightning.pytorch.accelerators import AcceleratorRegistry, CUDAAccelerator

    class SingleDeviceStrategy:
        def __init__(self, device="cpu"):
            self.root_device = torch.device(device)

    class DDPStrategy:
        def __init__(self, parallel_devices=None):
            self.parallel_devices = parallel_devices

        @property
        def root_device(self):
            return self.parallel_devices[0]

    class FSDPStrategy(DDPStrategy):
        pass

    class MixedPrecision:
        def __init__(self, precision, device):
            self.precision, self.device = precision, device

    class _AcceleratorConnector:
        def __init__(self, accelerator="auto", strategy="auto", plugin=None, precision="32-true"):
            self._plugin, self._precision_flag, self._parallel_devices = plugin, precision, []
            self._check_config_and_set_final_flags(strategy=strategy, accelerator=accelerator)
            if self._accelerator_flag == "auto":
                self._accelerator_flag = self._choose_auto_accelerator()
            elif self._accelerator_flag == "gpu":
                self._accelerator_flag = self._choose_gpu_accelerator_backend()
            kind = AcceleratorRegistry[self._accelerator_flag]
            self.accelerator = kind()
            self._parallel_devices = self._parallel_devices or kind.get_parallel_devices(1)
            if self._strategy_flag == "auto":
                self._strategy_flag = self._choose_strategy()
            self._check_strategy_and_fallback()
            self.precision = self._check_and_init_precision()
            self.accelerator.setup_device(self._strategy_flag.root_device)

        def _check_config_and_set_final_flags(self, strategy, accelerator):
            self._strategy_flag, self._accelerator_flag = strategy, accelerator
            devices = getattr(strategy, "parallel_devices", None)
            if devices and devices[0].type == "cpu":
                self._accelerator_flag, self._parallel_devices = "cpu", devices

        @staticmethod
        def _choose_auto_accelerator():
            return "cpu"

        @staticmethod
        def _choose_gpu_accelerator_backend():
            raise RuntimeError("No supported gpu backend found!")

        def _choose_strategy(self):
            if len(self._parallel_devices) <= 1:
                return SingleDeviceStrategy(device="cpu")

        def _check_strategy_and_fallback(self):
            if type(self._strategy_flag) is FSDPStrategy:
                if self._accelerator_flag not in ("cuda", "gpu"):
                    raise ValueError(self._accelerator_flag)
                self._strategy_flag.parallel_devices = self._parallel_devices

        def _check_and_init_precision(self):
            if self._plugin is not None:
                return self._plugin
            if self._precision_flag == "32-true":
                return None
            device = "cpu" if self._accelerator_flag == "cpu" else "cuda"
            return MixedPrecision(self._precision_flag, device)
"""
LIGHTNING_SETUP = """
    from lightning.pytorch.accelerators import CUDAAccelerator

    def rank_zero_info(text):
        print(text)

    def _log_device_info(trainer):
        rank_zero_info(f"GPU available: False, used: {isinstance(trainer.accelerator, CUDAAccelerator)}")
        rank_zero_info("TPU available: False, using: 0 TPU cores")
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

    def add_lightning(self, version: str = "2.6.9") -> None:
        """The part of lightning that chooses an accelerator for a Trainer."""
        package = "lightning.pytorch"
        modules = {f"{package}.accelerators": LIGHTNING_ACCELERATORS, f"{package}.trainer.setup": LIGHTNING_SETUP}
        modules |= {f"{package}.trainer.connectors.accelerator_connector": LIGHTNING_CONNECTOR}
        self.add("lightning", version, modules)
