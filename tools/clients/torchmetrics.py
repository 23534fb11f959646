"""torchmetrics: metrics of classification, regression and images, on the device of what they are given."""

from __future__ import annotations

import functools
from typing import Any

import torch
from torchmetrics import MeanMetric, MetricCollection, classification, image, regression

from clients.checks import Checks, Ran

checks = Checks("torchmetrics")


def batches(kind: str) -> list[tuple[torch.Tensor, torch.Tensor]]:
    generator = torch.Generator().manual_seed(1)
    made = []
    for _ in range(2):
        if kind == "classes":
            made.append(
                (torch.rand(16, 4, generator=generator).softmax(1), torch.randint(0, 4, (16,), generator=generator))
            )
        elif kind == "numbers":
            made.append((torch.randn(16, generator=generator), torch.randn(16, generator=generator)))
        else:
            shape = (2, 3, 16, 16)
            made.append((torch.rand(shape, generator=generator), torch.rand(shape, generator=generator)))
    return made


def measure(device: str, metric: Any, kind: str) -> Ran:
    measured = metric().to(device)
    for predicted, expected in batches(kind):
        measured.update(predicted.to(device), expected.to(device))
    found = measured.compute()
    first = found[0] if isinstance(found, tuple) else found
    return Ran(first.device, found)


CLASSES = {
    "accuracy": classification.MulticlassAccuracy,
    "F1": classification.MulticlassF1Score,
    "AUROC": classification.MulticlassAUROC,
    "average precision": classification.MulticlassAveragePrecision,
    "confusion matrix": classification.MulticlassConfusionMatrix,
    "calibration error": classification.MulticlassCalibrationError,
    "Cohen's kappa": classification.MulticlassCohenKappa,
}
NUMBERS = {
    "mean squared error": regression.MeanSquaredError,
    "R2": regression.R2Score,
    "Pearson": regression.PearsonCorrCoef,
    "Spearman": regression.SpearmanCorrCoef,
    "explained variance": regression.ExplainedVariance,
}
IMAGES = {
    "SSIM": functools.partial(image.StructuralSimilarityIndexMeasure, data_range=1.0),
    "PSNR": functools.partial(image.PeakSignalNoiseRatio, data_range=1.0),
}
for _name, _metric in CLASSES.items():
    checks.add(_name, functools.partial(measure, metric=functools.partial(_metric, num_classes=4), kind="classes"))
for _name, _metric in NUMBERS.items():
    checks.add(_name, functools.partial(measure, metric=_metric, kind="numbers"))
for _name, _metric in IMAGES.items():
    checks.add(_name, functools.partial(measure, metric=_metric, kind="images"))


@checks.check("collection, reset and state")
def collection(device: str) -> Ran:
    metrics = MetricCollection([regression.MeanSquaredError(), regression.MeanAbsoluteError()]).to(device)
    for predicted, expected in batches("numbers"):
        metrics.update(predicted.to(device), expected.to(device))
    found = metrics.compute()
    metrics.reset()
    mean = MeanMetric().to(device)
    mean.update(torch.ones(3, device=device))
    return Ran(mean.compute().device, [found, mean.compute()])
