"""The names of torch.tb: those that it shares with torch.cuda and torch.xpu take the same arguments."""

import importlib
import inspect

import torch
import torch.cuda.memory
import torch.xpu.memory


def public_names() -> set[str]:
    modules = (torch.cuda, torch.cuda.memory, torch.xpu, torch.xpu.memory)
    return {name for module in modules for name in module.__all__}


def test_functions_take_the_arguments_of_their_models() -> None:
    """A call that names its arguments, as torch.cuda's documentation does, works on tb."""
    differing = {}
    for name in sorted(public_names()):
        ours = getattr(torch.tb, name, None)
        model = getattr(torch.cuda, name, None) or getattr(torch.xpu, name, None)
        if not inspect.isfunction(ours) or not inspect.isfunction(model):
            continue
        missing = set(inspect.signature(model).parameters) - set(inspect.signature(ours).parameters)
        if missing:
            differing[name] = missing
    assert not differing


def test_all_names_exist_and_all_existing_ones_are_named() -> None:
    assert not [name for name in torch.tb.__all__ if not hasattr(torch.tb, name)]
    functions = {
        name
        for name, value in vars(torch.tb).items()
        if not name.startswith("_") and (inspect.isfunction(value) or inspect.isclass(value))
    }
    assert not functions - set(torch.tb.__all__)


def test_parts_of_torch_tb_are_imported_once() -> None:
    for name in ("amp", "memory", "random", "streams"):
        assert importlib.import_module(f"torch.tb.{name}") is getattr(torch.tb, name)


def test_exceptions_are_pytorchs_own() -> None:
    assert torch.tb.OutOfMemoryError is torch.OutOfMemoryError
    assert torch.tb.AcceleratorError is torch.AcceleratorError
