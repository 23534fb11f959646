"""Several threads of one process that call collectives."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import torch
import torch.distributed as dist

from distributed.cases import Cases, Places, run

CASES = Cases()
ROUNDS = 300


def together(*functions: Callable[[], None]) -> None:
    """Runs the functions in threads. AssertionError: one raised, or is not done after a minute."""
    errors: list[str] = []

    def caught(function: Callable[[], None]) -> None:
        try:
            function()
        except Exception as error:
            errors.append(f"{type(error).__name__}: {error}")

    threads = [threading.Thread(target=caught, args=(function,), daemon=True) for function in functions]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    assert not errors, errors
    assert not any(thread.is_alive() for thread in threads), "a thread hangs"


def exchange(places: Places, stream: torch.Stream | None) -> None:
    """One thread sends and one receives, in one group, on one stream.

    A rank sends its message before it waits for the other's, as on any device: else both streams would wait.
    """
    other, group = (places.tb.rank + 1) % 2, places.tb.group
    sent = [threading.Event() for _ in range(ROUNDS)]
    sending: list[Any] = []
    received: list[torch.Tensor] = []

    def send() -> None:
        with stream or torch.accelerator.current_stream():
            for turn in range(ROUNDS):
                sending.append(dist.isend(torch.full((64,), float(turn), device="tb"), other, group=group))
                sent[turn].set()

    def receive() -> None:
        with stream or torch.accelerator.current_stream():
            for turn in range(ROUNDS):
                x = torch.empty(64, device="tb")
                sent[turn].wait(60)
                work = dist.irecv(x, other, group=group)
                assert work is not None
                work.wait()
                received.append(x + 0)

    together(send, receive)
    for work in sending:
        work.wait()
    torch.accelerator.synchronize()
    wrong = [turn for turn, x in enumerate(received) if not bool((x.cpu() == turn).all())]
    assert len(received) == ROUNDS, len(received)
    assert not wrong, f"wrong at {wrong[:10]}"


@CASES
def send_and_receive_on_one_stream(places: Places) -> None:
    exchange(places, torch.Stream(device="tb"))


@CASES
def send_and_receive_on_the_default_stream(places: Places) -> None:
    exchange(places, None)


@CASES
def two_groups(places: Places) -> None:
    """Each thread has a group and a stream of its own. The threads of the ranks run at other times."""
    groups = [dist.new_group(), dist.new_group()]

    def calls(group: dist.ProcessGroup, first: float) -> None:
        with torch.Stream(device="tb"):
            for turn in range(ROUNDS):
                x = torch.full((64,), first + turn, device="tb")
                dist.all_reduce(x, group=group)
                if turn % 50 == 0:
                    assert float(x[0]) == 2 * (first + turn), f"turn {turn}: {x[0]}"

    together(lambda: calls(groups[0], 0.0), lambda: calls(groups[1], 1000.0))
    for group in groups:
        dist.destroy_process_group(group)


@CASES
def the_waiting_thread_lets_others_run(places: Places) -> int:
    """How far another thread of Python counts while the host waits for a rank that is late."""
    counted, done = 0, threading.Event()

    def count() -> None:
        nonlocal counted
        while not done.wait(0.001):
            counted += 1

    thread = threading.Thread(target=count)
    thread.start()
    x = torch.ones(8, device="tb")
    if places.tb.rank == 1:
        threading.Event().wait(0.5)
    dist.all_reduce(x, group=places.tb.group)
    assert float(x[0]) == places.tb.size
    done.set()
    thread.join()
    return counted


if __name__ == "__main__":
    run(CASES)
