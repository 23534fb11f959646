"""Small models of every family, which the tests train."""

from __future__ import annotations

from collections.abc import Callable

from examples.demo.settings import ModelSettings
from examples.models.autoencoder import AutoencoderSettings, autoencoder
from examples.models.case import Case
from examples.models.convolutional import ImageSettings, resnet18
from examples.models.dlrm import DlrmSettings, dlrm
from examples.models.gpt import gpt
from examples.models.llama import LlamaSettings, llama
from examples.models.lstm import LstmSettings, lstm
from examples.models.mlp import MlpSettings, mlp
from examples.models.unet import UnetSettings, unet
from examples.models.vit import VitSettings, vit

SEED = 5

FAMILIES: dict[str, Callable[[], Case]] = {
    "mlp": lambda: mlp(MlpSettings()),
    "gpt": lambda: gpt(ModelSettings(width=16, heads=2, blocks=2, context=8, dropout=0.1), batch=4),
    # On smaller images batch norm magnifies rounding errors, so that stock CPU's losses on one and on two threads
    # diverge.
    "resnet18": lambda: resnet18(ImageSettings(image=32, batch=8)),
    "vit": lambda: vit(VitSettings()),
    "lstm": lambda: lstm(LstmSettings()),
    "llama": lambda: llama(LlamaSettings()),
    "unet": lambda: unet(UnetSettings()),
    "dlrm": lambda: dlrm(DlrmSettings()),
    "autoencoder_bfloat16": lambda: autoencoder(AutoencoderSettings()),
}
