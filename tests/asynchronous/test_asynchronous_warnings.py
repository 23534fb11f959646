"""Warnings of kernels on a worker reach Python's `warnings` at the next wait, as if the call had raised them."""

from __future__ import annotations

import gc
import inspect
import io
import threading
import time
import traceback
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import tb_allocator
import tb_device
import tb_stream
import torch
import torch_backend.device_module as tb
from torch.testing._internal.common_methods_invocations import op_db

TEXT = "degrees of freedom"


@pytest.fixture(autouse=True)
def _types_are_known_and_nothing_is_left_over() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.accelerator.synchronize()
        warn()
        warn()  # the second call with these types does not wait
        torch.accelerator.synchronize()
    yield
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.accelerator.synchronize()


def warn() -> torch.Tensor:
    return torch.ones(1, device="tb").std()  # the launch that warns


def until_it_ran(out: torch.Tensor) -> None:
    """Waits until the queued work has run, without a wait of tb, which would report the warning."""
    event = threading.Event()
    tb_stream.current_stream(out.device.index).add_callback(event.set)
    assert event.wait(60)


def line_of_the_launch() -> int:
    lines, first = inspect.getsourcelines(warn)
    [offset] = [number for number, line in enumerate(lines) if "the launch that warns" in line]
    return first + offset


def caught(*steps: Callable[[], object], action: Any = "always") -> list[warnings.WarningMessage]:
    with warnings.catch_warnings(record=True) as received:
        warnings.simplefilter(action)
        for step in steps:
            step()
    return received


def repeated(times: int) -> Callable[[], object]:
    def run() -> None:
        for _ in range(times):
            warn()
        torch.accelerator.synchronize()

    return run


# ---- filters -------------------------------------------------------------------------------------------------------


def test_a_warning_names_the_line_of_its_launch_and_nothing_is_printed(capfd: pytest.CaptureFixture[str]) -> None:
    [received] = caught(repeated(1))
    assert (received.filename, received.lineno, received.category) == (__file__, line_of_the_launch(), UserWarning)
    [stock] = caught(lambda: torch.ones(1).std())
    assert str(received.message) == str(stock.message)
    assert capfd.readouterr() == ("", "")


def test_no_warning_is_reported_before_the_wait() -> None:
    assert caught(lambda: until_it_ran(warn())) == []
    assert len(caught(torch.accelerator.synchronize)) == 1
    assert caught(torch.accelerator.synchronize) == []  # reported once


@pytest.mark.parametrize(
    ("action", "expected"), [("always", 5), ("default", 1), ("module", 1), ("once", 1), ("ignore", 0)]
)
def test_filters_count_queued_warnings_as_stock_cpu_counts_its_warnings(action: Any, expected: int) -> None:
    assert len(caught(repeated(2), repeated(3), action=action)) == expected
    assert (
        len(caught(lambda: [torch.ones(1).std() for _ in range(5)], action=action)) == expected
    )  # stock CPU does the same


def test_a_filter_by_message_and_module_applies() -> None:
    with warnings.catch_warnings(record=True) as received:
        warnings.simplefilter("always")
        warnings.filterwarnings("ignore", message=rf"std.*{TEXT}", category=UserWarning, module=__name__)
        repeated(2)()
    assert received == []


def test_a_warning_as_an_error_is_raised_by_the_wait_after_the_work_is_done() -> None:
    x = torch.ones(4, device="tb")
    (x + x).tolist()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        out = [warn() for _ in range(3)]
        done = x + x
        with pytest.raises(UserWarning, match=TEXT):
            torch.accelerator.synchronize()
        torch.accelerator.synchronize()  # raised once, although three launches warned
        assert done.tolist() == [2.0] * 4
    assert len(out) == 3


def test_a_warning_raised_as_an_error_loses_no_other_warning() -> None:
    def others() -> None:
        x = torch.ones(1, device="tb")
        warn()
        x.var()
        torch.var_mean(x)

    caught(others, others, torch.accelerator.synchronize)
    with warnings.catch_warnings(record=True) as received:
        warnings.simplefilter("always")
        warnings.filterwarnings("error", message="std|var_mean")
        others()
        with pytest.raises(UserWarning, match=r"std\(\)"):
            torch.accelerator.synchronize()
        assert [str(warning.message)[:5] for warning in received] == ["var()"]
        with pytest.raises(UserWarning, match=r"var_mean\(\)"):
            torch.accelerator.synchronize()
        torch.accelerator.synchronize()


def test_a_failure_of_the_stream_is_raised_before_a_warning() -> None:
    table, index = torch.zeros(4, 2, device="tb"), torch.tensor([1, 9], device="tb")
    table.index_select(0, index.clamp(max=3))
    torch.accelerator.synchronize()
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        warn()
        table.index_select(0, index)
        with pytest.raises(IndexError):
            torch.accelerator.synchronize()
        with pytest.raises(UserWarning, match=TEXT):
            torch.accelerator.synchronize()


# ---- ways to wait --------------------------------------------------------------------------------------------------

side = torch.ones(4, device="tb")


def recorded(event: Any) -> Any:
    event.record()
    return event


def until(done: Callable[[], bool]) -> None:
    """Polls, because a query may still be false for a moment after the work has run."""
    while not done():
        time.sleep(0.001)


WAITS: dict[str, Callable[[], object]] = {
    "torch.tb.synchronize": tb.synchronize,
    "torch.accelerator.synchronize": torch.accelerator.synchronize,
    "torch stream": lambda: torch.Stream(device="tb").synchronize(),
    "torch stream, query": lambda: until(torch.Stream(device="tb").query),
    "torch event": lambda: recorded(torch.Event(device="tb")).synchronize(),
    "torch.tb stream": lambda: tb.current_stream().synchronize(),
    "torch.tb event": lambda: recorded(tb.Event()).synchronize(),
    "tb_stream device": tb_stream.synchronize,
    "tb_stream stream": lambda: tb_stream.current_stream().synchronize(),
    "tb_stream event": lambda: tb_stream.current_stream().record_event().synchronize(),
    "tb_stream query": lambda: until(tb_stream.default_stream().query),
    "tb_device": lambda: tb_device.default_driver().synchronize(0),
    "tb_allocator buffer": lambda: tb_allocator.DeviceBuffer(size=64).tobytes(),
    "item": lambda: side.sum().item(),
    "bool": lambda: bool(side[0]),
    "tolist": side.tolist,
    "cpu": side.cpu,
    "copy_": lambda: torch.empty(4).copy_(side),
    "print": lambda: repr(side),
    "nonzero": side.nonzero,
    "save": lambda: torch.save(side, io.BytesIO()),
    "storage": lambda: side.untyped_storage().cpu(),  # type: ignore[no-untyped-call]
}


@pytest.mark.parametrize("way", WAITS)
def test_every_wait_reports_warnings_and_raises_them_as_errors(way: str, capfd: pytest.CaptureFixture[str]) -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        WAITS[way]()
    received = caught(lambda: until_it_ran(warn()), WAITS[way])
    assert [warning.lineno for warning in received] == [line_of_the_launch()]
    until_it_ran(warn())
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        with pytest.raises(UserWarning, match=TEXT) as raised:
            WAITS[way]()
        traceback.clear_frames(raised.tb)  # repr's frame holds a guard that disables transforms while it exists
        WAITS[way]()
    assert "degrees" not in capfd.readouterr().err


@pytest.mark.parametrize("way", ["torch.tb.synchronize", "print"])
def test_reporting_a_warning_keeps_no_variable_of_a_caller(way: str) -> None:
    kept: list[weakref.ref[torch.Tensor]] = []

    def wait() -> None:
        local = torch.ones(1)
        kept.append(weakref.ref(local))
        WAITS[way]()

    gc.disable()
    try:
        for _ in range(2):
            caught(lambda: until_it_ran(warn()), wait)
    finally:
        gc.enable()
    assert [reference() for reference in kept] == [None, None]


def test_a_waiting_thread_gets_the_warnings_of_other_threads_launches() -> None:
    until_it_ran(warn())
    errors: list[BaseException] = []

    def wait() -> None:
        try:
            torch.accelerator.synchronize()
        except UserWarning as error:
            errors.append(error)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        thread = threading.Thread(target=wait)
        thread.start()
        thread.join()
        torch.accelerator.synchronize()
    assert [TEXT in str(error) for error in errors] == [True]


def test_many_threads_lose_no_warning() -> None:
    def work() -> None:
        with torch.Stream(device="tb"):
            for _ in range(50):
                warn()
                torch.accelerator.synchronize()

    def run() -> None:
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        torch.accelerator.synchronize()

    assert len(caught(run)) == 200


def test_a_wait_inside_a_backward_pass_leaves_warnings_to_the_next_wait() -> None:
    """A node of the backward pass waits outside of Python; the warning must come from the next wait in Python."""
    x = torch.ones(4, device="tb", requires_grad=True)
    table = torch.ones(5, device="tb")

    def backward() -> None:
        picked = torch.masked_select(table * x.sum(), table > 0)  # its backward pass waits
        until_it_ran(warn())
        picked.sum().backward()  # type: ignore[no-untyped-call]
        torch.accelerator.synchronize()

    caught(backward)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x.grad = None
        with pytest.raises(UserWarning, match=TEXT):
            backward()
    assert x.grad is not None


def test_each_replay_of_a_graph_warns() -> None:
    x = torch.ones(1, device="tb")
    graph = tb.Graph()
    with tb.graph(graph):
        x.std()
    assert caught(torch.accelerator.synchronize) == []

    def replay() -> None:
        for _ in range(3):
            graph.replay()
        torch.accelerator.synchronize()

    received = caught(replay)
    line = inspect.getsourcelines(test_each_replay_of_a_graph_warns)[1] + 4  # the line of x.std()
    assert [(warning.filename, warning.lineno) for warning in received] == [(__file__, line)] * 3


# ---- bounds --------------------------------------------------------------------------------------------------------


def test_a_loop_that_warns_takes_no_memory_and_its_count_is_reported() -> None:
    x = torch.ones(1, device="tb")
    received = caught(lambda: [x.std() for _ in range(3000)], lambda: until_it_ran(x), torch.accelerator.synchronize)
    assert len(received) == 1001
    assert "(2000 times more)" in str(received[-1].message)


def test_too_many_different_warnings_are_counted() -> None:
    names: dict[str, Any] = {}
    exec(compile("def call(x):\n" + "    x.std()\n" * 1200, "many_lines.py", "exec"), names)
    received = caught(lambda: names["call"](torch.ones(1, device="tb")), torch.accelerator.synchronize)
    assert [warning.lineno for warning in received[:-1]] == list(range(2, 1002))
    assert str(received[-1].message).startswith("200 more warnings of tb's kernels were dropped")


def test_a_warning_whose_code_is_freed_is_reported_at_the_line_of_the_wait() -> None:
    names: dict[str, Any] = {"x": torch.ones(1, device="tb")}
    exec(compile("def call():\n    x.std()\n", "gone.py", "exec"), names)
    names.pop("call")()
    ran = threading.Event()
    tb_stream.current_stream().add_callback(ran.set)
    assert ran.wait(20)
    [received] = caught(torch.accelerator.synchronize)
    assert received.filename == __file__


# ---- warnings of operators -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["std", "var", "std_mean", "var_mean", "nn.functional.kl_div", "index_reduce", "chalf"]
)
def test_operators_warn_as_on_the_cpu(name: str) -> None:
    entry = next(entry for entry in op_db if entry.name == name)

    def warnings_on(device: str) -> set[tuple[type[Warning], str]]:
        def run() -> None:
            for sample in entry.sample_inputs(device, torch.float32):  # type: ignore[no-untyped-call]
                entry(sample.input, *sample.args, **sample.kwargs)
            torch.accelerator.synchronize()

        return {(warning.category, str(warning.message)) for warning in caught(run)}

    always = torch.is_warn_always_enabled()
    torch.set_warn_always(True)  # otherwise PyTorch would not repeat on tb a warning that it gave on the CPU
    try:
        stock = warnings_on("cpu")
        assert stock
        assert warnings_on("tb") == stock
    finally:
        torch.set_warn_always(always)
