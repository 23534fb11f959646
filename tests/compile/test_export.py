"""Exported programs on tb: they load without the model's code, and supported operators become programs."""

from __future__ import annotations

import pathlib
from typing import Any

import pytest
import tb_compile.export as tb_export
import torch
import torch.nn.functional as F
from conftest import RunPython
from torch import nn


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.first, self.norm, self.last = nn.Linear(8, 16), nn.BatchNorm1d(16), nn.Linear(16, 4)

    def forward(self, x: torch.Tensor, factor: float = 2.0) -> dict[str, torch.Tensor]:
        hidden = torch.relu(self.norm(self.first(x)))
        values, places = (hidden.cumsum(1) * factor).topk(4, -1)
        return {"y": self.last(hidden).softmax(-1) + values, "places": places, "halves": torch.split(hidden, 8, 1)[1]}


def exported(net: nn.Module | None = None, *given: Any) -> torch.export.ExportedProgram:
    rows = torch.export.Dim("rows", min=2, max=64)
    dynamic = {"x": {0: rows}} if not given[1:] else None
    return torch.export.export(net or Net().eval(), given or (torch.ones(6, 8),), dynamic_shapes=dynamic)


def same(found: dict[str, torch.Tensor], expected: dict[str, torch.Tensor]) -> None:
    assert [tensor.device.type for tensor in found.values()] == ["tb"] * len(expected)
    torch.testing.assert_close({name: tensor.cpu() for name, tensor in found.items()}, expected)


def test_supported_operators_are_one_program(no_fallbacks: None) -> None:
    module = tb_export.to_backend(exported())
    for rows in (6, 2, 33):
        x = torch.randn(rows, 8)
        same(module(x.to("tb")), Net().eval()(x))
    [program] = tb_export.partitions(module)
    assert "aten::topk.default" in program.instructions
    assert (program.runs, tb_export.left_out(module)) == (3, [])


def test_unsupported_operators_are_left_to_pytorch() -> None:
    module = tb_export.to_backend(exported(), supports=lambda operator: operator is not torch.ops.aten.cumsum.default)
    x = torch.randn(6, 8)
    same(module(x.to("tb")), Net().eval()(x))
    assert tb_export.left_out(module) == ["aten.cumsum.default"]
    assert len(tb_export.partitions(module)) >= 2
    nothing = tb_export.to_backend(exported(), supports=lambda operator: False)
    same(nothing(x.to("tb")), Net().eval()(x))
    assert tb_export.partitions(nothing) == []


def test_operators_without_a_kernel_are_left_out() -> None:
    with torch.library._scoped_library("tb_test_export", "DEF") as library:
        library.define("twice(Tensor x) -> Tensor")
        library.impl("twice", lambda x: x * 2, "CPU")
        library.impl("twice", lambda x: torch.empty_like(x), "Meta")

        class Custom(nn.Module):
            def forward(self, x: torch.Tensor) -> torch.Tensor:
                twice: torch.Tensor = torch.ops.tb_test_export.twice(x + 1)
                return twice - 1

        module = tb_export.to_backend(torch.export.export(Custom(), (torch.ones(3),)))
        assert module(torch.ones(3, device="tb")).tolist() == [3.0] * 3
        assert tb_export.left_out(module) == ["tb_test_export.twice.default"]
        assert [program.instructions for program in tb_export.partitions(module)] == [
            ["aten::add.Tensor"],
            ["aten::sub.Tensor"],
        ]


def test_a_saved_program_runs_without_the_models_code(run_python: RunPython, tmp_path: pathlib.Path) -> None:
    x = torch.randn(5, 8)
    torch.export.save(exported(), tmp_path / "net.pt2")
    torch.save((x, Net().eval()(x)), tmp_path / "expected.pt")
    done = run_python(
        f"""
        import torch, tb_compile.export as tb_export
        folder = {str(tmp_path)!r}
        x, expected = torch.load(folder + "/expected.pt")
        module = tb_export.to_backend(torch.export.load(folder + "/net.pt2"), "tb:1")
        found = module(x.to("tb:1"))
        torch.testing.assert_close({{name: tensor.cpu() for name, tensor in found.items()}}, expected)
        print(found["y"].device, len(tb_export.partitions(module)))
        """,
        {"TB_CPU_DEVICES": "2"},
    )
    assert done.stdout == "tb:1 1\n"


def test_code_compiled_ahead_of_time_runs_in_another_process(run_python: RunPython, tmp_path: pathlib.Path) -> None:
    """The code is compiled by PyTorch's torch._inductor.standalone_compile."""
    code = f"""
        import sys, torch
        from torch._inductor import CompiledArtifact, standalone_compile
        path, x = {str(tmp_path / "code")!r}, torch.ones(3, 4, device="tb")
        if sys.argv[1:] == ["save"] or not __import__("os").path.exists(path):
            graph = torch.fx.experimental.proxy_tensor.make_fx(lambda x: [(x.sin() * 2).sum(1)], tracing_mode="fake")(x)
            standalone_compile(graph, [x]).save(path=path, format="binary")
            print("saved")
        else:
            print(CompiledArtifact.load(path=path, format="binary")(x)[0].tolist())
    """
    cache = {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache")}
    assert run_python(code, cache, timeout=240).stdout == "saved\n"
    cache = {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "other")}
    [found] = run_python(code, cache, timeout=240).stdout.splitlines()
    torch.testing.assert_close(eval(found), (torch.ones(3, 4).sin() * 2).sum(1).tolist())


def test_a_program_that_writes_is_refused() -> None:
    with pytest.raises(NotImplementedError, match=r"writes to norm.running_mean.* Export it for inference"):
        tb_export.to_backend(exported(Net().train(), torch.ones(6, 8)))


def test_attention_stays_one_operator() -> None:
    class Attention(nn.Module):
        def forward(self, x: torch.Tensor) -> torch.Tensor:
            return F.scaled_dot_product_attention(x, x, x)

    x = torch.randn(2, 4, 8, 16)
    module = tb_export.to_backend(torch.export.export(Attention(), (x,)))
    torch.testing.assert_close(module(x.to("tb")).cpu(), Attention()(x))
    assert tb_export.partitions(module)[0].instructions == ["aten::scaled_dot_product_attention.default"]
