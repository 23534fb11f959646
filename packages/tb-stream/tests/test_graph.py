"""Graphs: work captured once and launched many times."""

from __future__ import annotations

import ctypes
import threading

import pytest
import tb_device
import tb_stream
from conftest import Export, Python, Work
from tb_device import FailedPreconditionError


def test_captured_work_runs_at_each_replay_and_not_before(work: Work) -> None:
    log: list[int] = []
    with tb_stream.capture() as graph:
        stream = tb_stream.current_stream()
        assert stream != tb_stream.default_stream()
        assert tb_stream.is_current_stream_capturing()
        for number in range(3):
            work.call(stream, lambda number=number: log.append(number))
    assert not tb_stream.is_current_stream_capturing()
    tb_stream.synchronize()
    assert (graph.node_count, graph.device, log) == (3, 0, [])
    for _ in range(4):
        graph.replay()
    tb_stream.synchronize()
    assert log == [0, 1, 2] * 4


def test_replays_on_several_streams_come_one_after_another(work: Work) -> None:
    log: list[str] = []
    begun, gate = threading.Event(), threading.Event()
    with tb_stream.capture() as graph:
        work.call(tb_stream.current_stream(), lambda: (log.append("begin"), begun.set(), gate.wait(20)))
        work.call(tb_stream.current_stream(), lambda: log.append("end"))
    for stream in [tb_stream.Stream() for _ in range(3)]:
        graph.replay(stream)
    assert begun.wait(20)
    gate.set()
    tb_stream.synchronize()
    assert log == ["begin", "end"] * 3


def test_streams_that_wait_for_captured_work_join(work: Work) -> None:
    log: list[str] = []
    other = tb_stream.Stream()
    with tb_stream.capture() as graph:
        first = tb_stream.current_stream()
        work.call(first, lambda: log.append("fork"))
        other.wait_stream(first)
        with other:
            assert tb_stream.is_current_stream_capturing()
        work.call(other, lambda: log.append("aside"))
        first.wait_stream(other)
        work.call(first, lambda: log.append("join"))
    work.call(other, lambda: log.append("free again"))
    other.synchronize()
    assert log == ["free again"]
    graph.replay()
    tb_stream.synchronize()
    assert log[1:] == ["fork", "aside", "join"]


def test_a_stream_that_joined_must_be_waited_for(work: Work) -> None:
    other = tb_stream.Stream()

    def unjoined() -> None:
        with tb_stream.capture():
            other.wait_stream(tb_stream.current_stream())
            work.call(other, lambda: None)

    with pytest.raises(FailedPreconditionError, match="joined the capture was not waited for"):
        unjoined()
    with tb_stream.capture(other) as graph:  # neither stream captures any more
        work.call(other, lambda: None)
    assert graph.node_count == 1


def test_an_error_inside_drops_the_capture(work: Work) -> None:
    log: list[int] = []
    stream = tb_stream.Stream()
    graphs = []

    def failing() -> None:
        with tb_stream.capture(stream) as graph:
            graphs.append(graph)
            work.call(stream, lambda: log.append(1))
            raise KeyError

    with pytest.raises(KeyError):
        failing()
    (graph,) = graphs
    assert graph.device is None
    with pytest.raises(FailedPreconditionError, match="holds no captured work"):
        graph.replay()
    work.call(stream, lambda: log.append(2))
    stream.synchronize()
    assert log == [2]


def test_calls_that_cannot_be_captured_raise_the_reason(work: Work) -> None:
    with (
        pytest.raises(FailedPreconditionError, match="default stream cannot capture"),
        tb_stream.capture(tb_stream.default_stream()),
    ):
        pass
    with pytest.raises(FailedPreconditionError, match="captures, so its work has not begun"), tb_stream.capture():
        tb_stream.current_stream().synchronize()
    with tb_stream.capture() as graph:
        work.call(tb_stream.current_stream(), lambda: None)
    with pytest.raises(NotImplementedError, match="cannot be captured in a graph"), tb_stream.capture():
        graph.replay()
    with pytest.raises(FailedPreconditionError, match="holds captured work already"):
        graph._begin(tb_stream.Stream(), None)


def test_update_takes_over_other_work_of_the_same_shape(work: Work) -> None:
    log: list[str] = []

    def captured(name: str, count: int) -> tb_stream.Graph:
        with tb_stream.capture() as graph:
            for _ in range(count):
                work.call(tb_stream.current_stream(), lambda: log.append(name))
        return graph

    graph, same, longer = captured("a", 2), captured("b", 2), captured("c", 3)
    graph.replay()
    graph.update(same)
    graph.replay()
    del same  # the updated graph keeps the work
    graph.replay()
    with pytest.raises(FailedPreconditionError, match="2 nodes and the graph 3"):
        graph.update(longer)
    graph.replay()
    tb_stream.synchronize()
    assert log == ["a", "a", "b", "b", "b", "b", "b", "b"]


def test_queued_replays_outlive_the_graph(work: Work) -> None:
    log: list[int] = []
    stream = tb_stream.Stream()
    with tb_stream.capture() as graph:
        work.call(tb_stream.current_stream(), lambda: log.append(1))
    gate = work.hold(stream)
    graph.replay(stream)
    graph.reset()
    del graph
    gate.set()
    stream.synchronize()
    assert log == [1]


def test_a_failing_node_is_reported_at_the_next_synchronise(work: Work) -> None:
    with tb_stream.capture() as graph:
        work.fail(tb_stream.current_stream(), b"captured_work")
    graph.replay()
    with pytest.raises(tb_device.Error, match="captured_work"):
        tb_stream.synchronize()
    graph.replay()
    with pytest.raises(tb_device.Error, match="captured_work"):
        tb_stream.synchronize()


def test_closures_of_a_graph_see_that_no_host_produces_its_work(work: Work) -> None:
    waiters: list[int] = []

    def run(context: int) -> int:
        waiters.append(ctypes.c_uint32.from_address(context + 16).value)  # tb_closure_context.waiters
        return 0

    with tb_stream.capture() as graph:
        work.closure(tb_stream.current_stream(), b"look", run)
    graph.replay()
    tb_stream.synchronize()
    work.closure(tb_stream.current_stream(), b"look", run)
    tb_stream.synchronize()
    assert waiters[0] == 2**32 - 1
    assert waiters[1] < 2


def test_pools_have_numbers_that_captures_share(work: Work) -> None:
    with tb_stream.capture() as first:
        pass
    with tb_stream.capture(pool=first) as second:
        pass
    number = tb_stream.graph_pool_handle()
    with tb_stream.capture(pool=number) as third:
        pass
    assert first.pool == second.pool
    assert third.pool == number != first.pool


BEGIN = ctypes.CFUNCTYPE(
    ctypes.c_int32, ctypes.c_int32, ctypes.c_void_p, ctypes.c_uint64, ctypes.POINTER(ctypes.c_void_p)
)
END = ctypes.CFUNCTYPE(None, ctypes.c_void_p)
LAUNCH = ctypes.CFUNCTYPE(ctypes.c_int32, ctypes.c_void_p, ctypes.c_void_p)


class Part(ctypes.Structure):
    _fields_ = (
        ("struct_size", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
        ("component", ctypes.c_char_p),
        ("begin", BEGIN),
        ("end", END),
        ("launch", LAUNCH),
        ("destroy", END),
    )


class Recorder:
    """A component that takes part in captures and notes its calls."""

    def __init__(self, export: Export) -> None:
        self.log: list[object] = []
        self.status = 0
        self.table = export.table.contents
        self.part = Part(
            ctypes.sizeof(Part),
            0,
            b"test",
            BEGIN(self._begin),
            END(lambda part: self.log.append(("end", part))),
            LAUNCH(lambda part, _stream: self.log.append(("launch", part)) or self.status),
            END(lambda part: self.log.append(("destroy", part))),
        )
        assert self.table.add_capture_part(ctypes.byref(self.part)) == 0

    def _begin(self, device: int, _stream: int, _pool: int, out: ctypes._Pointer[ctypes.c_void_p]) -> int:
        out[0] = ctypes.c_void_p(7)
        self.log.append(("begin", device))
        return self.status

    def part_of(self, stream: tb_stream.Stream) -> int | None:
        found = ctypes.c_void_p()
        assert self.table.capture_part(stream.handle, ctypes.byref(self.part), ctypes.byref(found)) == 0
        return found.value


RECORDERS: list[Recorder] = []  # at most one, because a component cannot be removed


@pytest.fixture
def recorder(export: Export) -> Recorder:
    if not RECORDERS:
        RECORDERS.append(Recorder(export))
    RECORDERS[0].log.clear()
    RECORDERS[0].status = 0
    return RECORDERS[0]


def test_a_component_takes_part_in_captures_and_replays(recorder: Recorder, work: Work) -> None:
    other = tb_stream.Stream()
    with tb_stream.capture() as graph:
        first = tb_stream.current_stream()
        assert recorder.part_of(first) == 7
        assert recorder.part_of(other) is None
        other.wait_stream(first)
        assert recorder.part_of(other) == 7  # `other` has joined the capture
        first.wait_stream(other)
    assert recorder.part_of(first) is None
    assert recorder.log == [("begin", 0), ("end", 7)]
    graph.replay()
    graph.replay()
    graph.reset()
    assert recorder.log[2:] == [("launch", 7), ("launch", 7), ("destroy", 7)]


def test_a_component_that_fails_fails_the_call(recorder: Recorder, work: Work) -> None:
    log: list[int] = []
    with tb_stream.capture() as graph:
        work.call(tb_stream.current_stream(), lambda: log.append(1))
    recorder.status = 14
    with pytest.raises(tb_device.Error):
        graph.replay()
    with pytest.raises(tb_device.Error), tb_stream.capture():
        raise AssertionError("never begun")
    recorder.status = 0
    tb_stream.synchronize()
    assert log == []
    graph.replay()
    tb_stream.synchronize()
    assert log == [1]


def test_graphs_alive_at_the_end_of_the_process_are_no_leak(python: Python) -> None:
    code = """
    import tb_stream
    with tb_stream.capture() as graph:
        pass
    graph.replay()
    kept = [graph, tb_stream.Graph()]
    """
    assert python.output(code, TB_LAYERS="leak", TB_LOG="warning", TB_DRIVER="cpu") == ""


def test_ten_thousand_replays_leak_nothing(python: Python) -> None:
    code = """
    import resource, tb_stream
    def run(count):
        for _ in range(count):
            graph.replay()
        tb_stream.synchronize()
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    with tb_stream.capture() as graph:
        pass
    before = run(1000)
    print(run(10000) - before)
    """
    assert int(python.output(code)) < 1024  # KiB


def test_a_driver_without_graphs_is_named(python: Python) -> None:
    code = """
    import tb_stream
    try:
        with tb_stream.capture():
            pass
    except NotImplementedError as error:
        print("tb.graph" in str(error))
    """
    assert python.output(code, TB_DRIVER="sim") == "True"


def test_a_forked_child_is_refused(python: Python) -> None:
    code = """
    import os, tb_stream, warnings
    with tb_stream.capture() as graph:
        pass
    graph.replay()
    warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12 and later warn of a fork beside threads
    if os.fork() == 0:
        try:
            graph.replay()
        except Exception as error:
            print("fork" in str(error), flush=True)
        os._exit(0)
    os.wait()
    """
    assert python.output(code) == "True"
