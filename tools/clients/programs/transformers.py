"""transformers on several ranks: the Trainer, with evaluation and checkpoints."""

from __future__ import annotations

from clients.ranks import Found, digest
from clients.transformers import gpt2, losses, texts, trainer


def trains(device: str, folder: str) -> Found:
    run = trainer(device, folder, gpt2(), texts())
    run.train()
    values = [run.args.world_size, run.args.process_index, *losses(run), run.evaluate()["eval_loss"]]
    return Found(str(run.model.device), values, digest(run.model.parameters()))


def resumes(device: str, folder: str) -> Found:
    """With dropout: a training that goes on from a checkpoint ends as one that was never interrupted."""
    options = {"save_strategy": "steps", "save_steps": 3}
    first = trainer(device, folder, gpt2(dropout=0.5), texts(), **options)
    first.train()
    second = trainer(device, folder, gpt2(dropout=0.5), texts(), **options)
    second.train(resume_from_checkpoint=f"{folder}/checkpoint-3")
    as_unbroken = digest(first.model.parameters()) == digest(second.model.parameters())
    return Found(str(second.model.device), [second.args.world_size, as_unbroken], digest(second.model.parameters()))
