"""torch.compile(backend="tb"): exceptions of operators in Python, and inputs that are neither tensors nor numbers."""

from __future__ import annotations

import pytest
import tb_compile
import torch

pytestmark = pytest.mark.usefixtures("fresh_compiler")


@pytest.mark.parametrize("kind", [ValueError, KeyError, RuntimeError])
def test_an_exception_of_an_operator_in_python_keeps_its_class_and_text(kind: type[Exception]) -> None:
    with torch.library._scoped_library("raising", "DEF") as library:
        library.define("op(Tensor x) -> Tensor")

        def fail(x: torch.Tensor) -> torch.Tensor:
            raise kind("the reason")

        library.impl("op", fail, "PrivateUse1")
        library.impl("op", torch.empty_like, "Meta")
        function = torch.compile(lambda x: torch.ops.raising.op(x + 1), backend="tb", fullgraph=True)
        with pytest.raises(kind, match="the reason") as raised:
            function(torch.ones(2, device="tb"))
        assert any("raising::op" in note for note in raised.value.__notes__)


def test_a_graph_of_nested_tensors_runs_as_python_with_a_reason() -> None:
    parts = [torch.ones(3, 4), torch.ones(5, 4)]
    given = torch.nested.nested_tensor(parts, layout=torch.jagged, device="tb")
    found = torch.compile(lambda n: (n * 2).sin(), backend="tb")(given)
    for part, expected in zip(found.unbind(), parts, strict=True):
        torch.testing.assert_close(part.cpu(), (expected * 2).sin())
    assert [graph.reason for graph in tb_compile.graphs() if graph.program is None]
