"""`x.data = y` across devices where y stands for other tensors: its value is taken, or PyTorch's exception raised."""

from __future__ import annotations

import os
import textwrap
from collections.abc import Callable

import pytest
import torch
from fork_server import run_program

INCOMPATIBLE = "incompatible tensor type"
TRANSFORMS = ("grad", "jacfwd", "jacrev", "hessian", "jvp")


def run(program: str) -> str:
    """The output of a program in a process of its own, which a wrong shallow copy would end."""
    head = "import torch\nsource, on_tb = torch.ones(2, 2), torch.ones(2, 2, device='tb')\n"
    child = run_program(head + textwrap.dedent(program), os.environ)
    assert child.returncode == 0, child.stderr[-2000:]
    return child.stdout.strip()


@pytest.mark.parametrize("value", ["(t * 2).to('tb')", "(t * 2).to('tb').to('cpu').to('tb')"])
def test_the_value_of_a_gradient_transform_is_taken(value: str) -> None:
    printed = run(f"""
        def f(t):
            source.data = {value}
            return (t * 2).sum()
        ones = torch.ones(2, 2)
        for name in {TRANSFORMS}:
            source = torch.ones(2, 2)
            transform = getattr(torch.func, name)
            try:
                transform(f, (ones,), (ones,)) if name == "jvp" else transform(f)(ones)
            except RuntimeError as error:
                assert "vmap" in str(error), error  # jacfwd, jacrev and hessian vary a tensor by vmap
                print("refused")
            else:
                print(source.device.type, (source * 2).tolist(), repr(source)[:7])
    """).splitlines()
    assert len(printed) == len(TRANSFORMS)
    for transform, line in zip(TRANSFORMS, printed, strict=True):
        assert line in ("refused", "tb [[4.0, 4.0], [4.0, 4.0]] tensor(")
        assert line != "refused" or transform not in ("grad", "jvp")


@pytest.mark.parametrize("names", [("on_tb", "t.cpu() * 2"), ("source", "t.to('tb')")])
def test_vmap_raises_its_own_exception(names: tuple[str, str]) -> None:
    printed = run(f"""
        def f(t):
            {names[0]}.data = {names[1]}
            return t.sum()
        try:
            torch.func.vmap(f)(torch.ones(2, 2, device="{"tb" if names[0] == "on_tb" else "cpu"}"))
        except RuntimeError as error:
            print(error)
    """)
    assert "vmap" in printed


def test_module_to_works_inside_grad() -> None:
    printed = run("""
        model = torch.nn.Linear(2, 2)
        weight, before = model.weight, model.weight.tolist()
        def f(t):
            model.to("tb")
            return (model(t.to("tb")) ** 2).sum().cpu()
        torch.func.grad(f)(torch.ones(2))
        assert model.weight is weight
        print(weight.device.type, weight.tolist() == before, model(on_tb).shape)
    """)
    assert printed == "tb True torch.Size([2, 2])"


WRAPPERS = {
    "functional": "torch._to_functional_tensor(on_tb)",
    "subclass": "__import__('torch.testing._internal.two_tensor', fromlist=['x']).TwoTensor(on_tb, on_tb)",
    "fake": "__import__('torch._subclasses', fromlist=['x']).FakeTensorMode().from_tensor(on_tb)",
}


@pytest.mark.parametrize("kind", WRAPPERS)
def test_other_wrappers_are_refused_and_become_no_plain_tensors(kind: str) -> None:
    printed = run(f"""
        wrapper = {WRAPPERS[kind]}
        for target, value in ((source, wrapper), (on_tb, wrapper), (wrapper, source)):
            before = source.clone(), on_tb.clone()
            try:
                target.data = value
            except RuntimeError as error:
                print(error)
            assert torch.equal(source, before[0])
            assert torch.equal(on_tb, before[1])
    """)
    assert printed.count(INCOMPATIBLE) == 3


def test_layouts_of_others_are_refused() -> None:
    dense, others = torch.ones(2, 2), list[Callable[[], torch.Tensor]]()
    others.append(lambda: torch.eye(2, device="tb").to_sparse())
    others.append(lambda: torch.eye(2, device="tb").to_sparse_csr())
    others.append(lambda: torch.nested.nested_tensor([torch.ones(2)], device="tb"))
    for other in others:
        with pytest.raises(RuntimeError, match=INCOMPATIBLE):
            dense.data = other()
    assert dense.tolist() == [[1, 1], [1, 1]]
