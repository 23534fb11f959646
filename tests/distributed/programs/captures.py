"""Collectives in and around captures, and in the mode that refuses waits of the host."""

from __future__ import annotations

import torch
import torch.distributed as dist

from distributed.cases import Cases, Places, run

CASES = Cases()


def reduced(places: Places) -> float:
    """The group still works."""
    x = torch.ones(100, device="tb")
    dist.all_reduce(x, group=places.tb.group)
    return float(x[0])


@CASES
def call_inside(places: Places) -> tuple[str, float]:
    """The text with which a call is refused, and what the group's next call gives."""
    graph, x, text = torch.tb.Graph(), torch.ones(100, device="tb"), ""  # type: ignore[attr-defined]
    x * 2  # kernels' first calls wait, which a capture refuses
    torch.accelerator.synchronize()
    try:
        with torch.tb.graph(graph):  # type: ignore[attr-defined]
            y = x * 2
            dist.all_reduce(y, group=places.tb.group)
    except Exception as error:
        text = str(error)
    return text, reduced(places)


@CASES
def call_inside_after_a_dropped_one(places: Places) -> tuple[str, float]:
    dist.all_reduce(torch.ones(100, device="tb"), group=places.tb.group, async_op=True)
    return call_inside(places)


@CASES
def wait_inside(places: Places) -> tuple[float, float]:
    """A call that began before: the replay's result, and the group's next call."""
    x = torch.ones(100, device="tb")
    x + 1
    torch.accelerator.synchronize()
    work = dist.all_reduce(x, group=places.tb.group, async_op=True)
    assert work is not None
    graph = torch.tb.Graph()  # type: ignore[attr-defined]
    with torch.tb.graph(graph):  # type: ignore[attr-defined]
        work.wait()
        z = x + 1
    graph.replay()
    torch.accelerator.synchronize()
    return float(z[0]), reduced(places)


@CASES
def call_on_another_stream(places: Places) -> tuple[float, float]:
    """While a capture goes on: the call's result, and the replay's."""
    side, graph = torch.Stream(device="tb"), torch.tb.Graph()  # type: ignore[attr-defined]
    x, base = torch.ones(100, device="tb"), torch.ones(100, device="tb")
    base * 2
    torch.accelerator.synchronize()
    with torch.tb.graph(graph):  # type: ignore[attr-defined]
        y = base * 2
        with side:
            dist.all_reduce(x, group=places.tb.group)
    side.synchronize()
    graph.replay()
    torch.accelerator.synchronize()
    return float(x[0]), float(y[0])


@CASES
def replay_between_calls(places: Places) -> list[float]:
    """A graph computes what the next call reduces, and uses what the last one gave."""
    x, graph, out = torch.full((100,), 0.5, device="tb"), torch.tb.Graph(), []  # type: ignore[attr-defined]
    x.mul_(2)
    torch.accelerator.synchronize()
    with torch.tb.graph(graph):  # type: ignore[attr-defined]
        x.mul_(2)
    for _ in range(3):
        graph.replay()
        dist.all_reduce(x, group=places.tb.group)
        out.append(float(x[0]))
    return out


@CASES
def no_wait_of_the_host(places: Places) -> float:
    """In the mode in which a wait of the host raises."""
    x = torch.ones(100, device="tb")
    x * 1
    torch.accelerator.synchronize()
    torch.tb.set_sync_debug_mode("error")  # type: ignore[attr-defined]
    try:
        work = dist.all_reduce(x, group=places.tb.group, async_op=True)
        assert work is not None
        work.wait()
        y = x * 1
    finally:
        torch.tb.set_sync_debug_mode("default")  # type: ignore[attr-defined]
    return float(y[0])


if __name__ == "__main__":
    run(CASES)
