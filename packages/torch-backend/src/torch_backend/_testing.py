"""A gate for tests, which keeps a stream busy until the test opens it."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from pathlib import Path

import tb_stream
import torch

from torch_backend.device_module import streams

_LOOK = 0.01  # seconds between two looks at a thread that may be asleep


class Gate:
    """The work that stops a stream. `held` makes it."""

    def __init__(self, seconds: float) -> None:
        self.seconds = seconds
        self.timed_out = False
        self._reached = threading.Event()
        self._opened = threading.Event()

    def open(self) -> None:
        """Lets the stream go on. Further calls do nothing."""
        self._opened.set()

    def open_once_this_thread_waits(self) -> None:
        """Lets the stream go on as soon as the calling thread sleeps in a wait, such as torch.tb.synchronize().

        For kernels that are to run while the host waits. A thread counts as asleep if the system has not run it between
        two looks at it: one that waits for Python's lock wakes every 5 ms.
        """
        waiting = Path(f"/proc/self/task/{threading.get_native_id()}/status")
        threading.Thread(target=self._open_once_asleep, args=(waiting,), daemon=True).start()

    def _open_once_asleep(self, thread: Path) -> None:
        before: list[str] = []
        while not self._opened.wait(_LOOK):
            try:
                lines = thread.read_text().splitlines()
            except OSError:  # the thread has ended
                self.open()
                return
            now = [line for line in lines if line.startswith(("State:", "voluntary", "nonvoluntary"))]
            if now == before and "S (sleeping)" in now[0]:
                self.open()
            before = now

    def stop_the_stream(self) -> None:
        """Sleeps until the gate is open. A callback of the stream: it runs on a thread of the driver."""
        self._reached.set()
        self.timed_out = not self._opened.wait(self.seconds)


@contextlib.contextmanager
def held(stream: torch.Stream | None = None, *, seconds: float = 20.0) -> Iterator[Gate]:
    """Stops a stream, the current one if None, at what is queued so far, until the gate is opened or the block is left.

    The stream has reached the gate when the block begins, and is let go however the block ends. Raises TimeoutError if
    the stream does not reach the gate, or if the gate was still closed after so many seconds: then the block waited for
    the stream that it held. A capture cannot hold a gate.
    """
    gate = Gate(seconds)
    late = (
        f"the gate opened by itself after {seconds:g} s, before its block ended: the block waited for the stream that "
        "it holds. Call open() or open_once_this_thread_waits() before such a wait. The first call of an operator with "
        "new types waits too: make one before the gate"
    )
    with streams.stream(stream):
        tb_stream.current_stream().add_callback(gate.stop_the_stream)
    try:
        if not gate._reached.wait(seconds):
            raise TimeoutError(
                f"the stream did not reach the gate in {seconds:g} s: earlier work of it still runs, or it is captured"
            )
        yield gate
    except BaseException as error:
        if gate.timed_out:
            error.add_note(late)
        raise
    finally:
        gate.open()
    if gate.timed_out:
        raise TimeoutError(late)
