"""Programs that trace, compile and export functions of the CPU."""

from __future__ import annotations

import io
import pathlib
import tempfile
from typing import Any

import torch
from torch import Tensor, nn
from torch._subclasses.fake_tensor import FakeTensorMode
from torch.fx.experimental.proxy_tensor import make_fx


class Model(nn.Module):
    """A convolution, a product and a reduction."""

    def __init__(self) -> None:
        super().__init__()
        torch.manual_seed(0)
        self.convolution = nn.Conv1d(2, 3, 3)
        self.linear = nn.Linear(6, 4)

    def forward(self, x: Tensor) -> Tensor:
        """x: (batch, 2, 8)."""
        result: Tensor = self.linear(self.convolution(x).relu()).softmax(-1)
        return result


def compiled_by(backend: str) -> None:
    """Forward and backward of a compiled model, and its graph."""
    torch.manual_seed(0)
    model = Model()
    compiled: Any = torch.compile(model, backend=backend, fullgraph=True)
    for size in (1, 3, 5):
        x = torch.randn(size, 2, 8, requires_grad=True)
        result = compiled(x)
        result.square().sum().backward()
        print(result, x.grad)


def compile_eager() -> None:
    compiled_by("eager")


def compile_aot_eager() -> None:
    compiled_by("aot_eager")


def compile_inductor() -> None:
    compiled_by("inductor")


def graph_breaks() -> None:
    def function(x: Tensor) -> Tensor:
        x = x * 2
        print("broken here")
        return x.sin()

    print(torch.compile(function, backend="eager")(torch.ones(2)))
    explanation: Any = torch._dynamo.explain(function)(torch.ones(2))
    print(explanation.graph_count, explanation.break_reasons, [graph.code for graph in explanation.graphs])


def export() -> None:
    x, batch = torch.randn(3, 2, 8, generator=torch.Generator().manual_seed(0)), torch.export.Dim("batch")
    program = torch.export.export(Model(), (x,), dynamic_shapes={"x": {0: batch}})
    print(program, program.run_decompositions().graph)
    file = io.BytesIO()
    torch.export.save(program, file)
    file.seek(0)
    print(torch.export.load(file).module()(torch.ones(2, 2, 8)))


def script_trace_and_freeze() -> None:
    model, x = Model().eval(), torch.ones(2, 2, 8)
    scripted = torch.jit.script(model)
    print(scripted.graph, scripted(x))
    traced = torch.jit.freeze(torch.jit.trace(model, x))
    print(traced.graph, traced(x))
    with tempfile.TemporaryDirectory() as folder:
        file = str(pathlib.Path(folder, "model.pt"))
        scripted.save(file)
        print(torch.jit.load(file)(x), torch.jit.load(file, map_location="cpu").code)


def symbolic_and_fake_tensors() -> None:
    print(torch.fx.symbolic_trace(Model()).code)
    print(make_fx(torch.func.grad(lambda x: x.sin().sum()), tracing_mode="symbolic")(torch.ones(3)).code)
    with FakeTensorMode() as mode:
        fake = torch.empty(2, 3, 8, 8)
        print(fake, nn.functional.conv2d(fake, torch.empty(4, 3, 3, 3)), mode.allow_fallback_kernels)
    print(torch.empty(2, 3, device="meta"), Model().to("meta").to_empty(device="cpu").linear.weight.shape)


def custom_operators() -> None:
    @torch.library.custom_op("cpu_programs::double", mutates_args=())
    def double(x: Tensor) -> Tensor:
        return x * 2

    double.register_fake(torch.empty_like)
    double.register_autograd(lambda context, gradient: gradient * 2)
    x = torch.ones(3, requires_grad=True)
    torch.compile(double, backend="aot_eager")(x).sum().backward()
    print(x.grad, torch.ops.cpu_programs.double, torch.library.opcheck(double, (x,)))

    class Cube(torch.autograd.Function):
        @staticmethod
        def forward(context: Any, x: Tensor) -> Tensor:
            context.save_for_backward(x)
            return x**3

        @staticmethod
        def backward(context: Any, gradient: Tensor) -> Tensor:
            result: Tensor = gradient * 3 * context.saved_tensors[0] ** 2
            return result

    print(torch.autograd.gradcheck(Cube.apply, torch.ones(2, dtype=torch.double, requires_grad=True)))


def function_transforms() -> None:
    torch.manual_seed(0)
    model, x = Model(), torch.randn(3, 2, 8)
    parameters = dict(model.named_parameters())

    def loss(parameters: dict[str, Tensor], x: Tensor) -> Tensor:
        result: Any = torch.func.functional_call(model, parameters, (x[None],))
        squared: Tensor = result.square().sum()
        return squared

    print(torch.func.vmap(torch.func.grad(loss), (None, 0))(parameters, x))
    print(torch.func.jacrev(torch.sin)(torch.ones(3)), torch.func.jacfwd(torch.cos)(torch.ones(3)))
    print(torch.func.hessian(lambda x: x.pow(3).sum())(torch.ones(2)))
    print(torch.func.jvp(torch.exp, (torch.zeros(2),), (torch.ones(2),)))
    print(torch.func.vmap(torch.rand_like, randomness="different")(torch.ones(2, 3)))
