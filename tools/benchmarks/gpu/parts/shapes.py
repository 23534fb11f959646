"""The three models that are timed on a GPU: the demo's GPT, the shapes of ResNet-18 and of Llama."""

from __future__ import annotations

from collections.abc import Callable

from examples.demo.settings import ModelSettings, TrainingSettings
from examples.models.case import Case
from examples.models.convolutional import ImageSettings, resnet18
from examples.models.gpt import gpt
from examples.models.llama import LlamaSettings, llama


def _gpt(quick: bool) -> Case:
    if quick:
        return gpt(ModelSettings(width=16, heads=2, blocks=1, context=8, dropout=0), batch=2)
    # Without dropout: the two devices draw different numbers, and then the losses could not be compared.
    return gpt(ModelSettings(dropout=0), batch=TrainingSettings.batch)


def _resnet(quick: bool) -> Case:
    return resnet18(
        ImageSettings(image=32, batch=2, width=4) if quick else ImageSettings(image=224, batch=32, width=64)
    )


def _llama(quick: bool) -> Case:
    if quick:
        return llama(LlamaSettings())
    # A fiftieth of Llama 3 8B's parameters, in its proportions: 4 query heads a key head, hidden size 3.5 widths.
    return llama(
        LlamaSettings(vocabulary=32000, width=1024, heads=16, key_heads=4, hidden=3584, blocks=8, context=512, batch=8)
    )


# Each maker returns a model on the CPU. Its argument, quick, asks for the smallest sizes.
SHAPES: dict[str, Callable[[bool], Case]] = {"demo GPT": _gpt, "ResNet-18 shape": _resnet, "Llama shape": _llama}
