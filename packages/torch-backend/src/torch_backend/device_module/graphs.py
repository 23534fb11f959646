"""torch.tb: device graphs, with the names of torch.cuda.graphs. A replay needs neither Python nor the dispatcher."""

from types import TracebackType
from typing import Any, Literal

import torch
from torch.optim.optimizer import register_optimizer_step_pre_hook

from torch_backend import _state
from torch_backend.device_module.devices import synchronize
from torch_backend.device_module.memory import empty_cache, empty_host_cache
from torch_backend.device_module.streams import Stream, StreamContext

Pool = tuple[int, int]
CaptureErrorMode = Literal["default", "global", "thread_local", "relaxed"]


def is_current_stream_capturing() -> bool:
    """Whether this thread's current stream takes part in a capture. Does not initialize tb."""
    if not _state.is_initialized():
        return False
    import tb_stream

    return tb_stream.is_current_stream_capturing()


def graph_pool_handle() -> Pool:
    """A new memory pool that several graphs can share, for the argument `pool` of a capture."""
    import tb_stream

    return tb_stream.graph_pool_handle(), 0


class Graph(torch.accelerator.Graph):
    """Captured work and its memory. `with torch.tb.graph(g):` captures; `g.replay()` queues all of it again.

    keep_graph: the graph is instantiated by instantiate() or the first replay(), and not at the end of the capture. The
    error modes of capture_begin() have no effect: waiting for a stream that captures, or for its device, always raises,
    and other streams are not affected. Follows torch.cuda.CUDAGraph.
    """

    def capture_begin(self, pool: Pool | None = None, capture_error_mode: CaptureErrorMode | None = None) -> None:
        """Captures the work that is queued on the current stream until capture_end().

        pool: see graph(). RuntimeError: the stream is a default stream or captures already.
        """
        if pool is not None:
            self.graph_pool = pool
        if capture_error_mode is not None:
            self.capture_error_mode = capture_error_mode
        super().capture_begin()


class graph:
    """Context manager: captures the work queued inside the block into `tb_graph`. Follows torch.cuda.graph.

    pool: the pool of another graph (`Graph.pool()`), or graph_pool_handle(), whose memory is shared. Graphs of one pool
    must be replayed in the order of their captures, and never at once. stream: current inside the block; by default one
    stream that all captures share. capture_error_mode: has no effect, see Graph.

    RuntimeError: an operator inside would wait for the device, or an optimizer keeps its state on the host. Run the
    same work a few times before the capture, since operators wait once for new types or shapes.
    """

    default_capture_stream: Stream | None = None

    def __init__(
        self,
        tb_graph: torch.accelerator.Graph,
        pool: Pool | None = None,
        stream: torch.Stream | None = None,
        capture_error_mode: CaptureErrorMode = "global",
    ) -> None:
        if stream is None:
            if graph.default_capture_stream is None:
                graph.default_capture_stream = Stream()
            stream = graph.default_capture_stream
        self.tb_graph = tb_graph
        if pool is not None:
            tb_graph.graph_pool = pool
        tb_graph.capture_error_mode = capture_error_mode
        self.capture_stream = stream
        self._context = StreamContext(stream)
        self._hook: Any = None

    def __enter__(self) -> None:
        synchronize(self.capture_stream.device)
        empty_cache()
        empty_host_cache()
        self._context.__enter__()
        try:
            self.tb_graph.capture_begin()
        except BaseException:
            self._context.__exit__(None, None, None)
            raise
        self._hook = register_optimizer_step_pre_hook(_check_optimizer)

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._hook.remove()
        try:
            if kind is None:
                self.tb_graph.capture_end()
            else:
                self.tb_graph.reset()  # an incomplete capture cannot be replayed
        finally:
            self._context.__exit__(kind, value, traceback)


# PyTorch checks `capturable` after this hook: older versions on CUDA and XPU only, newer ones on every accelerator.
def _check_optimizer(optimizer: torch.optim.Optimizer, *_: object) -> None:
    for group in optimizer.param_groups:
        if "capturable" in group and not (group["capturable"] or group.get("fused")):
            raise RuntimeError(
                f"{type(optimizer).__name__}.step() inside a capture: it counts its steps on the host, which a replay "
                "does not do. Make it with capturable=True"
            )
