"""tools/building/stubgen.py writes stubs of nanobind modules that a type checker can use."""

from __future__ import annotations

import ast
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PACKAGES = sorted(p.parent.name for p in (ROOT / "packages").glob("*/pyproject.toml") if "nanobind" in p.read_text())


def stub(module: str, folder: pathlib.Path) -> str:
    program = ROOT / "tools" / "building" / "stubgen.py"
    command = [sys.executable, str(program), "--exit-code", "-o", str(folder), module]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder.joinpath(*module.split(".")).with_suffix(".pyi").read_text()


@pytest.fixture(scope="module")
def device_stub(tmp_path_factory: pytest.TempPathFactory) -> ast.Module:
    return ast.parse(stub("tb_device._core", tmp_path_factory.mktemp("stubs")))


def test_functions_are_functions_with_types(device_stub: ast.Module) -> None:
    functions = [node for node in device_stub.body if isinstance(node, ast.FunctionDef)]
    assert functions
    assert all(function.returns is not None for function in functions)
    assert "nb_func" not in ast.dump(device_stub)


def test_classes_have_no_empty_new(device_stub: ast.Module) -> None:
    assert "__new__" not in ast.dump(device_stub)


@pytest.mark.parametrize("package", PACKAGES)
def test_the_committed_stub_of_an_extension_parses(package: str) -> None:
    path = ROOT / "packages" / package / "src" / package.replace("-", "_") / "_core.pyi"
    assert ast.parse(path.read_text()).body
