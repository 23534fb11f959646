"""Lightning: the Trainer and Fabric, with validation, checkpoints and every precision, also on several ranks."""

from __future__ import annotations

import functools
import logging
import pickle
import tempfile
import warnings
from typing import Any

import lightning
import tb_compile
import torch
from lightning.pytorch.callbacks import DeviceStatsMonitor, ModelCheckpoint, StochasticWeightAveraging
from lightning.pytorch.strategies import SingleDeviceStrategy

from clients.checks import Checks, Ran
from clients.ranks import on_ranks

checks = Checks("lightning")
logging.getLogger("lightning.pytorch").setLevel(logging.ERROR)
warnings.filterwarnings("ignore", module="lightning")


class Regression(lightning.LightningModule):  # type: ignore[misc]
    """A small model that keeps the losses of its steps, and the device on which they ran."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.net = torch.nn.Sequential(torch.nn.Linear(8, 32), torch.nn.Tanh(), torch.nn.Linear(32, 2))
        self.losses: list[float] = []
        self.validated: list[float] = []
        self.computed_in: set[torch.dtype] = set()
        self.ran_on: Any = None
        self.scale = 1.0

    def loss(self, batch: Any) -> torch.Tensor:
        inputs, targets = batch
        self.ran_on = inputs.device
        outputs = self.net(inputs)
        self.computed_in.add(outputs.dtype)
        return torch.nn.functional.mse_loss(outputs.float(), targets) * self.scale

    def training_step(self, batch: Any, _: int) -> torch.Tensor:
        loss = self.loss(batch)
        self.losses.append(loss.item())
        self.log("loss", loss)
        return loss

    def validation_step(self, batch: Any, _: int) -> None:
        loss = self.loss(batch)
        self.validated.append(loss.item())
        self.log("val_loss", loss)

    def test_step(self, batch: Any, index: int) -> None:
        self.validation_step(batch, index)

    def predict_step(self, batch: Any, _: int) -> Any:
        self.ran_on = batch[0].device
        return self.net(batch[0])

    def configure_optimizers(self) -> Any:
        return torch.optim.AdamW(self.parameters(), 1e-2)


def loader(**options: Any) -> Any:
    inputs = torch.randn(32, 8, generator=torch.Generator().manual_seed(1))
    return torch.utils.data.DataLoader(torch.utils.data.TensorDataset(inputs, inputs[:, :2]), batch_size=8, **options)


def trainer(device: str, folder: str, **options: Any) -> Any:
    quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False, "default_root_dir": folder}
    settings = {"max_epochs": 2, "enable_checkpointing": False, **quiet, **options}
    if device == "cpu":
        settings["accelerator"] = "cpu"
    return lightning.Trainer(**settings)


def fit(device: str, loader_options: dict[str, Any] | None = None, **options: Any) -> Ran:
    model = Regression()
    with tempfile.TemporaryDirectory() as folder:
        trainer(device, folder, **options).fit(model, loader(**loader_options or {}), loader())
    return Ran(model.ran_on, [model.losses, model.validated])


def fit_in(device: str, precision: str, dtype: torch.dtype) -> Ran:
    """Whether the forward pass computes in this dtype; the CPU's losses are those of fp32 for fp16."""
    model = Regression()
    model.scale = 1e-3  # so that no gradient overflows in fp16, for which the scaler would leave the step out
    on_cpu = device == "cpu" and precision == "16-mixed"
    with tempfile.TemporaryDirectory() as folder:
        run = trainer(device, folder, precision="32-true" if on_cpu else precision)
        run.fit(model, loader(), loader())
        scaler = getattr(run.precision_plugin, "scaler", None)
    scaled = on_cpu or scaler is None or scaler.is_enabled()
    return Ran(model.ran_on, [on_cpu or model.computed_in == {dtype}, scaled, model.validated[-1] / model.scale])


checks.add("Trainer() with validation", fit)
checks.add('Trainer(accelerator="auto", devices=1)', functools.partial(fit, accelerator="auto", devices=1))
checks.add('Trainer(accelerator="gpu")', functools.partial(fit, accelerator="gpu"))
checks.add('Trainer(accelerator="tb")', functools.partial(fit, accelerator="tb"))
checks.add("precision bf16-mixed", functools.partial(fit_in, precision="bf16-mixed", dtype=torch.bfloat16), 3e-2)
checks.add("precision 16-mixed", functools.partial(fit_in, precision="16-mixed", dtype=torch.float16), 3e-2)
checks.add("precision bf16-true", functools.partial(fit_in, precision="bf16-true", dtype=torch.bfloat16), 6e-2)
checks.add("gradient clipping", functools.partial(fit, gradient_clip_val=0.5))
checks.add("gradient accumulation", functools.partial(fit, accumulate_grad_batches=2))
checks.add("two workers", functools.partial(fit, loader_options={"num_workers": 2}))
checks.add("pinned memory", functools.partial(fit, loader_options={"pin_memory": True}))
checks.add("stochastic weight averaging", lambda device: fit(device, callbacks=[StochasticWeightAveraging(1e-2)]))
checks.add("deterministic", functools.partial(fit, deterministic=True))


class InGraphs(Regression):
    """The same training with forward and backward passes as launches of a graph, where there are graphs."""

    def __init__(self) -> None:
        super().__init__()
        self.automatic_optimization = False

    @tb_compile.step
    def gradients(self, inputs: torch.Tensor, targets: torch.Tensor) -> torch.Tensor:
        self.zero_grad()
        loss = torch.nn.functional.mse_loss(self.net(inputs).float(), targets)
        self.manual_backward(loss)
        return loss

    def training_step(self, batch: Any, _: int) -> torch.Tensor:
        self.ran_on = batch[0].device
        loss = self.gradients(*batch)
        self.optimizers().step()
        self.losses.append(loss.item())
        self.log("loss", loss)
        return loss  # type: ignore[no-any-return]


@checks.check("captured steps")
def captured(device: str) -> Ran:
    model = InGraphs()
    with tempfile.TemporaryDirectory() as folder:
        run = trainer(device, folder, max_epochs=4)
        run.fit(model, loader())
    return Ran(model.ran_on, [model.losses, run.global_step, device == "cpu" or model.gradients.replays > 0])


@checks.check("a strategy for the CPU keeps the CPU")
def on_cpu(device: str) -> Ran:
    """Without an accelerator; on tb the strategy for tb."""
    model = Regression()
    with tempfile.TemporaryDirectory() as folder:
        quiet = {"logger": False, "enable_progress_bar": False, "enable_model_summary": False}
        settings: dict[str, Any] = {"max_epochs": 2, "enable_checkpointing": False, "default_root_dir": folder, **quiet}
        run = lightning.Trainer(strategy=SingleDeviceStrategy(device), **settings)
        run.fit(model, loader(), loader())
    return Ran(model.ran_on, [model.losses, model.validated, type(run.accelerator).__name__.startswith(device.upper())])


@checks.check("what is used is said to be available")
def said(device: str) -> Ran:
    lines: list[str] = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())  # type: ignore[method-assign]
    logger = logging.getLogger("lightning.pytorch.utilities.rank_zero")
    level = logger.level
    logger.addHandler(handler)
    logger.setLevel(logging.INFO)
    try:
        where = trainer(device, ".").strategy.root_device
    finally:
        logger.removeHandler(handler)
        logger.setLevel(level)
    expected = "GPU available: True (tb), used: True" if device == "tb" else "GPU available: False, used: False"
    return Ran(where, expected in lines)


@checks.check("checkpoint and resume")
def resume(device: str) -> Ran:
    with tempfile.TemporaryDirectory() as folder:
        first, saver = Regression(), ModelCheckpoint(folder, filename="last")
        trainer(device, folder, enable_checkpointing=True, callbacks=[saver], max_epochs=1).fit(first, loader())
        whole, resumed = Regression(), Regression()
        trainer(device, folder).fit(whole, loader())
        trainer(device, folder).fit(resumed, loader(), ckpt_path=f"{folder}/last.ckpt")
    return Ran(resumed.ran_on, [resumed.losses == whole.losses[4:], resumed.losses])


@checks.check("load_from_checkpoint")
def load(device: str) -> Ran:
    with tempfile.TemporaryDirectory() as folder:
        model = Regression()
        run = trainer(device, folder)
        run.fit(model, loader())
        run.save_checkpoint(f"{folder}/model.ckpt")
        loaded = Regression.load_from_checkpoint(f"{folder}/model.ckpt")
        run.validate(loaded, loader(), verbose=False)
    return Ran(loaded.ran_on, loaded.validated)


@checks.check("validate, test and predict")
def evaluate(device: str) -> Ran:
    model = Regression()
    with tempfile.TemporaryDirectory() as folder:
        run = trainer(device, folder)
        validated = run.validate(model, loader(), verbose=False)[0]["val_loss"]
        tested = run.test(model, loader(), verbose=False)[0]["val_loss"]
        predicted = torch.cat(run.predict(model, loader()))
    return Ran(model.ran_on, [validated, tested, predicted.cpu()])


@checks.check("DeviceStatsMonitor")
def stats(device: str) -> Ran:
    from lightning.pytorch.loggers import CSVLogger

    model = Regression()
    with tempfile.TemporaryDirectory() as folder:
        options = {"logger": CSVLogger(folder), "callbacks": [DeviceStatsMonitor()], "log_every_n_steps": 1}
        trainer(device, folder, **options).fit(model, loader())
    return Ran(model.ran_on, model.losses)


@checks.check("validation draws no random numbers from the training")
def isolated(device: str) -> Ran:
    from lightning.pytorch.utilities.seed import isolate_rng

    where = trainer(device, ".").strategy.root_device
    torch.manual_seed(3)
    torch.rand(1, device=where)
    with isolate_rng():
        torch.rand(5, device=where)
    drawn = torch.rand(3, device=where)
    torch.manual_seed(3)
    torch.rand(1, device=where)
    return Ran(where, torch.equal(drawn, torch.rand(3, device=where)))


@checks.check("the accelerator is pickled, as for spawned processes")
def pickled(device: str) -> Ran:
    run = trainer(device, ".")
    return Ran(run.strategy.root_device, type(pickle.loads(pickle.dumps(run.accelerator))) is type(run.accelerator))


def fabric(device: str, **options: Any) -> Ran:
    run = lightning.Fabric(**({"accelerator": "cpu", **options} if device == "cpu" else options))
    run.launch()
    model = Regression()
    net, optimizer = run.setup(model.net, torch.optim.AdamW(model.net.parameters(), 1e-2))
    losses = []
    for inputs, targets in run.setup_dataloaders(loader()):
        loss = torch.nn.functional.mse_loss(net(inputs).float(), targets)
        run.backward(loss)
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return Ran(inputs.device, losses)


checks.add("Fabric()", fabric)
checks.add("Fabric in bf16-mixed", functools.partial(fabric, precision="bf16-mixed"), 3e-2)


@checks.check("Fabric in 16-mixed", 3e-1)
def fabric_fp16(device: str) -> Ran:
    return fabric(device) if device == "cpu" else fabric(device, precision="16-mixed")


@checks.check("Fabric saves and loads")
def fabric_checkpoint(device: str) -> Ran:
    run = lightning.Fabric(accelerator="cpu") if device == "cpu" else lightning.Fabric()
    net = run.setup(Regression().net)
    with tempfile.TemporaryDirectory() as folder:
        expected = net(torch.ones(1, 8, device=run.device)).detach()
        run.save(f"{folder}/state.ckpt", {"net": net})
        with torch.no_grad():
            net.module[0].weight.zero_()
        run.load(f"{folder}/state.ckpt", {"net": net})
        return Ran(run.device, torch.equal(net(torch.ones(1, 8, device=run.device)), expected))


checks.add("two ranks: Trainer() with validation", on_ranks("lightning", "by_default"))
checks.add('two ranks: Trainer(strategy="ddp") in bf16-mixed', on_ranks("lightning", "ddp_bf16"), 3e-2)
checks.add("two ranks: DDPStrategy with a hook", on_ranks("lightning", "ddp_hook"))
checks.add('two ranks: Trainer(strategy="fsdp")', on_ranks("lightning", "fsdp"))
checks.add("two ranks: FSDPStrategy with a mesh in 16-mixed", on_ranks("lightning", "fsdp_fp16"), 3e-2)
checks.add("two ranks: Trainer with FSDP2", on_ranks("lightning", "fsdp2"))
checks.add("two ranks: checkpoint and resume", on_ranks("lightning", "checkpoint"))
checks.add("two ranks: Fabric()", on_ranks("lightning", "fabric_ddp"))
checks.add("two ranks: Fabric with FSDP and a mesh in bf16-mixed", on_ranks("lightning", "fabric_fsdp"), 3e-2)
