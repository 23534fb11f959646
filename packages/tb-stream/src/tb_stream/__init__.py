"""Streams, events and graphs of any tb driver, and the current stream of a thread."""

from collections.abc import Iterator
from contextlib import contextmanager

from ._core import (
    Event,
    Graph,
    Stream,
    _connect,
    current_stream,
    default_stream,
    graph_pool_handle,
    set_current_stream,
    synchronize,
)
from .graphs import capture, is_current_stream_capturing
from .timeline import trace

_connect()


@contextmanager
def stream(stream: Stream | None) -> Iterator[Stream | None]:
    """Context manager and decorator: make ``stream`` and its device current in this thread. None changes nothing."""
    if stream is None:
        yield None
        return
    with stream:
        yield stream


__all__ = [
    "Event",
    "Graph",
    "Stream",
    "capture",
    "current_stream",
    "default_stream",
    "graph_pool_handle",
    "is_current_stream_capturing",
    "set_current_stream",
    "stream",
    "synchronize",
    "trace",
]
