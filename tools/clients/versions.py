"""The clients that have checks here: their modules, and the versions that `nox -s clients` installs."""

from __future__ import annotations

# The module of this package with the checks, and what pip installs for it.
CLIENTS = {
    "accelerate": "accelerate==1.15.*",
    "transformers": "transformers==5.24.*",
    "lightning": "lightning==2.6.*",
    "pytorch_lightning": "pytorch-lightning==2.6.*",
    "safetensors": "safetensors==0.8.*",
    "peft": "peft==0.21.*",
    "diffusers": "diffusers==0.42.*",
    "torchmetrics": "torchmetrics==1.9.*",
    "torch_geometric": "torch-geometric==2.8.*",
    "sentence_transformers": "sentence-transformers==6.2.*",
    "stable_baselines3": "stable-baselines3==2.9.*",
    "ignite": "pytorch-ignite==0.5.*",
    "keras": "keras==3.15.*",
    "timm": "timm==1.0.*",
}
OF_RELEASES = ["matplotlib", "pandas"]
"""What releases of stable-baselines3 need that are older than the one above, for `nox -s check-client-releases`."""
WITH_TORCHVISION = ["timm"]
"""Those that import torchvision. The index has it for one build of torch only. Beside others its operators do not load,
and transformers fails where it is installed, so they get an environment of their own."""
VARIABLES = {"safetensors": {"TB_CPU_DEVICES": "2"}, "keras": {"KERAS_BACKEND": "torch"}}
"""What the process of a client's checks has in its environment."""
