"""Lightning under its older name, which is a distribution of its own."""

from __future__ import annotations

import logging
import tempfile
import warnings
from typing import Any

import pytorch_lightning
import torch

from clients.checks import Checks, Ran

checks = Checks("pytorch-lightning")
logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
warnings.filterwarnings("ignore", module="pytorch_lightning")


class Line(pytorch_lightning.LightningModule):  # type: ignore[misc]
    """y = a x + b."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.net = torch.nn.Linear(4, 1)
        self.losses: list[float] = []
        self.ran_on: Any = None

    def training_step(self, batch: Any, _: int) -> torch.Tensor:
        self.ran_on = batch[0].device
        loss: torch.Tensor = self.net(batch[0]).float().square().mean()
        self.losses.append(loss.item())
        return loss

    def configure_optimizers(self) -> Any:
        return torch.optim.SGD(self.parameters(), 1e-1)


def fit(device: str, **options: Any) -> Ran:
    rows = torch.utils.data.TensorDataset(torch.ones(8, 4))
    model = Line()
    with tempfile.TemporaryDirectory() as folder:
        quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
        settings = {"max_epochs": 2, "enable_checkpointing": False, "default_root_dir": folder, **quiet, **options}
        settings |= {"accelerator": "cpu"} if device == "cpu" else {}
        pytorch_lightning.Trainer(**settings).fit(model, torch.utils.data.DataLoader(rows, batch_size=4))
    return Ran(model.ran_on, model.losses)


checks.add("Trainer()", fit)
checks.add("precision bf16-mixed", lambda device: fit(device, precision="bf16-mixed"), 3e-2)
