"""A timeline of streams."""

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ._core import _Timeline, synchronize


@contextmanager
def trace(path: str | os.PathLike[str]) -> Iterator[None]:
    """Context manager: write a timeline of the block to a file that chrome://tracing and https://ui.perfetto.dev open.

    Threads of the host are rows with what they queue ("launch") and wait for ("wait"). Streams are rows with what runs
    ("run"), waits for other streams included. Arrows connect a launch with its run. Work has the name of its kernel;
    a replay of a graph contains the graph's kernels. Timelines may overlap each other and torch.profiler. All devices
    are synchronized at the end of the block. A timeline costs some 0.2 microseconds an operation, and two host calls
    for work other than closures. OSError: the file cannot be written.
    """
    file = Path(path)
    file.touch()  # an OSError comes before the work
    timeline = _Timeline()
    try:
        yield
        import tb_device  # not at the top: without tb-device, the import of tb_stream says what to install

        for device in range(tb_device.device_count()):
            synchronize(device)
    finally:
        file.write_bytes(timeline.stop())
