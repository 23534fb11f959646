"""The layers of image networks on devices with loadable modules: layouts, precision, refusals, whole models."""

from __future__ import annotations

import os
import pathlib

import pytest
from conftest import ROOT, RunPython


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    """A cache that is empty at first and shared by these tests."""
    return tmp_path_factory.mktemp("kernels")


def variables(cache: pathlib.Path, fallback: str = "error") -> dict[str, str]:
    path = f"{ROOT / 'tools'}{os.pathsep}{ROOT / 'tests'}"
    return {"TB_DRIVER": "sim", "TB_KERNEL_CACHE": str(cache), "TB_FALLBACK": fallback, "PYTHONPATH": path}


LAYOUTS = """
    import torch
    from torch.nn import functional as F

    def run(call, device, layout, *shapes):
        leaves = [torch.linspace(-1, 1, torch.Size(s).numel()).view(s).to(memory_format=layout) for s in shapes]
        leaves = [x.to(device).requires_grad_() for x in leaves]
        out = call(*leaves)
        grad = torch.ones_like(out)
        return [x.stride() for x in (out, *torch.autograd.grad(out, leaves, grad))]

    image, weight = (2, 8, 7, 6), (16, 8, 3, 3)
    calls = {
        "convolution": (lambda x, w: F.conv2d(x, w, stride=2), image, weight),
        "depthwise": (lambda x, w: F.conv2d(x, w, groups=8), image, (8, 1, 3, 3)),
        "transposed": (lambda x, w: F.conv_transpose2d(x, w), image, (8, 16, 3, 3)),
        "max_pool2d": (lambda x: F.max_pool2d(x, 2), image),
        "avg_pool2d": (lambda x: F.avg_pool2d(x, 2), image),
        "adaptive_avg_pool2d": (lambda x: F.adaptive_avg_pool2d(x, 3), image),
        "batch_norm": (lambda x: F.batch_norm(x, None, None, training=True), image),
        "group_norm": (lambda x: F.group_norm(x, 4), image),
        "nearest": (lambda x: F.interpolate(x, scale_factor=2), image),
        "bilinear": (lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), image),
    }
    for name, (call, *shapes) in calls.items():
        for layout in (torch.contiguous_format, torch.channels_last):
            on_tb, on_cpu = run(call, "tb", layout, *shapes), run(call, "cpu", layout, *shapes)
            if name == "group_norm":  # its backward gets contiguous tensors from PyTorch on all devices but the CPU
                on_tb, on_cpu = on_tb[:1], on_cpu[:1]
            assert on_tb == on_cpu, (name, layout, on_tb, on_cpu)
    print(len(calls))
"""


def test_results_and_gradients_have_the_layouts_of_the_cpu(run_python: RunPython, cache: pathlib.Path) -> None:
    assert run_python(LAYOUTS, env=variables(cache)).stdout.split() == ["10"]


HALVES = """
    import torch
    from torch.nn import functional as F
    from tb_ops.device_kernels.case_inputs import gradients, numbers

    parameters = [numbers(8, low=0.5, high=2), numbers(8)]
    calls = {
        "convolution": (lambda x, w: F.conv2d(x, w, padding=1), [numbers(8, 8, 3, 3) / 8]),
        "narrow": (lambda x, w: F.conv2d(x, w, padding=1, groups=8), [numbers(8, 1, 3, 3)]),
        "transposed": (lambda x, w: F.conv_transpose2d(x, w, stride=2), [numbers(8, 8, 3, 3) / 8]),
        "max_pool2d": (lambda x: F.max_pool2d(x, 3, 2, 1), []),
        "avg_pool2d": (lambda x: F.avg_pool2d(x, 3, 2, 1), []),
        "batch_norm": (lambda x, w, b: F.batch_norm(x, None, None, w, b, training=True), parameters),
        "group_norm": (lambda x, w, b: F.group_norm(x, 2, w, b), parameters),
        "bilinear": (lambda x: F.interpolate(x, scale_factor=1.7, mode="bilinear"), []),
    }
    for dtype in (torch.float16, torch.bfloat16):
        for name, (call, others) in calls.items():
            inputs = [x.to(dtype) for x in (numbers(2, 8, 9, 7, low=-1, high=1), *others)]
            on_tb = gradients(call)(*(x.to("tb") for x in inputs))
            exact = gradients(call)(*(x.double() for x in inputs))
            for number, (found, expected) in enumerate(zip(on_tb, exact, strict=True)):
                assert found.dtype == dtype
                wrong = ((found.cpu().double() - expected).abs() / expected.abs().max()).max().item()
                # Rounding the result costs half an epsilon, and the gradient is rounded before it is used.
                assert wrong <= torch.finfo(dtype).eps, (name, dtype, number, wrong)
    print(len(calls))
"""


def test_16_bit_results_are_rounded_once(run_python: RunPython, cache: pathlib.Path) -> None:
    assert run_python(HALVES, env=variables(cache), timeout=400).stdout.split() == ["8"]


AUTOCAST = """
    import copy, torch
    from torch import nn
    torch.manual_seed(5)
    model = nn.Sequential(nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 8, 3))
    images = torch.randn(2, 3, 12, 12)

    def run(device):
        copied = copy.deepcopy(model).to(device)
        with torch.autocast(device, torch.bfloat16):
            out = copied(images.to(device))
        out.float().square().mean().backward()
        return out.dtype, out.detach().float().cpu(), [p.grad.cpu() for p in copied.parameters()]

    expected_type, expected, expected_gradients = run("cpu")
    found_type, found, gradients = run("tb")
    assert found_type == expected_type == torch.bfloat16
    torch.testing.assert_close(found, expected, atol=0.03, rtol=0.03)
    for one, other in zip(gradients, expected_gradients, strict=True):
        assert one.dtype == torch.float32
        torch.testing.assert_close(one, other, atol=0.03 * other.abs().max().item(), rtol=0.03)
"""


def test_convolutions_compute_in_bfloat16_under_autocast(run_python: RunPython, cache: pathlib.Path) -> None:
    run_python(AUTOCAST, env=variables(cache))


REST = """
    import torch
    from torch.nn import functional as F

    def fallen(call, *inputs):
        torch.tb.reset_fallbacks()
        found, expected = call(*(x.to("tb") for x in inputs)), call(*inputs)
        torch.testing.assert_close(found.cpu(), expected)
        return [row.operator for row in torch.tb.fallbacks()]

    whole, weight = torch.arange(96).view(1, 2, 6, 8), torch.arange(36).view(2, 2, 3, 3)
    print(*fallen(F.conv2d, whole, weight))
    print(*fallen(lambda x: F.max_pool2d(x, 2), whole))
    strided = lambda x, m, v: F.batch_norm(x, m[::2], v[::2], training=True)
    print(*fallen(strided, whole.float(), torch.ones(4), torch.ones(4)))
"""


def test_what_the_kernels_lack_falls_back_and_is_counted(run_python: RunPython, cache: pathlib.Path) -> None:
    lines = run_python(REST, env=variables(cache, "allow")).stdout.splitlines()
    assert lines[0] == "aten::convolution"
    assert "aten::max_pool2d_with_indices" in lines[1]
    assert lines[2] == "aten::native_batch_norm"


REFUSALS = """
    import torch
    from torch.nn import functional as F
    x = torch.randn(2, 4, 6, 8, device="tb")

    def refused(call):
        try:
            call()
        except (RuntimeError, ValueError) as error:
            return str(error).splitlines()[0]
        raise SystemExit("no error")

    short = torch.ones(3, device="tb")
    print(refused(lambda: torch.native_batch_norm(x, None, None, short, short, True, 0.1, 1e-5)))
    print(refused(lambda: torch.native_batch_norm(x, None, None, None, None, False, 0.1, 1e-5)))
    print(refused(lambda: torch.native_group_norm(x, short, None, 2, 4, 48, 2, 1e-5)))
    print(refused(lambda: F.conv2d(x, torch.ones(2, 3, 3, 3, device="tb"))))
    print(refused(lambda: F.conv2d(x, torch.ones(2, 4, 3, 3))))
    print(refused(lambda: F.max_pool2d(x, 2, padding=2)))
    print(refused(lambda: F.max_pool3d(x, 9)))
    print(refused(lambda: F.adaptive_avg_pool2d(x[:, :, :0], 2)))
    print(refused(lambda: F.interpolate(x, (0, 3))))
"""


def test_wrong_arguments_are_refused_with_the_reason(run_python: RunPython, cache: pathlib.Path) -> None:
    lines = run_python(REFUSALS, env=variables(cache)).stdout.splitlines()
    expected = [
        "native_batch_norm: expected vectors of 4 elements, one for each channel, but got one of shape [3]",
        "running_mean and running_var must be defined in evaluation mode",
        "native_group_norm: expected vectors of 4 elements",
        "expected input",
        "Expected all tensors to be on the same device",
        "pad should be at most half of effective kernel size",
        "max_pool3d: the windows do not fit into an input of [2, 4, 6, 8]",
        "non-zero size",
        "Input and output sizes should be greater than 0",
    ]
    for line, text in zip(lines, expected, strict=True):
        assert text in line


TRAINING = """
    import sys, torch
    from examples.models.case import Training
    from examples.models.convolutional import ImageSettings, resnet18
    from examples.models.unet import UnetSettings, unet

    def losses(make, device):
        torch.manual_seed(5)
        training = Training(make(), torch.device(device))
        return [loss.item() for loss in [training.step() for _ in range(20)]]

    models = {"resnet18": lambda: resnet18(ImageSettings(image=32, batch=8)), "unet": lambda: unet(UnetSettings())}
    on_tb, on_cpu = losses(models[NAME], "tb"), losses(models[NAME], "cpu")
    print(max(abs(a - b) / b for a, b in zip(on_tb, on_cpu, strict=True)), on_tb[0], on_tb[-1])
    assert all(abs(a - b) <= 1e-4 * b for a, b in zip(on_tb, on_cpu, strict=True)), (on_tb, on_cpu)
    assert on_tb[-1] < 0.98 * on_tb[0]
"""


@pytest.mark.parametrize("name", ["resnet18", "unet"])
def test_models_train_without_a_fallback_and_with_the_losses_of_the_cpu(
    name: str, run_python: RunPython, cache: pathlib.Path
) -> None:
    run_python(TRAINING.replace("NAME", repr(name)), env=variables(cache), timeout=400)
