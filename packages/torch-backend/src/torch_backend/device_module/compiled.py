"""torch.tb: what torch.compile made of graphs for the device. tb-compile keeps the books."""

from __future__ import annotations

from typing import Any


def compiled_graphs() -> Any:
    """How many compiled graphs became programs, generated kernels or Python code, and what device graphs they have.

    Numbers named programs, of_kernels, of_python, captures, launches, refusals: tb_compile.graphs() has each graph,
    with the reasons. Opens no device.
    """
    import tb_compile

    return tb_compile.counts()
