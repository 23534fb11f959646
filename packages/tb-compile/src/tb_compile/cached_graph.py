"""A compiled graph that AOTAutograd's cache keeps for other processes.

What is kept is the graph of ATen calls, which took Dynamo and AOTAutograd the time. Another process lowers it to a
program again, for its own device and mode. TORCHINDUCTOR_CACHE_DIR says where PyTorch keeps such entries, and
torch._functorch.config.enable_autograd_cache = False switches the cache off.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import torch
from torch import fx
from torch._functorch import config
from torch._functorch._aot_autograd.autograd_cache import BypassAOTAutogradCache, should_use_local_autograd_cache
from torch._guards import detect_fake_mode
from torch._inductor.output_code import OutputCode
from torch.fx._graph_pickler import GraphPickler, Options

from .record import Pass

Boxed = Callable[[list[Any]], Sequence[Any]]
# A graph, which pass it is, and the examples of its inputs: the function that runs it.
Lower = Callable[[fx.GraphModule, Pass, Sequence[Any]], Boxed]

# Entries of other forms are not taken: raise it where what is kept, or how AOTAutograd is asked to split, changes.
_FORM = 1
_loading = threading.local()


@contextlib.contextmanager
def caching(lower: Lower) -> Iterator[None]:
    """Graphs compiled here are kept, and those that the cache has are lowered with this function."""
    before, _loading.lower = getattr(_loading, "lower", None), lower
    try:
        # An entry has the backward graph too, which is otherwise compiled in the first backward pass.
        with config.patch(bundled_autograd_cache=True, force_non_lazy_backward_lowering=True):
            yield
    finally:
        _loading.lower = before


class CachedGraph(OutputCode):
    """A graph and the function that runs it. A copy that was kept has no function until post_compile()."""

    def __init__(self, graph_module: fx.GraphModule, which: Pass, example_inputs: Sequence[Any], lower: Lower) -> None:
        super().__init__()
        self._boxed_call = True
        self._which = which
        self._form = _FORM
        # At once: lowering writes to the graph, and AOTAutograd empties the graphs that it keeps itself.
        self._kept, self._reason = _kept(graph_module, example_inputs)
        self._run: Boxed | None = lower(graph_module, which, example_inputs)

    def __call__(self, inputs: Sequence[Any]) -> Any:
        assert self._run is not None, "post_compile() of a graph from the cache comes first"
        return self._run(inputs)  # type: ignore[arg-type]

    def prepare_for_serialization(self) -> None:
        """Drops the function: this is a copy. BypassAOTAutogradCache: the graph cannot be kept; it says why."""
        if self._kept is None:
            raise BypassAOTAutogradCache(self._reason)
        self._run = None

    def post_compile(self, example_inputs: Sequence[Any], constants: Any, graph_kwargs: Any) -> None:
        """Lowers a graph from the cache. BypassAOTAutogradCache: it has another form, or nobody compiles."""
        if self._run is not None:
            return
        lower, mode = getattr(_loading, "lower", None), detect_fake_mode(example_inputs)
        if self._form != _FORM or self._kept is None or lower is None or mode is None:
            raise BypassAOTAutogradCache("the entry is not of this version of tb-compile")
        kept: Any = GraphPickler.loads(self._kept, mode)
        graph_module, examples = kept
        graph_module.recompile()
        self._run = lower(graph_module, self._which, examples)

    def set_triton_bundle(self, triton_bundle: Any) -> None:
        """Nothing: programs have no Triton kernels."""


def _kept(graph_module: fx.GraphModule, example_inputs: Sequence[Any]) -> tuple[bytes | None, str]:
    """The graph as bytes, or None and why it cannot be kept."""
    if not should_use_local_autograd_cache():
        return None, "the cache is switched off"
    if any(node.op == "get_attr" for node in graph_module.graph.nodes):
        return None, "the graph has constants"
    try:
        with torch.utils._python_dispatch._disable_current_modes():
            return GraphPickler.dumps((graph_module, list(example_inputs)), Options(ops_filter=None)), ""
    except Exception as error:  # whatever cannot be pickled: the graph is compiled, only not kept
        return None, f"the graph cannot be pickled: {error}"
