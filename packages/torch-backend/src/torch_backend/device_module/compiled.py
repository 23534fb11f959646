"""torch.tb: counts of the graphs that torch.compile made for the device, from tb-compile."""

from __future__ import annotations

from typing import Any


def compiled_graphs() -> Any:
    """How many compiled graphs became programs, generated kernels or Python code, and how often device graphs.

    Returns a tb_compile.Counts: programs, of_kernels, of_python, captures, launches, refusals. tb_compile.graphs() has
    each graph with the reasons. Opens no device.
    """
    import tb_compile

    return tb_compile.counts()
