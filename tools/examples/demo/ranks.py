"""The demo's model on several ranks, which `nox -s demo -- --ranks N` starts by torchrun.

Each wrapper trains on tb with tbccl and then on the CPU with gloo, in the same processes. Ends with status 1 if a loss
differs or an operator fell back.
"""

from __future__ import annotations

import argparse
import gc
import sys
from collections.abc import Callable
from dataclasses import replace

import torch
import torch.distributed as dist
from torch.distributed.device_mesh import DeviceMesh, init_device_mesh
from torch.distributed.fsdp import fully_shard
from torch.distributed.tensor.parallel import ColwiseParallel, RowwiseParallel, parallelize_module
from torch.nn.parallel import DistributedDataParallel

from examples.demo.comparison import losses
from examples.demo.corpus import Batches, Corpus, read_corpus
from examples.demo.model import LanguageModel
from examples.demo.settings import ModelSettings, TrainingSettings
from examples.demo.training import Trainer

# Dropout of a sharded model draws other numbers on each device; the demo on one device compares it.
MODEL = replace(ModelSettings(), dropout=0.0)
Wrap = Callable[[LanguageModel, DeviceMesh], torch.nn.Module]


def data_parallel(model: LanguageModel, mesh: DeviceMesh) -> torch.nn.Module:
    return DistributedDataParallel(model, process_group=mesh.get_group())


def sharded(model: LanguageModel, mesh: DeviceMesh) -> torch.nn.Module:
    for block in model.blocks:
        fully_shard(block, mesh=mesh)
    fully_shard(model, mesh=mesh)
    return model


def tensor_parallel(model: LanguageModel, mesh: DeviceMesh) -> torch.nn.Module:
    """The two large layers of each block are divided; the ranks compute the same batches."""
    for block in model.blocks:
        parallelize_module(block, mesh, {"up": ColwiseParallel(), "down": RowwiseParallel()})
    return model


WRAPPERS: dict[str, Wrap] = {
    "DistributedDataParallel": data_parallel,
    "fully_shard": sharded,
    "tensor parallel": tensor_parallel,
}


def train(name: str, mesh: DeviceMesh, corpus: Corpus, settings: TrainingSettings, steps: int) -> list[float]:
    """The losses of this rank's steps."""
    device = torch.device(mesh.device_type)
    trainer = Trainer(device, corpus, MODEL, settings, lambda model: WRAPPERS[name](model, mesh))
    if name == "tensor parallel":
        # PyTorch refuses lists of distributed and plain tensors, which foreach would make.
        trainer.optimizer = torch.optim.AdamW(
            trainer.model.parameters(),
            lr=settings.learning_rate,
            weight_decay=settings.weight_decay,
            foreach=False,
        )
    else:
        seed = settings.seed + dist.get_rank()
        trainer.batches = Batches(corpus.train, settings.batch, MODEL.context, seed)
    found = losses(trainer, steps)
    # A Reducer that dies after its group joins gloo's threads with Python's lock held, and can hang.
    del trainer
    gc.collect()
    return found


def differing(name: str, meshes: list[DeviceMesh], corpus: Corpus, settings: TrainingSettings, steps: int) -> bool:
    """Trains on both devices and prints one line. Whether any rank's losses differ."""
    tb, cpu = (train(name, mesh, corpus, settings, steps) for mesh in meshes)
    largest = torch.tensor([max(abs(a - b) for a, b in zip(tb, cpu, strict=True))], dtype=torch.float64)
    dist.all_reduce(largest, dist.ReduceOp.MAX)
    if dist.get_rank() == 0:
        outcome = "equal" if not largest else f"differ by up to {largest.item():.2g}"
        print(f"{name:<24} loss {tb[0]:.5f} to {tb[-1]:.5f}; {steps} losses of each rank: {outcome}", flush=True)
    return bool(largest)


def main() -> int:
    parser = argparse.ArgumentParser(prog="nox -s demo -- --ranks N", description=__doc__)
    parser.add_argument("--steps", type=int, default=20, help="training steps (%(default)s)")
    steps = parser.parse_args().steps
    torch.set_num_threads(1)  # with more, sums may be divided otherwise
    settings = replace(TrainingSettings(), steps=steps)
    dist.init_process_group()
    mesh = init_device_mesh("tb", (dist.get_world_size(),))
    beside = DeviceMesh.from_group(dist.new_group(backend="gloo"), "cpu")
    corpus = read_corpus()
    differ = [differing(name, [mesh, beside], corpus, settings, steps) for name in WRAPPERS]
    fallbacks = torch.tb.fallbacks()  # type: ignore[attr-defined]
    if dist.get_rank() == 0:
        rows = ", ".join(f"{row.operator}: {row.calls} calls" for row in fallbacks)
        print(f"operators that fell back to the CPU: {rows or 'none'}", flush=True)
    dist.destroy_process_group()
    return 1 if any(differ) or fallbacks else 0


if __name__ == "__main__":
    sys.exit(main())
