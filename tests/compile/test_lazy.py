"""The lazy backend on tb, in separate processes: training, compilations, devices, seeds, memory, the report."""

from __future__ import annotations

import textwrap

import pytest
from conftest import RunPython

BEGIN = """
import copy, io
import torch
from torch import nn
import torch.nn.functional as F
from tb_compile import lazy
lazy.init()
import torch._lazy, torch._lazy.metrics as metrics

def fallen():
    return {row.operator: row.calls for row in lazy.fallbacks() if row.operator != "aten::_local_scalar_dense"}
"""

TRAINING = """
class Encoder(nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = nn.TransformerEncoderLayer(32, 4, 64, dropout=0.0, batch_first=True)
        self.head = nn.Linear(32, 10)

    def forward(self, x):
        return self.head(self.layer(x).mean(1))

MODELS = {
    "mlp": ((16, 32), lambda: nn.Sequential(
        nn.Linear(32, 64), nn.ReLU(), nn.Linear(64, 64), nn.GELU(), nn.LayerNorm(64), nn.Linear(64, 10))),
    "cnn": ((4, 3, 16, 16), lambda: nn.Sequential(
        nn.Conv2d(3, 8, 3, padding=1, bias=False), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(8, 16, 3),
        nn.GroupNorm(4, 16), nn.SiLU(), nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(16, 10))),
    "encoder": ((4, 6, 32), Encoder),
}
OPTIMIZERS = {
    "sgd": lambda net: torch.optim.SGD(net.parameters(), lr=0.05, momentum=0.9),
    "adamw": lambda net: torch.optim.AdamW(net.parameters(), lr=1e-3),
}

def losses(model, optimizer, device):
    shape, make = MODELS[model]
    torch.manual_seed(0)
    net = make().to(device)
    optimizer = OPTIMIZERS[optimizer](net)
    schedule = torch.optim.lr_scheduler.ExponentialLR(optimizer, 0.97)  # a number that changes in each step
    found = []
    for i in range(10):
        generator = torch.Generator().manual_seed(i)
        x = torch.randn(*shape, generator=generator).to(device)
        y = torch.randint(0, 10, shape[:1], generator=generator).to(device)
        optimizer.zero_grad()
        loss = F.cross_entropy(net(x), y)
        loss.backward()
        optimizer.step()
        schedule.step()
        if device == "lazy":
            lazy.mark_step()
        found.append(loss)
    return [loss.item() for loss in found]
"""


def program(*parts: str) -> str:
    return "\n".join(textwrap.dedent(part) for part in parts)


@pytest.mark.parametrize("optimizer", ["sgd", "adamw"])
def test_training_equals_eager_training_with_two_compilations(optimizer: str, run_python: RunPython) -> None:
    run_python(
        program(
            BEGIN,
            TRAINING,
            f"""
            for model in MODELS:
                lazy.reset_fallbacks()
                before = lazy.counts()["compilations"]
                right, found = losses(model, {optimizer!r}, "cpu"), losses(model, {optimizer!r}, "lazy")
                assert max(abs(a - b) for a, b in zip(right, found)) <= 1e-5, (model, right, found)
                assert lazy.counts()["compilations"] - before == 2, lazy.counts()
                assert metrics.counter_value("UncachedCompile") == 2, metrics.counter_value("UncachedCompile")
                assert metrics.counter_value("CachedCompile") == 8, metrics.counter_value("CachedCompile")
                assert not fallen(), fallen()
            """,
        )
    )


def test_a_step_waits_for_nothing(run_python: RunPython) -> None:
    run_python(
        program(
            BEGIN,
            TRAINING,
            """
            losses("mlp", "adamw", "lazy")
            shape, make = MODELS["mlp"]
            net = make().to("lazy")
            optimizer = OPTIMIZERS["adamw"](net)
            x, y = torch.randn(*shape).to("lazy"), torch.randint(0, 10, shape[:1]).to("lazy")
            for i in range(6):
                if i == 3:
                    torch.tb.set_sync_debug_mode("error")
                optimizer.zero_grad()
                F.cross_entropy(net(x), y).backward()
                optimizer.step()
                lazy.mark_step()
            torch.tb.set_sync_debug_mode("default")
            """,
        )
    )


def test_devices_seeds_memory_and_the_report(run_python: RunPython) -> None:
    """Functions of PyTorch's interface that PyTorch's own lazy backend does not implement."""
    run_python(
        program(
            BEGIN,
            """
            assert lazy.devices() == ["tb0", "tb1"]
            second = torch.ones(3, device="lazy:1") + 1
            assert second.device == torch.device("lazy:1")
            assert second.cpu().tolist() == [2, 2, 2]
            assert torch.tb.memory_allocated(1) > 0
            lazy.set_default_device(1)
            assert (torch.ones(2, device="lazy") + 1).cpu().tolist() == [2, 2]
            lazy.set_default_device(0)
            try:
                lazy.set_default_device(2)
                raise AssertionError("no error")
            except ValueError as error:
                assert "there is no device tb:2, there are 2" in str(error), error

            def draw(device):
                lazy.manual_seed(7)
                return [torch.rand(5, device=device).cpu(), torch.randn(5, device=device).cpu()]

            assert all(torch.equal(one, other) for one, other in zip(draw("lazy"), draw("lazy")))
            assert all(torch.equal(one, other) for one, other in zip(draw("lazy"), draw("tb")))
            before = lazy.memory_info()["allocated"]
            big = torch.zeros(1 << 20).to("lazy") + 1
            lazy.mark_step()
            info = lazy.memory_info()
            assert info["allocated"] - before >= 4 << 20
            assert info["peak"] >= info["allocated"]
            assert info["total"] >= info["free"] > 0
            report = lazy.metrics_report()
            for line in ("Backend: tb", "Devices: 2", "Seed: 7", "Compilations: ", "Memory of tb0: "):
                assert line in report, report
            assert "aten::add" in torch._C._lazy._get_tensors_backend([torch.ones(2).to("lazy") + 1])
            """,
        ),
        env={"TB_CPU_DEVICES": "2", "TB_DRIVER": "cpu"},
    )


def test_shapes_compile_once_each_and_numbers_never(run_python: RunPython) -> None:
    run_python(
        program(
            BEGIN,
            """
            for n in (3, 4, 5, 3, 4, 5):
                assert (torch.ones(n, 2).to("lazy") * 2).sum().item() == 4 * n
            assert metrics.counter_value("UncachedCompile") == 3
            assert metrics.counter_value("CachedCompile") == 3
            metrics.reset()
            for number in (1.5, 2.5, 3.5):
                assert (torch.ones(4).to("lazy") * number).cpu().tolist() == [number] * 4
            assert metrics.counter_value("UncachedCompile") <= 1
            """,
        )
    )


def test_aliases_and_pending_reads_keep_their_values(run_python: RunPython) -> None:
    run_python(
        program(
            BEGIN,
            """
            def functional(device):
                torch.manual_seed(0)
                w = torch.randn(8, 8).to(device)
                kept = []
                for i in range(12):
                    old, later = w, w.sum(0) if i % 4 == 3 else None
                    w = w - 0.1 * (w @ w.t()).tanh()
                    if device == "lazy":
                        lazy.sync([w]) if later is not None else lazy.mark_step()
                    kept += [old] if i % 5 == 4 else []
                    kept += [later] if later is not None else []
                    kept.append(w[1:3])
                return [one.cpu() for one in kept]

            def in_place(device):
                torch.manual_seed(0)
                w, m, kept = torch.randn(8, 8).to(device), torch.zeros(8, 8).to(device), []
                for i in range(12):
                    m.mul_(0.9).add_((w @ w.t()).tanh())
                    snapshot = w.detach().clone() if i % 3 == 0 else None
                    w.sub_(m, alpha=0.1)
                    w[0].zero_()
                    if device == "lazy":
                        lazy.mark_step()
                    kept += [w.clone()] + ([snapshot] if snapshot is not None else [])
                return [one.cpu() for one in kept]

            for run in (functional, in_place):
                for found, right in zip(run("lazy"), run("cpu")):
                    torch.testing.assert_close(found, right, rtol=1e-4, atol=1e-4)
            """,
        )
    )


def test_operators_for_which_pytorchs_lazy_kernels_are_wrong_or_missing(run_python: RunPython) -> None:
    run_python(
        program(
            BEGIN,
            """
            x = torch.randn(2, 4, 6, 6)
            calls = {
                "pixel_shuffle": lambda x: F.pixel_shuffle(x, 2),
                "index_select": lambda x: x.index_select(1, torch.tensor([2, 0], device=x.device)),
                "std": lambda x: torch.std(x, [0, 2], keepdim=True),
                "masked_fill": lambda x: torch.zeros(6, device=x.device).masked_fill(x > 0, 2.0),
                "max_pool3d": lambda x: F.max_pool3d(x, 2),
                "split": lambda x: torch.cat(x.split([1, 3], 1)[::-1], 1),
                "unbind": lambda x: torch.stack(x.unbind(2)[::-1], 2),
                "chunk": lambda x: x.unsafe_chunk(3, 3)[1],
                "index": lambda x: x[:, torch.tensor([3, 1], device=x.device)],
                "index_put": lambda x: x.index_put((torch.tensor([1], device=x.device),), x[:1] * 0),
                "lerp": lambda x: torch.lerp(x, x * 2, 0.25),
                "fft": lambda x: torch.fft.ifft(torch.fft.fft(x)).real,
                "group_norm": lambda x: F.group_norm(x, 2),
                "linspace": lambda x: x * torch.linspace(0, 1, 6, device=x.device),
                "eye": lambda x: x @ torch.eye(6, device=x.device),
            }
            for name, call in calls.items():
                lazy.reset_fallbacks()
                torch.testing.assert_close(call(x.to("lazy")).cpu(), call(x), msg=lambda text: f"{name}: {text}")
                assert not fallen(), (name, fallen())
            lazy.reset_fallbacks()
            assert x.to("lazy").nonzero().cpu().shape[1] == 4
            assert fallen() == {"aten::nonzero": 1}, fallen()
            """,
        )
    )


def test_generators_saving_and_errors(run_python: RunPython) -> None:
    run_python(
        program(
            BEGIN,
            """
            lazily = torch.zeros(4).to("lazy").uniform_(generator=torch.Generator("tb").manual_seed(3))
            eager = torch.zeros(4, device="tb").uniform_(generator=torch.Generator("tb").manual_seed(3))
            assert torch.equal(lazily.cpu(), eager.cpu())
            drawn = torch.randperm(9, generator=torch.Generator("tb").manual_seed(3), device="tb")  # as before
            assert sorted(drawn.tolist()) == list(range(9))
            file = io.BytesIO()
            torch._lazy.save({"w": torch.ones(2).to("lazy")}, file)
            file.seek(0)
            assert torch.load(file)["w"].tolist() == [1, 1]
            try:
                torch.ones(2, 3).to("lazy") @ torch.ones(2, 3).to("lazy")
                raise AssertionError("no error")
            except RuntimeError as error:
                assert "shape" in str(error) or "size" in str(error), error
            assert (torch.ones(2).to("lazy") + 1).cpu().tolist() == [2, 2]
            x = torch.ones(3, device="tb").to("lazy")
            assert (x + 1).to("tb").tolist() == [2, 2, 2]
            """,
        )
    )


def test_a_cached_graph_of_pytorch_s_own_functions_runs(run_python: RunPython) -> None:
    run_python(
        program(
            BEGIN,
            """
            result = torch.ones(3).to("lazy") * 2 + 1
            graph = torch._C._lazy._get_graph_hash([result])
            torch._lazy.sync_multi([result], [])
            assert graph
            assert result.cpu().tolist() == [3, 3, 3]
            """,
        )
    )


def test_a_second_lazy_backend_is_refused(run_python: RunPython) -> None:
    done = run_python(
        program(
            BEGIN,
            """
            import torch._lazy.ts_backend
            lazy.init()
            try:
                torch._lazy.ts_backend.init()
            except RuntimeError as error:
                print(error)
            """,
        )
    )
    assert "has the lazy backend of tb" in done.stdout
    assert done.stderr == ""
    done = run_python(
        """
        import torch._lazy.ts_backend
        torch._lazy.ts_backend.init()
        from tb_compile import lazy
        try:
            lazy.init()
        except RuntimeError as error:
            print(error)
        """
    )
    assert "a lazy backend already" in done.stdout


def test_an_operator_that_needs_contiguous_tensors_gets_them(run_python: RunPython) -> None:
    done = run_python(
        program(
            BEGIN,
            """
            x, wide = torch.randn(2, 3, 4), torch.randn(4, 6, 3)
            cases = {
                "group_norm": lambda x: F.group_norm(x.transpose(1, 2), 2),
                "group_norm of a slice": lambda x: F.group_norm(x[:, :, ::2].transpose(1, 2), 2),
                "layer_norm": lambda x: F.layer_norm(x.transpose(1, 2), (3,)),
                "instance_norm": lambda x: F.instance_norm(x.transpose(1, 2)),
                "softmax": lambda x: F.softmax(x.permute(2, 0, 1), 1),
                "max_pool": lambda x: F.max_pool1d(x.transpose(1, 2), 2),
                "cumsum": lambda x: x.transpose(0, 2).cumsum(1),
                "expanded": lambda x: F.group_norm(x[:1].expand(2, 3, 4).transpose(1, 2), 2),
            }
            for name, call in cases.items():
                torch.testing.assert_close(call(x.to("lazy")).cpu(), call(x), msg=lambda text: name + ": " + text)
            print("equal")
            """,
        )
    )
    assert done.stdout.splitlines()[-1] == "equal"


def test_a_shape_kernel_in_python_that_refuses_makes_the_operator_run_at_once(run_python: RunPython) -> None:
    done = run_python(
        program(
            BEGIN,
            """
            library = torch.library.Library("refusing", "DEF")
            library.define("op(Tensor x) -> Tensor")
            def refuse(x):
                raise ValueError("no shape")
            library.impl("op", refuse, "Meta")
            library.impl("op", lambda x: x + 1, "PrivateUse1")
            print(torch.ops.refusing.op(torch.ones(2).to("lazy")).cpu().tolist(), fallen())
            """,
        )
    )
    assert done.stdout.splitlines()[-1] == "[2.0, 2.0] {'refusing::op': 1}"


FORCED = """
x = torch.arange(3.0).to("lazy").requires_grad_()
((x * 3) + 1).square().sum().backward()
print(x.grad.tolist(), {name: n for name, n in fallen().items() if name.startswith(("aten::mul", "aten::add"))})
"""


def test_operators_that_are_forced_run_at_once_and_are_counted(run_python: RunPython) -> None:
    switch = """
    import torch._lazy.config as config
    config.set_force_fallback("aten::mul")
    """
    gradients = "[6.0, 24.0, 42.0]"
    for begin, variables in ((program(BEGIN, switch), {}), (program(BEGIN, ""), {"LTC_FORCE_FALLBACK": "aten::mul"})):
        found = run_python(program(begin, FORCED), variables).stdout.splitlines()[-1]
        assert found.startswith(gradients + " {'aten::mul.")
        assert "aten::add" not in found
    refused = """
    try:
        config.set_force_fallback("aten::mull")
    except ValueError as error:
        print("aten::mull" in str(error), config.get_force_fallback())
    config.set_force_fallback("")
    """
    done = run_python(program(BEGIN, switch, refused, FORCED)).stdout.splitlines()
    assert done[-2] == "True aten::mul"
    assert done[-1] == gradients + " {}"
