"""What of PyTorch works: names and their calls, the states, the page, and a run in worker processes."""

import importlib
import json
import pathlib
from typing import Any

import pytest
import torch
from torch_backend.api_coverage import page, programs
from torch_backend.api_coverage.checks import CHECKS, cases, evidence
from torch_backend.api_coverage.cli import main
from torch_backend.api_coverage.names import concerns_no_device, of_another_library, public_names
from torch_backend.api_coverage.programs import COMPARED, ON_DEVICE, Program
from torch_backend.api_coverage.report import Report
from torch_backend.api_coverage.state import FALLBACK, NATIVE, State, classify
from torch_backend.conformance.case import FAILED, NO_DTYPE, NOT_APPLICABLE, PASSED, Case, Result
from torch_backend.conformance.device import Device
from torch_backend.conformance.execution import run_case
from torch_backend.conformance.profiles import Limits

ADD = Case("results", "torch.add", NO_DTYPE)
LIMITS = Limits(samples=8, window=32, elements=5_000, repeats=16)
TB = Device("tb")


@pytest.mark.parametrize(
    ("result", "state"),
    [
        (Result(ADD, PASSED, fallbacks=[]), State(NATIVE)),
        (Result(ADD, PASSED, fallbacks=["aten::add.out", "aten::add.out"]), State(FALLBACK, ("add.out",))),
        (Result(ADD, PASSED), State("runs")),
        (
            Result(ADD, FAILED, "the device raises RuntimeError: No add.\nUse sub. Or not."),
            State("refused", text="RuntimeError: No add."),
        ),
        (Result(ADD, FAILED, "values differ: 1 and 2"), State("wrong", text="values differ: 1 and 2")),
        (
            Result(ADD, FAILED, "values differ: not close! Greatest relative difference: 0.00184 at index (0,)"),
            State("wrong", text="the greatest relative difference is 1.8e-03"),
        ),
        (Result(ADD, FAILED, "crash: signal SIGSEGV\nstack"), State("crash", text="signal SIGSEGV")),
        (
            Result(ADD, FAILED, "the check itself raises KeyError: 1"),
            State("not tried", text="the check itself raises KeyError: 1"),
        ),
        (Result(ADD, NOT_APPLICABLE, "the CPU raises E: 1"), State("not tried", text="the CPU raises E: 1")),
        (
            Result(Case("program", "torch.eig", NO_DTYPE), NOT_APPLICABLE, "the CPU raises E: 1"),
            State("not on the CPU", text="the CPU raises E: 1"),
        ),
    ],
    ids=lambda value: value.name if isinstance(value, State) else "",
)
def test_a_result_gives_a_state(result: Result, state: State) -> None:
    assert classify(result) == state
    assert State.from_json(json.loads(json.dumps(state.to_json()))) == state


def state_of(monkeypatch: pytest.MonkeyPatch, text: str, kind: str = COMPARED) -> State:
    """The state that a program shows on tb."""
    monkeypatch.setitem(evidence()["program"], "torch.invented", Program(text, kind))
    return classify(run_case(Case("program", "torch.invented", NO_DTYPE), TB, LIMITS, CHECKS))


def test_a_program_shows_what_the_device_does(monkeypatch: pytest.MonkeyPatch) -> None:
    assert state_of(monkeypatch, "x.sin()") == State(NATIVE)
    with torch.tb.force_fallback("aten::sin"):  # type: ignore[attr-defined]
        assert state_of(monkeypatch, "x.sin()") == State(FALLBACK, ("sin",))
    assert state_of(monkeypatch, "x + (device.type == 'tb')").name == "wrong"
    assert state_of(monkeypatch, "x + {'cpu': 1}[device.type]") == State("refused", text="KeyError: 'tb'")
    assert state_of(monkeypatch, "x.nothing()").name == "not on the CPU"
    assert state_of(monkeypatch, "object()").name == "not on the CPU"  # there is nothing to compare
    assert state_of(monkeypatch, "x.device.type == 'tb'", ON_DEVICE) == State(NATIVE)
    assert state_of(monkeypatch, "x.device.type == 'cpu'", ON_DEVICE).name == "wrong"


def test_a_random_program_is_compared_by_statistics(monkeypatch: pytest.MonkeyPatch) -> None:
    assert state_of(monkeypatch, "torch.rand(50, device=device)") == State(NATIVE)
    assert state_of(monkeypatch, "torch.rand(50, device=device) * (1 + (device.type == 'tb'))").name == "wrong"


@pytest.mark.parametrize(
    "path", ["torch.add", "torch.relu_", "torch.Tensor.add_", "torch.Tensor.clip", "torch.special.expit"]
)
def test_a_name_is_called_itself(path: str) -> None:
    """Not only the operator behind it."""
    for check in ("results", "gradients"):
        if path in evidence()[check]:
            assert classify(run_case(Case(check, path, NO_DTYPE), TB, LIMITS, CHECKS)) == State(NATIVE)
    called = evidence()["results"][path]
    assert all(variant.op is public_names()[path] for variant in called.variants)


def test_modules_and_optimizers_are_run() -> None:
    for check, path in (("module", "torch.nn.Linear"), ("optimizer", "torch.optim.SGD")):
        assert classify(run_case(Case(check, path, NO_DTYPE), TB, LIMITS, CHECKS)) == State(NATIVE)


def test_names_that_concern_no_device_are_found_by_rules() -> None:
    names = public_names()
    for path in ("torch.float32", "torch.pi", "torch.OutOfMemoryError", "torch.set_num_threads", "torch.FloatTensor"):
        assert concerns_no_device(path, names[path])
    for path in ("torch.add", "torch.nn.Linear", "torch.Tensor.T", "torch.utils.checkpoint.checkpoint", "torch.load"):
        assert not concerns_no_device(path, names[path])
    assert of_another_library("torch.cudnn_convolution")


@pytest.mark.filterwarnings("ignore:.*reduce_op:FutureWarning")
def test_nearly_every_name_that_concerns_a_device_has_a_call() -> None:
    called = {case.entry for case in cases()}
    concerned = [p for p, v in public_names().items() if not concerns_no_device(p, v) and not of_another_library(p)]
    without = [path for path in concerned if path not in called]
    assert len(called) > 2000
    assert len(without) < 0.02 * len(concerned), without


def test_every_program_shows_a_public_name() -> None:
    for path in programs.programs():
        module, _, name = path.rpartition(".")
        there = hasattr(torch.Tensor if module == "torch.Tensor" else importlib.import_module(module), name)
        assert path in public_names() or not there, f"{path} is not a public name"


def test_two_programs_for_a_name_are_refused(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(programs, "FILES", tmp_path)
    for file in ("one", "other"):
        (tmp_path / f"{file}.toml").write_text('[compared."torch.Tensor"]\nnumel = "x.numel()"\n')
    programs.programs.cache_clear()
    try:
        with pytest.raises(ValueError, match="numel"):
            programs.programs()
    finally:
        programs.programs.cache_clear()


def report(driver: str, **states: dict[str, Any]) -> dict[str, Any]:
    made = Report("nothing").to_json({"torch": "2.13.0", "driver": driver, "date": "2026-11-29", "seconds": 1})
    names = {f"torch.{name}": entry for name, entry in states.items()}
    counts = {state: [entry["state"] for entry in names.values()].count(state) for state in ("native", "fallback")}
    return made | {"names": names, "counts": counts}


def test_the_page_has_a_column_for_each_report() -> None:
    native = {"state": "native"}
    falls = {"state": "fallback", "operators": ["b.one", "b.two", "c"]}
    one = report("cpu", a=native | {"gradients": native}, b=native, c=native, e={"state": "no device"})
    other = report("sim", a=native | {"gradients": native}, b=falls, c=native | {"gradients": falls})
    text = page.page([one, other])
    assert "*native, and so are the gradients* (1): a\n" in text
    assert "| name | cpu | sim |\n| --- | --- | --- |\n| b | native | fallback (`b`, `c`) |\n" in text
    assert "| c | native | native; gradients: fallback (`b`, `c`) |" in text
    assert "| e | no device | not there |" in text
    assert "| native | 3 | 2 |" in text
    assert (
        "- sim: torch 2.13.0, 2026-11-29, 1 s. Gradients of 2 functions and methods were computed, 1 natively." in text
    )
    assert "| torch | 4 | 3 | 3 | 2 |" in text


def test_a_page_of_nothing_is_refused() -> None:
    with pytest.raises(ValueError, match="no name that ran"):
        page.page([report("cpu", a={"state": "no device"})])
    with pytest.raises(ValueError, match="no name that ran"):
        page.page([])


def test_a_run_without_names_fails(capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["--name", "torch.nothing"]) == 1
    assert "nothing was run" in capsys.readouterr().err


def test_a_run_on_no_device_says_so(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setenv("TB_DRIVER", "nothing")
    assert main(["--name", "torch.Tensor.numel"]) == 2
    assert "the names cannot be run on tb" in capsys.readouterr().err


def test_a_run_writes_a_report_and_a_page(tmp_path: pathlib.Path) -> None:
    names = "torch.Tensor.numel,torch.fft.ifftshift,torch.distributed.all_reduce,torch.pi"
    written = ["--json", str(tmp_path / "new" / "report.json"), "--page", str(tmp_path / "page.md")]
    assert main(["--name", names, "--workers", "1", *written]) == 0
    made = json.loads((tmp_path / "new" / "report.json").read_text())
    assert made["names"] == {
        "torch.pi": {"state": "no device"},
        "torch.Tensor.numel": {"state": "native"},
        "torch.fft.ifftshift": {"state": "native", "gradients": {"state": "native"}},
        "torch.distributed.all_reduce": {"state": "native"},
    }
    assert made["driver"]
    assert made["counts"] == {"native": 3, "no device": 1}
    assert (tmp_path / "page.md").read_text() == page.page([made])
