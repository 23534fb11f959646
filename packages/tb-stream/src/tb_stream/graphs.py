"""Capturing the work of a stream into a graph."""

from collections.abc import Iterator
from contextlib import contextmanager

from ._core import Graph, Stream, _is_capturing, current_stream, default_stream


@contextmanager
def capture(stream: Stream | None = None, *, pool: Graph | int | None = None) -> Iterator[Graph]:
    """Context manager: capture what is queued inside the block, instead of running it. Yields the graph.

    stream: the stream to capture, which is current inside the block. Streams that wait for its events join the capture.
    By default the current stream is captured; the default stream cannot be, and a stream of the pool is used instead.
    pool: a graph, or the number of its pool, whose memory this graph shares. Graphs of one pool must be replayed in the
    order of their captures.

    The graph is complete when the block ends. If the block raises, the captured work is dropped. NotImplementedError:
    the driver cannot capture. FailedPreconditionError: the stream captures already, something inside waits for captured
    work, or the stream does not wait for a stream that joined.
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
