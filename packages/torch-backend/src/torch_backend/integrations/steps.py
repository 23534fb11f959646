"""Captured steps of the Trainer of transformers. Other clients need no function: docs/clients.md has their line.

The Trainer's own `training_step` reads what changes at every call, such as the number of the step, so that no graph
would serve twice. What is captured here is the part between: forward pass, loss and backward pass.
"""

from __future__ import annotations

from typing import Any

from torch_backend.integrations.client import Shape

_KNOWN = Shape(
    ["self", "model", "inputs", "num_items_in_batch"],
    [
        *("compute_loss", "compute_loss_context_manager", "_prepare_inputs", "accelerator", "backward"),
        *("current_gradient_accumulation_steps", "model_accepts_loss_kwargs", "compute_loss_func"),
    ],
)


def capture_steps(trainer: Any) -> Any:
    """Lets forward and backward passes of a transformers Trainer become launches of device graphs.

    Call it before `trainer.train()`, which then does the same as before. The optimizer's step, clipping, logging and
    callbacks stay with the Trainer.

    Returns the `tb_compile.Step`: its `replays` counts launches, and `refusal` has the reason for calls that were none.

    Raises:
        TypeError: the Trainer has a training_step of its own, or that of its version is another one.
        ValueError: its arguments ask for something at each step that a graph cannot do.
    """
    import tb_compile
    from transformers import Trainer

    if type(trainer).training_step is not Trainer.training_step:
        raise TypeError(
            f"capture_steps: {type(trainer).__name__} has a training_step of its own, which would not be called. Put "
            f"@tb_compile.step on a method for the forward and backward pass, and call it from there."
        )
    difference = _KNOWN.difference(Trainer.training_step)
    if difference:
        raise TypeError(
            f"capture_steps: Trainer.training_step of the installed transformers {difference}, unlike what "
            f"torch_backend would do in its place. Leave capture_steps out, or install another version."
        )
    asked = _that_needs_python(trainer)
    if asked:
        raise ValueError(
            f"capture_steps: the Trainer's steps need Python each time because of {asked}. Leave that out, or "
            f"capture_steps."
        )

    def forward_and_backward(
        model: Any, inputs: Any, num_items_in_batch: Any, divisor: int, _synchronizes: bool
    ) -> Any:
        with trainer.compute_loss_context_manager():
            loss = trainer.compute_loss(model, inputs, num_items_in_batch=num_items_in_batch)
        if divisor != 1:
            loss = loss / divisor
        trainer.accelerator.backward(loss)
        return loss

    step = tb_compile.step(forward_and_backward)

    def training_step(model: Any, inputs: Any, num_items_in_batch: Any = None) -> Any:
        model.train()
        if callable(getattr(trainer.optimizer, "train", None)):
            trainer.optimizer.train()
        given = dict(trainer._prepare_inputs(inputs))  # of any kind of mapping, in which a step finds the tensors
        divisor = 1 if _is_scaled(trainer, num_items_in_batch) else trainer.current_gradient_accumulation_steps
        return step(model, given, num_items_in_batch, divisor, trainer.accelerator.sync_gradients).detach()

    trainer.training_step = training_step
    return step


def _that_needs_python(trainer: Any) -> str:
    arguments = trainer.args
    for name in ("torch_empty_cache_steps", "deepspeed"):
        if getattr(arguments, name, None) is not None:
            return f"TrainingArguments({name}=...)"
    if "lomo" in str(getattr(arguments, "optim", "")).lower():
        return f"the optimizer {arguments.optim}"
    parallelism = getattr(trainer.accelerator, "parallelism_config", None)
    if parallelism is not None and getattr(parallelism, "cp_enabled", False):
        return "context parallelism"
    return ""


def _is_scaled(trainer: Any, num_items_in_batch: Any) -> bool:
    """Whether the loss has been divided for the accumulation of gradients: by the items, the model or a function."""
    said = getattr(trainer, "loss_is_scaled_for_ga", None)
    if said is not None:
        return bool(said)
    counted = trainer.model_accepts_loss_kwargs and num_items_in_batch is not None
    return counted or trainer.compute_loss_func is not None
