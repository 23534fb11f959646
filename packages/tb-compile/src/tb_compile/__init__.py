"""PyTorch's graph front ends for tb devices: `torch.compile(model, backend="tb")`, on one native executor.

PyTorch finds the backend by its entry point; nothing needs to be imported. This module has `step`, and functions that
report what became of compiled graphs.
"""

import torch

from ._build import TORCH_MINOR, VERSION

# This comes before the import of the extension, which may crash with another minor version of torch.
if torch.__version__.split(".")[:2] != TORCH_MINOR.split("."):
    raise ImportError(
        f"tb-compile {VERSION} was built for torch {TORCH_MINOR}, but torch {torch.__version__} is installed: "
        f"pip install 'torch=={TORCH_MINOR}.*' or a tb-compile built for {torch.__version__}"
    )

from .explanation import Explanation, GraphBreak, explain
from .record import CompiledGraph, Counts, counts, graphs, reset
from .step import Step, step

__version__ = VERSION
__all__ = [
    "CompiledGraph",
    "Counts",
    "Explanation",
    "GraphBreak",
    "Step",
    "counts",
    "explain",
    "graphs",
    "reset",
    "step",
]
