"""TorchScript's delegate on tb: lowered modules give the originals' results, can be saved, and errors name the line."""

from __future__ import annotations

import copy
import io
import pathlib
import textwrap
import warnings
from collections.abc import Iterator
from typing import Any

import pytest
import torch
from conftest import RunPython
from tb_compile import jit
from torch import nn
from torch.jit.mobile import _load_for_lite_interpreter

# These functions have no type annotations.
load: Any = torch.jit.load
trace: Any = torch.jit.trace
load_mobile: Any = _load_for_lite_interpreter

HERE = pathlib.Path(__file__).name


class Block(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.linear = nn.Linear(8, 8)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return torch.relu(self.linear(x))  # errors must name this line


class Net(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.block = Block()
        self.head = nn.Linear(8, 3)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        h = self.block(x)
        result: torch.Tensor = self.head(h + x)
        return result

    @torch.jit.export
    def pair(self, x: torch.Tensor, y: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return torch.cat([x, y], 1), x.sum()

    @torch.jit.export
    def repeated(self, x: torch.Tensor, times: int) -> torch.Tensor:
        for _ in range(times):
            x = self.block(x)
        return x


class Outer(nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.net = Net()

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        result: torch.Tensor = self.net(x) * 2
        return result


ALL = {"forward": {"device": "tb:0"}, "pair": {}, "repeated": {}}


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        yield


@pytest.fixture
def scripted() -> Any:
    torch.manual_seed(0)
    return torch.jit.script(Net().eval())


@pytest.fixture
def x() -> torch.Tensor:
    return torch.randn(2, 8, generator=torch.Generator().manual_seed(1))


def same(found: torch.Tensor, expected: torch.Tensor) -> None:
    assert found.device.type == "tb"
    torch.testing.assert_close(found.cpu(), expected)


def test_the_backend_is_available() -> None:
    assert jit.is_available()


def test_methods_compute_what_the_original_does(scripted: Any, x: torch.Tensor, no_fallbacks: None) -> None:
    lowered = jit.to_backend(scripted, ALL)
    y = torch.randn(2, 5)
    for _ in range(2):
        same(lowered(x.to("tb")), scripted(x))
        for found, expected in zip(lowered.pair(x.to("tb"), y.to("tb")), scripted.pair(x, y), strict=True):
            same(found, expected)
        same(lowered.repeated(x.to("tb"), 3), scripted.repeated(x, 3))


def test_a_lowered_module_is_saved_and_loaded(scripted: Any, x: torch.Tensor) -> None:
    file = io.BytesIO()
    torch.jit.save(jit.to_backend(scripted, ALL), file)
    file.seek(0)
    again = load(file)
    same(again(x.to("tb")), scripted(x))
    same(again.repeated(x.to("tb"), 2), scripted.repeated(x, 2))


def test_a_fresh_process_loads_it_without_the_model_s_python(
    scripted: Any, x: torch.Tensor, run_python: RunPython, tmp_path: pathlib.Path
) -> None:
    torch.jit.save(scripted, str(tmp_path / "net.pt"))
    torch.save((x, scripted(x)), tmp_path / "case.pt")
    programs = [
        f"""
        jit.to_backend(torch.jit.load({str(tmp_path / "net.pt")!r}), {{"forward": {{"device": "tb:1"}}}}).save(
            {str(tmp_path / "lowered.pt")!r}
        )
        """,
        f"""
        x, expected = torch.load({str(tmp_path / "case.pt")!r})
        y = torch.jit.load({str(tmp_path / "lowered.pt")!r})(x.to("tb:1"))
        torch.testing.assert_close(y.cpu(), expected)
        print(y.device)
        """,
    ]
    begin = """
        import warnings
        warnings.simplefilter("ignore", DeprecationWarning)
        import torch
        from tb_compile import jit
        """
    done = [run_python(begin + one, env={"TB_CPU_DEVICES": "2", "TB_DRIVER": "cpu"}) for one in programs]
    assert done[1].stdout == "tb:1\n"


def test_some_submodules_are_lowered_and_the_rest_stays(x: torch.Tensor) -> None:
    outer = torch.jit.script(Outer().eval())
    lowered = jit.to_backend_selective(outer, {"forward": {}}, ["net"])
    same(lowered(x.to("tb")), outer(x))
    assert "__loweredModule__" in dict(lowered.net.named_children())


def test_traced_modules_and_modules_in_training_mode(x: torch.Tensor) -> None:
    net = Net().eval()
    same(jit.to_backend(trace(net, x), {"forward": {}})(x.to("tb")), net(x))
    training = torch.jit.script(Net().train())
    same(jit.to_backend(training, {"forward": {}})(x.to("tb")), training(x))


def test_several_devices(scripted: Any, run_python: RunPython, tmp_path: pathlib.Path) -> None:
    torch.jit.save(scripted, str(tmp_path / "net.pt"))
    done = run_python(
        f"""
        import warnings
        warnings.simplefilter("ignore", DeprecationWarning)
        import torch
        from tb_compile import jit
        net = torch.jit.load({str(tmp_path / "net.pt")!r})
        lowered = jit.to_backend(net, {{"forward": {{"device": "tb:0"}}, "pair": {{"device": "tb:1"}}}})
        x = torch.randn(2, 8)
        torch.testing.assert_close(lowered(x.to("tb:0")).cpu(), net(x))
        for found, right in zip(lowered.pair(x.to("tb:1"), x.to("tb:1")), net.pair(x, x)):
            assert found.device == torch.device("tb:1"), found.device
            torch.testing.assert_close(found.cpu(), right)
        try:
            lowered(x.to("tb:1"))
        except RuntimeError as error:
            print(error)
        """,
        env={"TB_CPU_DEVICES": "2", "TB_DRIVER": "cpu"},
    )
    assert "'forward' was lowered to tb:0, but input 0 is on tb:1" in done.stdout


def test_an_error_names_the_user_s_line_and_its_debug_handle(scripted: Any) -> None:
    lowered = jit.to_backend(scripted, {"forward": {}})
    with pytest.raises(RuntimeError, match="cannot be multiplied") as caught:
        lowered(torch.randn(2, 7, device="tb"))
    text = str(caught.value)
    assert HERE in text or "linear" in text
    assert "debug handle" in text
    assert "<--- HERE" in text
    same(lowered(torch.zeros(2, 8, device="tb")), scripted(torch.zeros(2, 8)))


def test_the_lite_interpreter_s_error_names_the_line(scripted: Any) -> None:
    lowered = jit.to_backend(scripted, {"forward": {}})
    data = lowered._save_to_buffer_for_lite_interpreter(_save_mobile_debug_info=True)
    mobile = load_mobile(io.BytesIO(data))
    x = torch.randn(2, 8)
    same(mobile(x.to("tb")), scripted(x))
    with pytest.raises(RuntimeError) as caught:
        mobile(torch.randn(2, 7, device="tb"))
    assert "Linear" in str(caught.value)
    assert HERE in str(caught.value)


@pytest.mark.parametrize(
    ("spec", "error", "text"),
    [
        ({"forward": {"device": "cpu"}}, Exception, "method 'forward' cannot be lowered to cpu"),
        ({"no_such": {}}, Exception, "no_such"),
    ],
)
def test_a_wrong_spec_is_refused(scripted: Any, spec: dict[str, dict[str, str]], error: Any, text: str) -> None:
    with pytest.raises(error, match=text):
        jit.to_backend(scripted, spec)


def test_an_input_on_the_host_is_refused_and_a_number_is_not(scripted: Any, x: torch.Tensor) -> None:
    lowered = jit.to_backend(scripted, {"forward": {}})
    with pytest.raises(Exception, match="input 0 is on cpu: move it there"):
        lowered(x)


def test_lowering_copies_the_parameters(scripted: Any, x: torch.Tensor) -> None:
    expected = scripted(x)
    lowered = jit.to_backend(scripted, {"forward": {}})
    before = copy.deepcopy(scripted.state_dict())
    with torch.no_grad():
        for parameter in scripted.parameters():
            parameter.zero_()
    same(lowered(x.to("tb")), expected)
    scripted.load_state_dict(before)


def test_a_process_without_the_backend_gives_an_error_that_names_it(
    scripted: Any, run_python: RunPython, tmp_path: pathlib.Path
) -> None:
    torch.jit.save(jit.to_backend(scripted, {"forward": {}}), str(tmp_path / "lowered.pt"))
    code = textwrap.dedent(
        f"""
        import torch
        torch.jit.load({str(tmp_path / "lowered.pt")!r})
        """
    )
    done = run_python(code, check=False)
    assert done.returncode != 0
    assert "__backends__.tb" in done.stderr


class Named(torch.nn.Module):
    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"sum": x + 1, "product": x * 2}


def test_a_method_may_return_a_dictionary(x: torch.Tensor) -> None:
    lowered = jit.to_backend(torch.jit.script(Named()), {"forward": {}})
    found = lowered(x.to("tb"))
    assert sorted(found) == ["product", "sum"]
    same(found["product"], x * 2)
