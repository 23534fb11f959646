"""Calls around the imports of modules: torch_backend._after_import."""

from __future__ import annotations

import pathlib
from collections.abc import Callable

import pytest
from conftest import RunPython

Modules = Callable[..., dict[str, str]]


@pytest.fixture
def modules(tmp_path: pathlib.Path) -> Modules:
    """Writes modules and returns the variables with which an interpreter finds them."""

    def write(**texts: str) -> dict[str, str]:
        for name, text in texts.items():
            (tmp_path / f"{name}.py").write_text(text)
        return {"PYTHONPATH": str(tmp_path)}

    return write


def test_functions_are_called_in_order_after_the_module_has_run(run_python: RunPython, modules: Modules) -> None:
    code = """
        import sys, torch
        from torch_backend._after_import import after_import
        seen = []
        after_import("plain", lambda: seen.append(("first", sys.modules["plain"].value)))
        after_import("plain", lambda: seen.append(("second", sys.modules["plain"].value)))
        assert "plain" not in sys.modules
        import plain
        assert seen == [("first", 1), ("second", 1)], seen
        import importlib
        importlib.reload(plain)
        assert len(seen) == 2
    """
    run_python(code, modules(plain="value = 1"))


def test_a_call_after_the_import_comes_at_once(run_python: RunPython, modules: Modules) -> None:
    code = """
        import plain, torch
        from torch_backend._after_import import after_import, before_import
        seen = []
        after_import("plain", lambda: seen.append("after"))
        before_import("plain", lambda: seen.append("before"))
        assert seen == ["after", "before"]
    """
    run_python(code, modules(plain=""))


def test_before_import_is_called_before_the_module_runs(run_python: RunPython, modules: Modules) -> None:
    code = """
        import builtins, torch
        from torch_backend._after_import import after_import, before_import
        builtins.seen = []
        before_import("plain", lambda: seen.append("before"))
        after_import("plain", lambda: seen.append("after"))
        import plain
        assert seen == ["before", "module", "after"], seen
    """
    run_python(code, modules(plain="seen.append('module')"))


def test_a_module_that_is_being_imported_is_called_before_others_take_its_names(
    run_python: RunPython, modules: Modules
) -> None:
    partial = """
import torch
from torch_backend._after_import import after_import
import sys
def change():
    sys.modules["partial"].value = "changed"
after_import("partial", change)
import cycle
value = "original"
"""
    code = """
        from partial import value
        import partial, types
        assert value == "changed", value
        assert type(partial) is types.ModuleType
    """
    run_python(code, modules(partial=partial, cycle="import partial\nassert not hasattr(partial, 'value')"))


def test_a_failed_import_is_followed_by_the_next(run_python: RunPython, modules: Modules) -> None:
    code = """
        import builtins, torch
        from torch_backend._after_import import after_import
        seen = []
        after_import("failing", lambda: seen.append(1))
        builtins.fail = True
        try:
            import failing
        except ZeroDivisionError:
            assert seen == []
        builtins.fail = False
        import failing
        assert seen == [1]
    """
    run_python(code, modules(failing="1 / (not fail)"))


def test_a_module_that_does_not_exist_stays_missing(run_python: RunPython, modules: Modules) -> None:
    code = """
        import torch
        from torch_backend._after_import import after_import
        after_import("missing_module", lambda: None)
        try:
            import missing_module
        except ModuleNotFoundError:
            pass
        else:
            raise AssertionError
    """
    run_python(code, modules())
