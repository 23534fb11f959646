"""PyTorch's graph front ends for tb devices: `torch.compile(model, backend="tb")`, on one native executor.

PyTorch finds the backend by its entry point; nothing needs to be imported. This module has `step`, and functions that
report what became of compiled graphs.
"""

import torch

from ._build import VERSION, extension_folder

# This comes before the imports of _core, which is in the folder of this torch.
__path__.insert(0, extension_folder(torch.__version__))

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
