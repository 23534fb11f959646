"""Capturing the work of a stream into a graph."""

from collections.abc import Iterator
from contextlib import contextmanager

from ._core import Graph, Stream, _is_capturing, current_stream, default_stream


@contextmanager
def capture(stream: Stream | None = None, *, pool: Graph | int | None = None) -> Iterator[Graph]:
    """Capture what is queued inside the block, instead of running it; gives the graph.

    stream: current inside the block and captured, with those that wait for its events; by default the current stream
    or, where that is the default stream, which cannot be captured, one of the pool. pool: a graph, or the number of
    its pool, whose memory this one shares; they must then be replayed in the order of their captures.

    The graph is complete when the block ends. If the block raises, what was captured is dropped. NotImplementedError:
    the driver cannot capture. FailedPreconditionError: the stream captures already, something inside waits for captured
    work, or a stream that joined was not waited for at the end.
    """
    if stream is None:
        stream = current_stream()
        if stream == default_stream():
            stream = Stream()
    graph = Graph()
    with stream:
        graph._begin(stream, pool.pool if isinstance(pool, Graph) else pool)
        try:
            yield graph
            graph._end()
        except BaseException:
            graph.reset()
            raise


def is_current_stream_capturing() -> bool:
    """Whether this thread's current stream takes part in a capture."""
    return _is_capturing(None)
