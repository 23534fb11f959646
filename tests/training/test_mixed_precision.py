"""Mixed precision on tb: scalers that do not wait and that skip overflowed steps, custom functions, nested regions."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import torch
from conftest import RunPython
from torch import Tensor

tb_amp: Any = torch.tb.amp  # type: ignore[attr-defined]
Make = Callable[[list[Tensor]], torch.optim.Optimizer]


class Counting(torch.optim.Optimizer):
    """A custom optimizer that counts its steps on the host, in its group."""

    def __init__(self, params: Any) -> None:
        super().__init__(params, {"calls": 0})

    @torch.no_grad()
    def step(self, closure: Any = None) -> Any:
        for group in self.param_groups:
            group["calls"] += 1
            for p in group["params"]:
                p.sub_(p.grad, alpha=0.1 / group["calls"])


OPTIMIZERS: dict[str, Make] = {
    "SGD": lambda p: torch.optim.SGD(p, lr=0.1),
    "SGD, momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, dampening=0.5, weight_decay=0.01),
    "SGD, fused momentum": lambda p: torch.optim.SGD(
        p, lr=0.1, momentum=0.9, dampening=0.5, fused=p[0].is_cpu is False
    ),
    "SGD, foreach": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, nesterov=True, foreach=True),
    "Adam": lambda p: torch.optim.Adam(p, lr=0.01, amsgrad=True),
    "AdamW": lambda p: torch.optim.AdamW(p, lr=0.01),
    "AdamW, capturable": lambda p: torch.optim.AdamW(p, lr=0.01, foreach=True, capturable=p[0].is_cpu is False),
    "Adagrad": lambda p: torch.optim.Adagrad(p, lr=0.1),
    "RMSprop": lambda p: torch.optim.RMSprop(p, lr=0.01, momentum=0.5, capturable=p[0].is_cpu is False),
    "NAdam": lambda p: torch.optim.NAdam(p, lr=0.01),
    "of one's own": Counting,
}


def train(device: str, make: Make, scaler: Any, overflows: set[int]) -> tuple[list[float], list[Tensor]]:
    """The scales after each step, and the parameters. Gradients overflow in the steps `overflows`."""
    random = torch.Generator().manual_seed(3)
    parameters = [torch.randn(shape, generator=random).to(device).requires_grad_() for shape in [(7, 5), (5,)]]
    optimizer, scales = make(parameters), []
    for step in range(8):
        optimizer.zero_grad()
        target = torch.randn(7, 5, generator=random).to(device)
        loss = (parameters[0] * parameters[1] - target).square().mean()
        scaler.scale(loss * float("inf") if step in overflows else loss).backward()
        scaler.step(optimizer)
        scaler.update()
        scales.append(scaler.get_scale())
    return scales, [p.detach().cpu() for p in parameters]


@pytest.mark.filterwarnings("ignore:GradScaler:UserWarning")
@pytest.mark.usefixtures("no_fallbacks")
@pytest.mark.parametrize("name", OPTIMIZERS)
@pytest.mark.parametrize("stock", [False, True], ids=["ours", "stock"])
def test_overflow_skips_the_step_and_halves_the_scale_as_on_the_cpu(name: str, stock: bool) -> None:
    # With PyTorch's class, momentum of the fused kernel stays uninitialised if the first step overflows.
    overflows = {1, 4} if stock and name == "SGD, fused momentum" else {0, 3, 4}
    options: dict[str, Any] = {"init_scale": 64.0, "growth_interval": 2}
    scaler = torch.amp.GradScaler("tb", **options) if stock else tb_amp.GradScaler(**options)
    scales, found = train("tb", OPTIMIZERS[name], scaler, overflows)
    expected_scales, expected = train("cpu", OPTIMIZERS[name], torch.amp.GradScaler("cpu", **options), overflows)
    assert scales == expected_scales
    before = 64.0
    for step, scale in enumerate(scales):
        assert (scale == before / 2) == (step in overflows)
        before = scale
    for a, b in zip(found, expected, strict=True):
        torch.testing.assert_close(a, b, rtol=2e-5, atol=2e-6)


WAITS = """
import warnings
import torch
warnings.simplefilter("ignore")

def waits():
    return open({file!r}).read().count('_synchronize"')

def of_a_step(make, scaler):
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.ReLU(), torch.nn.Linear(16, 1)).to("tb")
    optimizer, x = make(model.parameters()), torch.randn(4, 8, device="tb")
    counts = []
    for _ in range(6):
        before = waits()
        optimizer.zero_grad()
        with torch.autocast("tb", torch.float16):
            loss = model(x).square().mean()
        scaler.scale(loss).backward()
        scaler.unscale_(optimizer)
        torch.nn.utils.clip_grad_norm_(model.parameters(), 1.0)
        scaler.step(optimizer)
        scaler.update()
        counts.append(waits() - before)
    return counts[-3:]  # the first calls of an operator wait, and so does the making of state

# No gradient overflows: a step that is undone before there is state makes the state once more, and waits.
torch.manual_seed(0)
ours, stock = lambda: torch.tb.amp.GradScaler(init_scale=64.0), lambda: torch.amp.GradScaler("tb", init_scale=64.0)
optim = torch.optim
print(of_a_step(lambda p: optim.SGD(p, lr=0.1, momentum=0.9), ours()))
print(of_a_step(lambda p: optim.AdamW(p), ours()))
print(of_a_step(lambda p: optim.AdamW(p, fused=True), stock()))
print(of_a_step(lambda p: optim.SGD(p, lr=0.1, momentum=0.9, foreach=True), ours()))
print(of_a_step(lambda p: optim.RMSprop(p, capturable=True), ours()))
print(of_a_step(lambda p: optim.RMSprop(p), ours()))
print(of_a_step(lambda p: optim.AdamW(p), stock()))
"""


def test_a_step_waits_for_nothing(run_python: RunPython, tmp_path: Any) -> None:
    calls = str(tmp_path / "calls.jsonl")
    done = run_python(WAITS.format(file=calls), env={"TB_LAYERS": f"trace:file={calls}"})
    none, one = "[0, 0, 0]", "[1, 1, 1]"
    # Only RMSprop, which counts steps on the host, and the stock class, which reads found_inf, wait.
    assert done.stdout.split("\n")[:-1] == [none, none, none, none, none, one, one]


def test_an_optimizer_that_counts_on_the_host_warns_once_with_the_remedy() -> None:
    scaler = tb_amp.GradScaler()
    with pytest.warns(UserWarning, match=r"Make it NAdam\(\.\.\., capturable=True\) and no step waits") as warned:
        train("tb", OPTIMIZERS["NAdam"], scaler, set())
    assert len(warned) == 1
    assert warned[0].filename == __file__


def test_a_saved_optimizer_continues_from_its_state() -> None:
    p, q = (torch.ones(3, device="tb", requires_grad=True) for _ in range(2))
    first, second = torch.optim.AdamW([p]), torch.optim.AdamW([q])
    for one, parameter in ((first, p), (second, q)):
        parameter.grad = torch.full((3,), 0.5, device="tb")
        one.step()  # so far the optimizer counts steps on the host
    scaler = tb_amp.GradScaler(init_scale=1.0)
    scaler.scale(p)
    scaler.step(first)
    scaler.update()
    second.step()
    assert first.param_groups[0]["fused"] is True
    assert first.state[p]["step"].item() == 2
    torch.testing.assert_close(p.detach().cpu(), q.detach().cpu())
    third = torch.optim.AdamW([q])
    third.load_state_dict(first.state_dict())
    scaler.step(third)
    assert third.state[q]["step"].item() == 3


def test_custom_functions_get_the_dtype_that_they_ask_for() -> None:
    class Product(torch.autograd.Function):
        @staticmethod
        @torch.amp.custom_fwd(device_type="tb", cast_inputs=torch.float16)  # type: ignore[untyped-decorator]
        def forward(context: Any, a: Tensor, b: Tensor) -> Tensor:
            assert not torch.is_autocast_enabled("tb")
            context.save_for_backward(a, b)
            return a @ b

        @staticmethod
        @torch.amp.custom_bwd(device_type="tb")  # type: ignore[untyped-decorator]
        def backward(context: Any, gradient: Tensor) -> tuple[Tensor, Tensor]:
            assert not torch.is_autocast_enabled("tb")
            a, b = context.saved_tensors
            assert a.dtype == gradient.dtype == torch.float16
            return gradient @ b.t(), a.t() @ gradient

    class InState(torch.autograd.Function):
        @staticmethod
        @tb_amp.custom_fwd  # type: ignore[untyped-decorator]
        def forward(context: Any, a: Tensor) -> Tensor:
            assert torch.is_autocast_enabled("tb")
            return a.clone()

        @staticmethod
        @tb_amp.custom_bwd  # type: ignore[untyped-decorator]
        def backward(context: Any, gradient: Tensor) -> Tensor:
            assert torch.is_autocast_enabled("tb")
            assert torch.get_autocast_dtype("tb") == torch.bfloat16
            return gradient

    a = torch.ones(3, 4, device="tb", requires_grad=True)
    with torch.autocast("tb", torch.bfloat16):
        result = InState.apply(Product.apply(a, torch.ones(4, 2, device="tb")))  # type: ignore[no-untyped-call]
    assert result.dtype == torch.float16
    result.sum().backward()
    assert a.grad is not None
    assert a.grad.dtype == torch.float32
    assert set(a.grad.flatten().tolist()) == {2.0}


def test_regions_may_be_nested_or_disabled_and_belong_to_a_thread() -> None:
    import threading

    x = torch.ones(4, 4, device="tb")
    elsewhere = []
    with torch.autocast("tb", torch.float16):
        assert (x @ x).dtype == torch.float16
        with torch.autocast("tb", enabled=False):
            assert (x @ x).dtype == torch.float32
            with torch.autocast("tb", torch.bfloat16):
                assert (x @ x).dtype == torch.bfloat16
        thread = threading.Thread(target=lambda: elsewhere.append((x @ x).dtype))
        thread.start()
        thread.join()
        with torch.autocast("cpu", torch.bfloat16):
            assert ((x @ x).dtype, (x.cpu() @ x.cpu()).dtype) == (torch.float16, torch.bfloat16)
        assert (x.double() @ x.double()).dtype == torch.float64
        assert (x.half() @ x).dtype == torch.float16
    assert elsewhere == [torch.float32]
    assert (x @ x).dtype == torch.float32


def test_registering_before_the_first_use_leaves_the_device_its_own_kernels(run_python: RunPython) -> None:
    program = """
        import warnings, torch, tb_amp
        warnings.simplefilter("error")  # of a kernel registered over another
        tb_amp.register()
        torch.ones(2, device="tb")
        tb_amp.register()
        print(torch._C._dispatch_dump("aten::_amp_update_scale_"))
    """
    [line] = [line for line in run_python(program).stdout.splitlines() if line.startswith("PrivateUse1:")]
    assert "(tb-ops)" in line, line  # where the kernel was registered
