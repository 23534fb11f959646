"""What torch_backend.integrations does for captured models of transformers, with one that looks like it."""

from __future__ import annotations

import pathlib

import pytest
from conftest import RunPython
from fake_clients import Folder

TRACING = """
    def is_cuda_stream_capturing():
        try:
            import torch
            return torch.cuda.is_current_stream_capturing()
        except Exception:
            return False

    def is_tracing(tensor=None):
        return is_cuda_stream_capturing()
"""
TRAINER = """
    import contextlib
    import torch

    class Accelerator:
        sync_gradients = True
        parallelism_config = None

        def backward(self, loss):
            loss.backward()

    class Arguments:
        torch_empty_cache_steps = deepspeed = None
        optim = "adamw_torch"

    class Trainer:
        model_accepts_loss_kwargs, compute_loss_func, current_gradient_accumulation_steps = False, None, 1
        compute_loss_context_manager = contextlib.nullcontext

        def __init__(self, model):
            self.model, self.accelerator, self.args, self.seen = model, Accelerator(), Arguments(), 0
            self.optimizer = torch.optim.SGD(model.parameters(), 0.1)

        def _prepare_inputs(self, inputs):
            return inputs

        def compute_loss(self, model, inputs, num_items_in_batch=None):
            return model(inputs["x"]).square().mean()

        def training_step(self, model, inputs, num_items_in_batch=None):
            model.train()
            self.seen += 1
            inputs = self._prepare_inputs(inputs)
            with self.compute_loss_context_manager():
                loss = self.compute_loss(model, inputs, num_items_in_batch=num_items_in_batch)
            if not self.model_accepts_loss_kwargs and self.compute_loss_func is None:
                loss = loss / self.current_gradient_accumulation_steps
            self.accelerator.backward(loss)
            return loss.detach()

        def train(self, batches):
            losses = []
            for batch in batches:
                losses.append(self.training_step(self.model, batch).item())
                self.optimizer.step()
                self.optimizer.zero_grad()
            return losses
"""


@pytest.fixture
def environment(tmp_path: pathlib.Path) -> dict[str, str]:
    folder = Folder(tmp_path)
    modules = {"transformers.utils.import_utils": TRACING, "transformers.trainer": TRAINER}
    folder.add("transformers", "5.99.0", {**modules, "transformers": "from .trainer import Trainer"})
    return folder.environment


def test_a_model_that_is_captured_does_not_look_at_values(run_python: RunPython, environment: dict[str, str]) -> None:
    code = """
        import torch
        from transformers.utils.import_utils import is_tracing
        x = torch.ones(3, device="tb")
        y = x + 1  # so that the graph meets these types again
        seen = [is_tracing()]
        graph = torch.tb.Graph()
        with torch.tb.graph(graph):
            seen.append(is_tracing())
            y = x + 1
        print(*seen, is_tracing())
    """
    done = run_python(code, {"PYTHONWARNINGS": "ignore", **environment})
    assert done.stdout == "False True False\n"


def test_steps_of_a_trainer_are_launched_and_train_to_equal_weights(
    run_python: RunPython, environment: dict[str, str]
) -> None:
    code = """
        import torch
        from torch_backend.integrations.steps import capture_steps
        from transformers import Trainer
        torch.manual_seed(0)
        batches = [{"x": torch.randn(4, 8, device="tb")} for _ in range(10)]
        losses = []
        for captured in (False, True):
            torch.manual_seed(1)
            trainer = Trainer(torch.nn.Linear(8, 2).to("tb"))
            if captured:
                step = capture_steps(trainer)
            losses.append(trainer.train(batches))
        assert losses[0] == losses[1], losses
        assert len(set(losses[0])) == 10
        print(step.replays > 0, step.refusal)
    """
    done = run_python(code, {"PYTHONWARNINGS": "ignore", **environment})
    assert done.stdout == "True \n"


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ("class Trainer(Trainer):\n    def training_step(self, *given): ...", "has a training_step of its own"),
        (
            "del Trainer.compute_loss_context_manager\nTrainer.training_step = lambda self: None",
            "has the parameters self",
        ),
        ("Arguments.torch_empty_cache_steps = 5", "because of TrainingArguments(torch_empty_cache_steps=...)"),
        ("Arguments.optim = 'OptimizerNames.LOMO'", "because of the optimizer OptimizerNames.LOMO"),
    ],
)
def test_what_cannot_be_captured_is_refused_at_once(
    run_python: RunPython, environment: dict[str, str], change: str, error: str
) -> None:
    code = f"""
import torch
from transformers.trainer import *
from torch_backend.integrations.steps import capture_steps
{change}
try:
    capture_steps(Trainer(torch.nn.Linear(2, 2).to("tb")))
except (TypeError, ValueError) as error:
    print(error)
"""
    assert error in run_python(code, {"PYTHONWARNINGS": "ignore", **environment}).stdout
