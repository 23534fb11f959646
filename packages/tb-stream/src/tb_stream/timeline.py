"""A timeline of streams, for people."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ._core import _start_trace, _stop_trace, synchronize


@contextmanager
def trace(path: str | os.PathLike[str]) -> Iterator[None]:
    """Write what streams do inside the block to a file that chrome://tracing and https://ui.perfetto.dev open.

    Rows: threads of the host with what they queue ("launch") and wait for ("wait"), streams with what runs ("run",
    waits for other streams included), and arrows from the one to the other. Work is named as its kernel is. At the end
    of the block all devices are waited for. One timeline at a time: FailedPreconditionError. It costs some 0.2
    microseconds an operation, and work other than closures two calls of the host.
    """
    import tb_device  # not earlier: the package says what to install where it is missing

    file = Path(path)
    file.touch()  # fails now, not after the work
    _start_trace()
    try:
        yield
        import tb_device  # not at the top: without it, tb_stream's import is to say what to install

        for device in range(tb_device.device_count()):
            synchronize(device)
    finally:
        file.write_bytes(_stop_trace())
