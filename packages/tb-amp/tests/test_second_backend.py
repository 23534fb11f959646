"""Another PrivateUse1 backend than this project's, which has tb-amp and nothing else of it."""

import os
import pathlib
import subprocess
import sys

import pytest
import torch

HERE = pathlib.Path(__file__).parent
START = """
import types, torch, warnings
torch.ops.load_library({library!r})
torch.utils.rename_privateuse1_backend("second")
import tb_amp
module = types.ModuleType("second")
module.get_amp_supported_dtype = tb_amp.get_amp_supported_dtype
module.is_available, module.device_count, module.current_device = lambda: True, lambda: 1, lambda: 0
module._is_in_bad_fork, module.manual_seed_all = lambda: False, lambda seed: None
torch._register_device_module("second", module)
tb_amp.register()
torch.manual_seed(0)
x = torch.randn(4, 8).to("second")
"""


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The first lines of a program that has the backend."""
    torch_folder = pathlib.Path(torch.__file__).parent
    library = tmp_path_factory.mktemp("second") / "second_backend.so"
    include = [f"-isystem{torch_folder / path}" for path in ("include", "include/torch/csrc/api/include")]
    link = [f"-L{torch_folder / 'lib'}", "-lc10", "-ltorch_cpu", f"-Wl,-rpath,{torch_folder / 'lib'}"]
    command = [os.environ.get("CXX", "c++"), "-std=c++20", "-O0", "-fPIC", "-shared", *include]
    done = subprocess.run(
        [*command, str(HERE / "second_backend.cpp"), "-o", str(library), *link],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return START.format(library=str(library))


def run(program: str) -> list[str]:
    """What the program prints; a process has one PrivateUse1 backend, so each test has a process of its own."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("TB_")}
    done = subprocess.run(
        [sys.executable, "-c", program],
        capture_output=True,
        text=True,
        check=False,
        env={**clean, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("low", ["bfloat16", "float16"])
def test_autocast_gives_the_values_of_casting_by_hand(start: str, low: str) -> None:
    program = f"""
low = torch.{low}
weight = torch.randn(5, 8).to("second")
with torch.autocast("second", low):
    product = torch.nn.functional.linear(x, weight)
    with torch.autocast("second", enabled=False):
        full = x @ weight.t()
    with tb_amp.autocast(dtype=torch.bfloat16):
        inner = x @ weight.t()
    assert (x @ weight.t()).dtype == low and full.dtype == torch.float32 and inner.dtype == torch.bfloat16
    assert x.to(low).exp().dtype == torch.float32
assert product.dtype == low
assert torch.equal(product.cpu(), torch.nn.functional.linear(x.cpu().to(low), weight.cpu().to(low)))
print("all", torch._C._get_privateuse1_backend_name())
"""
    assert run(start + program) == ["all second"]


def test_training_with_a_scaler_is_that_of_the_cpu_and_overflow_is_skipped(start: str) -> None:
    program = """
def train(device, scaler):
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scales = []
    for step in range(6):
        optimizer.zero_grad()
        with torch.autocast(device, torch.float16):
            loss = model(x.to(device)).square().mean()
        scaler.scale(loss if step not in (0, 3) else loss * float("inf")).backward()
        scaler.step(optimizer)
        scaler.update()
        scales.append(scaler.get_scale())
    return scales, [p.detach().cpu() for p in model.parameters()]

scales, weights = train("second", tb_amp.GradScaler(init_scale=1024.0, growth_interval=2))
expected_scales, expected = train("cpu", torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=2))
assert scales == expected_scales == [512, 512, 1024, 512, 512, 1024], (scales, expected_scales)
for a, b in zip(weights, expected):
    torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)
print("trained")
"""
    assert run(start + program) == ["trained"]


def test_an_autograd_function_runs_its_backward_in_the_state_of_its_forward(start: str) -> None:
    program = """
class Product(torch.autograd.Function):
    @staticmethod
    @tb_amp.custom_fwd(cast_inputs=torch.float32)
    def forward(context, a, b):
        context.save_for_backward(a, b)
        assert not torch.is_autocast_enabled("second")
        return a @ b

    @staticmethod
    @tb_amp.custom_bwd
    def backward(context, gradient):
        a, b = context.saved_tensors
        assert not torch.is_autocast_enabled("second") and gradient.dtype == torch.float32
        return gradient @ b.t(), a.t() @ gradient

a = x.half().requires_grad_()
with tb_amp.autocast(dtype=torch.float16):
    result = Product.apply(a, torch.ones(8, 2).to("second"))
assert result.dtype == torch.float32
result.sum().backward()
print(a.grad.dtype, a.grad.cpu().unique().tolist())
"""
    assert run(start + program) == ["torch.float16 [2.0]"]


def test_a_backend_with_scaler_kernels_of_its_own_keeps_them(start: str) -> None:
    program = """
library = torch.library.Library("aten", "IMPL", "PrivateUse1")
library.impl("_amp_update_scale_", lambda scale, *rest: scale.fill_(7.0))
tb_amp.register()
scale, tracker = torch.ones(1).to("second"), torch.zeros(1, dtype=torch.int32).to("second")
torch._amp_update_scale_(scale, tracker, torch.zeros(1).to("second"), 2.0, 0.5, 1)
gradient, found = torch.full((2,), 8.0).to("second"), torch.zeros(1).to("second")
torch._amp_foreach_non_finite_check_and_unscale_([gradient], found, torch.full((1,), 0.5).to("second"))
print(scale.item(), gradient.cpu().tolist(), found.item())
"""
    without = start.replace("tb_amp.register()\n", "")
    assert run(without + program) == ["7.0 [4.0, 4.0] 0.0"]
