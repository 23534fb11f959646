"""The driver that `tb-device new-driver` writes, with eight functions in C, runs PyTorch programs."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable

import tb_device
from conftest import RunPython

SOURCE = pathlib.Path(tb_device.__file__).parent / "new_driver" / "c" / "mychip.c"

CompileDriver = Callable[[pathlib.Path], pathlib.Path]


def test_loaded_by_path_it_adds_through_the_counted_fallback(
    run_python: RunPython, compile_driver: CompileDriver
) -> None:
    code = """
        import json, torch
        result = torch.ones(3, device="tb") + 1
        rows = [(row.operator, row.calls, row.seconds) for row in torch.tb.fallbacks()]
        print(json.dumps({"device": str(result.device), "values": result.tolist(), "fallbacks": rows}))
    """
    done = run_python(code, {"TB_DRIVER": str(compile_driver(SOURCE))})
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["values"] == [2.0, 2.0, 2.0]
    assert found["device"] == "tb:0"
    [(operator, calls, seconds)] = [row for row in found["fallbacks"] if row[0].startswith("aten::add")]
    assert operator == "aten::add.out"  # PyTorch implements add.Tensor by it
    assert calls == 1
    assert seconds >= 0


def test_on_a_driver_without_kernels_a_model_trains_to_the_losses_of_the_cpu(
    run_python: RunPython, compile_driver: CompileDriver
) -> None:
    code = """
        import json, torch
        def losses(device):
            torch.manual_seed(0)
            model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1)).to(device)
            x, y = torch.linspace(-1, 1, 32).reshape(4, 8).to(device), torch.ones(4, 1).to(device)
            optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
            values = []
            for _ in range(5):
                optimizer.zero_grad()
                loss = torch.nn.functional.mse_loss(model(x), y)
                loss.backward()
                optimizer.step()
                values.append(loss.item())
            return values
        print(json.dumps([losses("tb"), losses("cpu")]))
    """
    done = run_python(code, {"TB_DRIVER": str(compile_driver(SOURCE))})
    on_chip, on_cpu = json.loads(done.stdout.splitlines()[-1])
    assert all(abs(a - b) <= 1e-6 for a, b in zip(on_chip, on_cpu, strict=True))
    assert on_chip[-1] < on_chip[0]


def test_on_a_driver_without_kernels_convolutions_and_their_gradients_are_those_of_the_cpu(
    run_python: RunPython, compile_driver: CompileDriver
) -> None:
    code = """
        import json, torch
        def results(device, transposed, bias):
            torch.manual_seed(0)
            kind = torch.nn.ConvTranspose2d if transposed else torch.nn.Conv2d
            layer = kind(4, 6, 3, stride=2, groups=2, bias=bias).to(device)
            x = torch.linspace(-1, 1, 2 * 4 * 7 * 7).reshape(2, 4, 7, 7).to(device).requires_grad_()
            y = layer(x)
            y.square().sum().backward()
            return [t.detach().cpu() for t in (y, x.grad, *(p.grad for p in layer.parameters()))]
        kinds = [(transposed, bias) for transposed in (False, True) for bias in (False, True)]
        same = [all(map(torch.equal, results("tb", *kind), results("cpu", *kind))) for kind in kinds]
        print(json.dumps([same, [row.operator for row in torch.tb.fallbacks()]]))
    """
    done = run_python(code, {"TB_DRIVER": str(compile_driver(SOURCE)), "TB_FALLBACK": "allow"})
    same, fallbacks = json.loads(done.stdout.splitlines()[-1])
    assert same == [True] * 4
    assert {"aten::convolution", "aten::convolution_backward"} <= set(fallbacks)
