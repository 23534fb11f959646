"""Registers tb with PyTorch's compilers when they are imported, so that `torch.compile(model)` needs nothing else."""

from __future__ import annotations

import importlib
import warnings

from torch_backend._after_import import after_import


def introduce() -> None:
    """Called at the import of torch_backend. It imports nothing in a process that compiles nothing."""
    after_import("torch._dynamo", lambda: _call("tb_compile.dynamo", "register"))
    after_import("torch._inductor.compile_fx", lambda: _call("tb_compile.inductor.backend", "register"))
    after_import("torch._subclasses.fake_impls", lambda: _call("torch_backend._fake_convolutions", "follow_the_cpu"))
    after_import("torch.nn.attention.flex_attention", lambda: _call("tb_compile.flex_attention", "allow"))


def _call(module: str, function: str) -> None:
    try:
        getattr(importlib.import_module(module), function)()
    except Exception as error:  # a program that compiles for the CPU must not fail
        warnings.warn(f"torch.compile does not know device tb: {error}", RuntimeWarning, stacklevel=2)
