"""tb_compile.step: whole training steps as device graphs, equal to the same steps run one operator at a time."""

from __future__ import annotations

import copy
import gc
import pathlib
from collections.abc import Callable
from typing import Any

import pytest
import tb_compile
import torch
import torch.nn.functional as F
import torch_backend.device_module as tb
from torch import nn
from torch_backend._testing import held
from torch_backend.conformance.bits import assert_bit_identical, bit_identical

Optimizer = Callable[[Any], torch.optim.Optimizer]

OPTIMIZERS: dict[str, Optimizer] = {
    "SGD": lambda parameters: torch.optim.SGD(parameters, lr=0.05, momentum=0.9),
    "AdamW fused": lambda parameters: torch.optim.AdamW(parameters, lr=1e-2, fused=True, capturable=True),
    "AdamW capturable": lambda parameters: torch.optim.AdamW(parameters, lr=1e-2, capturable=True),
}


def network() -> nn.Module:
    torch.manual_seed(0)
    return nn.Sequential(nn.Linear(8, 16), nn.Tanh(), nn.Linear(16, 4)).to("tb")


def training(net: nn.Module, optimizer: torch.optim.Optimizer) -> Callable[..., torch.Tensor]:
    def train(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        optimizer.zero_grad()
        loss = F.mse_loss(net(x), y)
        torch.autograd.backward(loss)
        optimizer.step()
        return loss

    return train


def batches(count: int, size: int = 5) -> list[tuple[torch.Tensor, torch.Tensor]]:
    generator = torch.Generator().manual_seed(1)
    return [
        (torch.randn(size, 8, generator=generator).to("tb"), torch.randn(size, 4, generator=generator).to("tb"))
        for _ in range(count)
    ]


def assert_same_parameters(net: nn.Module, other: nn.Module) -> None:
    for parameter, right in zip(net.parameters(), other.parameters(), strict=True):
        assert_bit_identical(right, parameter)
        assert (parameter.grad is None) == (right.grad is None)
        if parameter.grad is not None and right.grad is not None:
            assert_bit_identical(right.grad, parameter.grad)


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_a_captured_step_trains_as_the_plain_one(name: str) -> None:
    net = network()
    plain = copy.deepcopy(net)
    train = tb_compile.step(training(net, OPTIMIZERS[name](net.parameters())))
    right = training(plain, OPTIMIZERS[name](plain.parameters()))
    for x, y in batches(12):
        loss, expected = train(x, y), right(x, y)
        assert bit_identical(loss, expected)
        assert not loss.requires_grad
        assert_same_parameters(net, plain)
    assert (train.captures, train.replays, train.refusal) == (1, 9, "")


def test_results_keep_their_values_after_later_calls() -> None:
    net = network()
    train = tb_compile.step(training(net, OPTIMIZERS["SGD"](net.parameters())))
    losses = [train(x, y) for x, y in batches(10)]
    values = [loss.item() for loss in losses]
    assert len(set(values)) == len(values)


@pytest.mark.parametrize("where", ["before, outside", "after, outside", "after, inside", "never"])
def test_the_same_gradients_exist_as_after_a_plain_step(where: str) -> None:
    """The cases include gradients that accumulate, and a step that starts with the gradients of the step before."""
    net = network()
    plain = copy.deepcopy(net)
    optimizers = [OPTIMIZERS["SGD"](one.parameters()) for one in (net, plain)]

    def make(net: nn.Module, optimizer: torch.optim.Optimizer) -> Callable[..., torch.Tensor]:
        def train(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
            if where == "after, inside":  # uses the gradients of the call before
                optimizer.step()
                optimizer.zero_grad()
            loss = F.mse_loss(net(x), y)
            torch.autograd.backward(loss)
            if where == "never":
                optimizer.step()
            return loss

        return train

    train, right = tb_compile.step(make(net, optimizers[0])), make(plain, optimizers[1])
    for x, y in batches(12):
        if where == "before, outside":
            for optimizer in optimizers:
                optimizer.zero_grad()
        assert bit_identical(train(x, y), right(x, y))
        assert_same_parameters(net, plain)
        if where == "after, outside":
            for optimizer in optimizers:
                optimizer.step()
                optimizer.zero_grad()
    assert train.replays >= 7, train.refusal


def test_each_shape_has_its_own_graph() -> None:
    net = network()
    plain = copy.deepcopy(net)
    train = tb_compile.step(training(net, OPTIMIZERS["SGD"](net.parameters())), warm_up=1)
    right = training(plain, OPTIMIZERS["SGD"](plain.parameters()))
    for large, small in zip(batches(6), batches(6, size=3), strict=True):
        for batch in (large, small):
            assert bit_identical(train(*batch), right(*batch))
    assert_same_parameters(net, plain)
    assert train.captures == 2
    assert train.replays == 10


def test_no_more_graphs_are_kept_than_allowed() -> None:
    call = tb_compile.step(lambda x: x * 2, warm_up=1, most_graphs=2)
    for size in (1, 2, 3, 4, 1, 2, 3, 4):
        x = torch.randn(size, device="tb")
        assert bit_identical(call(x), x * 2)
        assert sum(len(form.captured) for form in call._forms.values()) <= 2
    assert call.captures > 2


def test_a_learning_rate_that_changes_now_and_then_makes_another_graph() -> None:
    net = network()
    plain = copy.deepcopy(net)
    optimizers = [OPTIMIZERS["SGD"](one.parameters()) for one in (net, plain)]
    train, right = tb_compile.step(training(net, optimizers[0])), training(plain, optimizers[1])
    for i, (x, y) in enumerate(batches(20)):
        for optimizer in optimizers:
            optimizer.param_groups[0]["lr"] = 0.1 if i < 10 else 0.01
        assert bit_identical(train(x, y), right(x, y))
    assert_same_parameters(net, plain)
    assert train.captures == 2
    assert train.refusal == ""


def test_a_learning_rate_that_always_changes_is_not_captured_with_a_reason() -> None:
    net = network()
    plain = copy.deepcopy(net)
    optimizers = [OPTIMIZERS["SGD"](one.parameters()) for one in (net, plain)]
    train, right = tb_compile.step(training(net, optimizers[0])), training(plain, optimizers[1])
    for i, (x, y) in enumerate(batches(20)):
        for optimizer in optimizers:
            optimizer.param_groups[0]["lr"] = 0.1 / (i + 1)
        assert bit_identical(train(x, y), right(x, y))
    assert_same_parameters(net, plain)
    assert train.captures <= 3
    assert "learning rate may be a tensor" in train.refusal


def test_a_learning_rate_on_the_device_is_read_again() -> None:
    nets = [network(), network()]
    rates = [torch.tensor(0.1, device="tb") for _ in nets]
    steps = [
        training(net, torch.optim.AdamW(net.parameters(), lr=rate, fused=True, capturable=True))
        for net, rate in zip(nets, rates, strict=True)
    ]
    train = tb_compile.step(steps[0])
    for i, (x, y) in enumerate(batches(12)):
        for rate in rates:
            rate.fill_(0.1 / (i + 1))
        assert bit_identical(train(x, y), steps[1](x, y))
    assert_same_parameters(*nets)
    assert train.captures == 1


def test_a_loaded_optimizer_state_is_used() -> None:
    net = network()
    plain = copy.deepcopy(net)
    optimizers = [OPTIMIZERS["AdamW fused"](one.parameters()) for one in (net, plain)]
    train, right = tb_compile.step(training(net, optimizers[0])), training(plain, optimizers[1])
    for i, (x, y) in enumerate(batches(14)):
        if i == 3:
            saved = [copy.deepcopy(optimizer.state_dict()) for optimizer in optimizers]
        if i == 8:
            for optimizer, state in zip(optimizers, saved, strict=True):
                optimizer.load_state_dict(state)
        assert bit_identical(train(x, y), right(x, y))
    assert_same_parameters(net, plain)
    assert train.captures == 2


def test_parameters_that_moved_are_captured_again() -> None:
    net = network()
    plain = copy.deepcopy(net)
    train = tb_compile.step(training(net, OPTIMIZERS["SGD"](net.parameters())))
    right = training(plain, OPTIMIZERS["SGD"](plain.parameters()))
    for i, (x, y) in enumerate(batches(14)):
        if i == 7:
            for one in (net, plain):
                for parameter in one.parameters():
                    parameter.data = parameter.data * 2
        assert bit_identical(train(x, y), right(x, y))
    assert_same_parameters(net, plain)
    assert train.captures == 2


def test_reset_forgets_what_was_captured() -> None:
    net = network()
    call = tb_compile.step(lambda x: net(x), warm_up=1)
    x = torch.randn(3, 8, device="tb")
    with torch.no_grad():
        for _ in range(3):
            call(x)
        for parameter in net.parameters():
            parameter.data = parameter.data * 2
        call.reset()
        for _ in range(3):
            assert bit_identical(call(x), net(x))
    assert call.captures == 1


def test_an_argument_that_wants_a_gradient_gets_it() -> None:
    call = tb_compile.step(lambda x: torch.autograd.backward((x * x).sum()), warm_up=1)
    x = torch.ones(2, device="tb", requires_grad=True)
    for _ in range(3):
        call(x)
    assert x.grad is not None
    assert x.grad.tolist() == [6, 6]
    assert "wants a gradient" in call.refusal


def test_random_numbers_continue_the_sequence_and_repeat_with_the_seed() -> None:
    call = tb_compile.step(lambda x: F.dropout(x, 0.5), warm_up=1)
    x = torch.ones(512, device="tb")
    torch.manual_seed(5)
    drawn = [call(x) for _ in range(6)]
    assert all(not bit_identical(one, other) for i, one in enumerate(drawn) for other in drawn[:i])
    torch.manual_seed(5)
    plain = [F.dropout(x, 0.5) for _ in range(6)]
    assert all(bit_identical(one, other) for one, other in zip(drawn, plain, strict=True))


def test_a_step_that_waits_runs_uncaptured_without_losing_work() -> None:
    net = network()
    plain = copy.deepcopy(net)
    optimizers = [OPTIMIZERS["SGD"](one.parameters()) for one in (net, plain)]

    def waiting(net: nn.Module, optimizer: torch.optim.Optimizer) -> Callable[..., float]:
        inner = training(net, optimizer)
        return lambda x, y: inner(x, y).item()

    train, right = tb_compile.step(waiting(net, optimizers[0])), waiting(plain, optimizers[1])
    for x, y in batches(8):
        assert train(x, y) == right(x, y)
        assert_same_parameters(net, plain)
    assert train.replays == 0
    assert "captur" in train.refusal


def test_cpu_tensors_and_unhashable_arguments() -> None:
    call = tb_compile.step(lambda x: (x * 2).to("tb"), warm_up=1)
    for _ in range(3):
        assert call(torch.ones(2)).tolist() == [2, 2]
    assert "tensor on cpu" in call.refusal
    scaled = tb_compile.step(lambda x, factors: x * factors["a"], warm_up=1)
    for _ in range(3):
        assert scaled(torch.ones(1, device="tb"), {"a": 3}).item() == 3
    assert scaled.replays == 2
    odd = tb_compile.step(lambda x, s: x + len(s), warm_up=1)
    assert odd(torch.ones(1, device="tb"), {1, 2}).item() == 3
    assert "has no hash" in odd.refusal


def test_each_value_that_is_not_a_tensor_has_its_own_graph() -> None:
    call = tb_compile.step(lambda x, factor: x * factor, warm_up=1)
    x = torch.ones(1, device="tb")
    assert [call(x, factor).item() for factor in (2, 2, 2, 3, 3, 3, 2)] == [2, 2, 2, 3, 3, 3, 2]
    assert call.captures == 2


@pytest.mark.parametrize("error", [KeyError, KeyboardInterrupt])
def test_an_exception_of_the_captured_call_leaves_what_a_plain_step_leaves(error: type[BaseException]) -> None:
    net = network()
    plain = copy.deepcopy(net)
    raises: list[bool] = []

    def make(net: nn.Module) -> Callable[[torch.Tensor], torch.Tensor]:
        def train(x: torch.Tensor) -> torch.Tensor:
            loss: torch.Tensor = net(x).sum()
            torch.autograd.backward(loss)
            if raises:
                raise error("mine")
            return loss

        return train

    train, right = tb_compile.step(make(net), warm_up=1), make(plain)
    x = torch.randn(3, 8, device="tb")
    for i in range(6):
        if i == 1:
            raises.append(True)
            for one in (train, right):
                with pytest.raises(error, match="mine"):
                    one(x)
            raises.clear()
        assert bit_identical(train(x), right(x))
        assert_same_parameters(net, plain)
    assert train.captures == 1


def test_calls_from_another_stream_are_in_order() -> None:
    call = tb_compile.step(lambda x: x * 2, warm_up=1)
    streams = [tb.Stream() for _ in range(2)]
    for i in range(3):  # a warm-up call, a capture, a replay
        call(torch.full((1000,), float(i), device="tb"))
    tb.synchronize()
    found = []
    with held(streams[0]) as first, held(streams[1]) as second:
        for i in range(12):
            with tb.stream(streams[i % 2]):
                found.append(call(torch.full((1000,), float(i), device="tb")))
        second.open()  # this stream still waits for the first one's work
        first.open_once_this_thread_waits()
        tb.synchronize()
    assert call.replays == 14
    for i, one in enumerate(found):
        assert_bit_identical(torch.full((1000,), 2.0 * i), one)


def test_compiled_and_captured() -> None:
    net = network()
    plain = copy.deepcopy(net)
    call = torch.compile(net, backend="tb", fullgraph=True)
    train = tb_compile.step(training(call, OPTIMIZERS["AdamW fused"](net.parameters())))  # type: ignore[arg-type]
    right = training(plain, OPTIMIZERS["AdamW fused"](plain.parameters()))
    for x, y in batches(10):
        torch.testing.assert_close(train(x, y), right(x, y))
    assert train.replays == 7


def test_ten_thousand_replays_leak_nothing() -> None:
    net = network()
    train = tb_compile.step(training(net, OPTIMIZERS["AdamW fused"](net.parameters())))
    x, y = batches(1)[0]

    def resident() -> int:
        return int(pathlib.Path("/proc/self/statm").read_text().split()[1]) * 4096

    def settle() -> None:
        for _ in range(2):  # what the first collection frees may be the last to refer to something in a cycle
            tb.synchronize()
            gc.collect()

    for _ in range(500):
        train(x, y)
    settle()
    before, memory, objects = tb.memory_allocated(), resident(), len(gc.get_objects())
    for _ in range(10_000):
        train(x, y)
    settle()
    assert tb.memory_allocated() == before
    assert len(gc.get_objects()) < objects + 100
    assert resident() - memory < 16 << 20  # a leak of 2 KiB a replay is 20 MiB; earlier tests leave garbage
    assert train.captures == 1


def test_a_dropped_step_frees_its_memory() -> None:
    def capture() -> None:
        train = tb_compile.step(lambda x: (x @ x).relu(), warm_up=1)
        x = torch.randn(64, 64, device="tb")
        for _ in range(4):
            train(x)
        assert train.replays

    def used() -> int:
        gc.collect()
        tb.synchronize()
        return tb.memory_allocated()

    capture()
    before = used()
    for _ in range(5):
        capture()
    assert used() == before


@pytest.mark.parametrize("options", [{"warm_up": 0}, {"most_graphs": 0}])
def test_numbers_below_one_are_refused(options: dict[str, int]) -> None:
    with pytest.raises(ValueError, match="1 or more"):
        tb_compile.step(lambda x: x, **options)  # type: ignore[call-overload]
