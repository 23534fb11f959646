"""peft: adapters on a small GPT-2, in training, saved, loaded and merged."""

from __future__ import annotations

import functools
import tempfile
from typing import Any

import torch
from peft import IA3Config, LoraConfig, PeftModel, PrefixTuningConfig, PromptTuningConfig, get_peft_model
from peft.utils import infer_device

from clients.checks import Checks, Ran
from clients.transformers import gpt2

checks = Checks("peft")
LORA = {"r": 4, "lora_alpha": 8, "target_modules": ["c_attn"], "task_type": "CAUSAL_LM", "fan_in_fan_out": True}


def where(device: str) -> str:
    """What a program writes that asks peft for the device."""
    return "cpu" if device == "cpu" else infer_device()


def tokens() -> torch.Tensor:
    return torch.randint(2, 64, (4, 12), generator=torch.Generator().manual_seed(1))


def train(device: str, config: Any) -> Ran:
    torch.manual_seed(0)
    model = get_peft_model(gpt2(), config()).to(where(device))
    optimizer = torch.optim.AdamW([p for p in model.parameters() if p.requires_grad], 1e-2)
    losses = []
    for _ in range(4):
        batch = tokens().to(model.device)
        loss = model(input_ids=batch, labels=batch).loss
        loss.backward()
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return Ran(model.device, losses)


checks.add("LoRA", functools.partial(train, config=lambda: LoraConfig(**LORA)), 1e-3)
checks.add("DoRA", functools.partial(train, config=lambda: LoraConfig(use_dora=True, **LORA)), 1e-3)
checks.add("rsLoRA", functools.partial(train, config=lambda: LoraConfig(use_rslora=True, **LORA)), 1e-3)
checks.add(
    "IA3",
    functools.partial(
        train,
        config=lambda: IA3Config(
            target_modules=["c_attn", "mlp.c_proj"],
            feedforward_modules=["mlp.c_proj"],
            task_type="CAUSAL_LM",
            fan_in_fan_out=True,
        ),
    ),
    1e-3,
)
checks.add(
    "prefix tuning",
    functools.partial(train, config=lambda: PrefixTuningConfig(num_virtual_tokens=4, task_type="CAUSAL_LM")),
    1e-3,
)
checks.add(
    "prompt tuning",
    functools.partial(train, config=lambda: PromptTuningConfig(num_virtual_tokens=4, task_type="CAUSAL_LM")),
    1e-3,
)


def perturbed(device: str) -> Any:
    """A model whose adapter is not the identity."""
    torch.manual_seed(0)
    model = get_peft_model(gpt2(), LoraConfig(**LORA)).eval()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "lora_B" in name:
                parameter.normal_()
    return model.to(where(device))


@checks.check("save and load an adapter")
def saved(device: str) -> Ran:
    model = perturbed(device)
    with tempfile.TemporaryDirectory() as folder:
        model.save_pretrained(folder)
        loaded = PeftModel.from_pretrained(gpt2().to(where(device)), folder).eval()
    batch = tokens().to(loaded.device)
    assert torch.equal(loaded(input_ids=batch).logits, model(input_ids=batch).logits)
    return Ran(loaded.device, loaded(input_ids=batch).logits.detach().cpu())


@checks.check("merge an adapter")
def merged(device: str) -> Ran:
    model = perturbed(device).merge_and_unload()
    return Ran(model.device, model(tokens().to(model.device)).logits.detach().cpu())


@checks.check("generate with an adapter")
def generated(device: str) -> Ran:
    model = perturbed(device)
    batch = tokens().to(model.device)
    return Ran(model.device, model.generate(input_ids=batch, max_new_tokens=4, do_sample=False).cpu())


@checks.check("switch an adapter off")
def disabled(device: str) -> Ran:
    model = perturbed(device)
    with model.disable_adapter():
        return Ran(model.device, model(tokens().to(model.device)).logits.detach().cpu())
