"""diffusers: a small UNet with schedulers and a pipeline."""

from __future__ import annotations

import functools
from typing import Any

import torch
from diffusers import (
    AutoencoderKL,
    DDIMPipeline,
    DDIMScheduler,
    DDPMScheduler,
    DPMSolverMultistepScheduler,
    EulerDiscreteScheduler,
    UNet2DModel,
)
from diffusers.utils.torch_utils import get_device

from clients.checks import Checks, Ran

checks = Checks("diffusers")


def where(device: str) -> str:
    return "cpu" if device == "cpu" else str(get_device())


def unet() -> Any:
    torch.manual_seed(0)
    blocks = {"down_block_types": ("DownBlock2D", "AttnDownBlock2D"), "up_block_types": ("AttnUpBlock2D", "UpBlock2D")}
    sizes = {"sample_size": 8, "block_out_channels": (8, 16), "layers_per_block": 1, "norm_num_groups": 4}
    return UNet2DModel(in_channels=3, out_channels=3, attention_head_dim=4, **blocks, **sizes)


def noise(seed: int = 1) -> torch.Tensor:
    return torch.randn(2, 3, 8, 8, generator=torch.Generator().manual_seed(seed))


@checks.check("trains a UNet", 1e-3)
def train(device: str) -> Ran:
    model, scheduler = unet().to(where(device)), DDPMScheduler(num_train_timesteps=20)
    optimizer = torch.optim.AdamW(model.parameters(), 1e-3)
    losses = []
    for step in range(3):
        clean, added = noise(step).to(model.device), noise(step + 10).to(model.device)
        times = torch.tensor([3, 7], device=model.device)
        loss = torch.nn.functional.mse_loss(model(scheduler.add_noise(clean, added, times), times).sample, added)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return Ran(model.device, losses)


def sample(device: str, scheduler: Any, **options: Any) -> Ran:
    model, steps = unet().to(where(device)).eval(), scheduler(num_train_timesteps=20, **options)
    steps.set_timesteps(4, device=model.device)
    image = noise().to(model.device) * steps.init_noise_sigma
    with torch.no_grad():
        for time in steps.timesteps:
            image = steps.step(model(steps.scale_model_input(image, time), time).sample, time, image).prev_sample
    return Ran(image.device, image.cpu())


checks.add("samples with DDIM", functools.partial(sample, scheduler=DDIMScheduler), 1e-3)
checks.add("samples with Euler", functools.partial(sample, scheduler=EulerDiscreteScheduler), 1e-3)
checks.add("samples with DPM++", functools.partial(sample, scheduler=DPMSolverMultistepScheduler), 1e-3)


@checks.check("pipeline", 1e-3)
def pipeline(device: str) -> Ran:
    run = DDIMPipeline(unet=unet(), scheduler=DDIMScheduler(num_train_timesteps=20)).to(where(device))
    run.set_progress_bar_config(disable=True)
    made = run(batch_size=1, num_inference_steps=3, generator=torch.Generator().manual_seed(0), output_type="np")
    return Ran(run.device, torch.as_tensor(made.images))


@checks.check("autoencoder", 1e-3)
def autoencoder(device: str) -> Ran:
    torch.manual_seed(0)
    model = AutoencoderKL(block_out_channels=(8,), norm_num_groups=4, latent_channels=2).to(where(device)).eval()
    with torch.no_grad():
        latent = model.encode(noise().to(model.device)).latent_dist.mode()
        return Ran(model.device, [latent.cpu(), model.decode(latent).sample.cpu()])


@checks.check("offloads a pipeline's models", 1e-3)
def offloaded(device: str) -> Ran:
    run = DDIMPipeline(unet=unet(), scheduler=DDIMScheduler(num_train_timesteps=20))
    run.set_progress_bar_config(disable=True)
    if device != "cpu":
        run.enable_model_cpu_offload()
    made = run(batch_size=1, num_inference_steps=2, generator=torch.Generator().manual_seed(0), output_type="np")
    return Ran(run._execution_device, torch.as_tensor(made.images))
