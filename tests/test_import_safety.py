"""`import torch` never fails because of tb; what is wrong is said when tb is used."""

from __future__ import annotations

import pathlib
import subprocess

import pytest
from conftest import RunPython

USE = 'import torch\nprint("imported")\ntorch.ones(3, device="tb")\n'


def assert_import_works_and_use_says(done: subprocess.CompletedProcess[str], *words: str) -> None:
    assert "imported" in done.stdout, done.stderr
    assert done.returncode != 0, "using tb should have failed"
    assert done.stderr.count("Traceback (most recent call last)") >= 1
    for word in words:
        assert word in done.stderr, f"{word!r} is not in:\n{done.stderr}"
    assert "Error: torch.device('tb') cannot be used: " in done.stderr, done.stderr


def test_a_driver_that_is_not_there(run_python: RunPython, tmp_path: pathlib.Path) -> None:
    missing = tmp_path / "missing.so"
    done = run_python(USE, {"TB_DRIVER": str(missing)}, check=False)
    assert_import_works_and_use_says(done, str(missing))


def test_a_driver_name_that_nobody_offers(run_python: RunPython) -> None:
    done = run_python(USE, {"TB_DRIVER": "nosuchchip"}, check=False)
    assert_import_works_and_use_says(done, "nosuchchip")


def test_a_driver_library_that_is_garbage(run_python: RunPython, tmp_path: pathlib.Path) -> None:
    broken = tmp_path / "broken.so"
    broken.write_text("not a library")
    done = run_python(USE, {"TB_DRIVER": str(broken)}, check=False)
    assert_import_works_and_use_says(done, str(broken))


def test_a_library_without_the_entry_function(run_python: RunPython, tmp_path: pathlib.Path) -> None:
    source, library = tmp_path / "empty.c", tmp_path / "empty.so"
    source.write_text("int unrelated(void) { return 0; }\n")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    done = run_python(USE, {"TB_DRIVER": str(library)}, check=False)
    assert_import_works_and_use_says(done, str(library), "tb_driver_open_v1")


def test_without_a_usable_driver_tb_is_not_available_and_the_cpu_works(
    run_python: RunPython, tmp_path: pathlib.Path
) -> None:
    code = """
        import torch
        assert not torch.tb.is_available()
        assert torch.tb.device_count() == 0
        assert (torch.ones(3) + 1).tolist() == [2.0, 2.0, 2.0]
    """
    run_python(code, {"TB_DRIVER": str(tmp_path / "missing.so")})


def test_import_torch_prints_nothing(run_python: RunPython, tmp_path: pathlib.Path) -> None:
    for driver in ("cpu", str(tmp_path / "missing.so")):
        done = run_python("import torch", {"TB_DRIVER": driver})
        assert (done.stdout, done.stderr) == ("", "")


def test_another_torch_minor_is_named_when_tb_is_used(run_python: RunPython, tmp_path: pathlib.Path) -> None:
    # Python runs sitecustomize before anything else: here it makes torch say that it is another version.
    (tmp_path / "sitecustomize.py").write_text(
        "import importlib.abc, importlib.machinery, sys\n"
        "class Finder(importlib.abc.MetaPathFinder):\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name != 'torch.version': return None\n"
        "        spec = importlib.machinery.PathFinder.find_spec(name, path)\n"
        "        run = spec.loader.exec_module\n"
        "        def exec_module(module):\n"
        "            run(module)\n"
        "            module.__version__ = '2.99.0'\n"
        "        spec.loader.exec_module = exec_module\n"
        "        return spec\n"
        "sys.meta_path.insert(0, Finder())\n"
    )
    done = run_python(USE, {"PYTHONPATH": str(tmp_path)}, check=False)
    assert_import_works_and_use_says(done, "2.99", "2.13", "pip install")


@pytest.mark.parametrize("order", ["import torch, torch_backend", "import torch_backend, torch"])
@pytest.mark.parametrize("autoload", ["0", "1"])
def test_explicit_import_works_in_either_order(run_python: RunPython, order: str, autoload: str) -> None:
    code = f"{order}\nprint((torch.ones(3, device='tb') + 1).tolist())"
    done = run_python(code, {"TORCH_DEVICE_BACKEND_AUTOLOAD": autoload})
    assert done.stdout.strip() == "[2.0, 2.0, 2.0]"


@pytest.mark.parametrize("order", ["import torch, torch_backend", "import torch_backend, torch"])
def test_explicit_import_with_a_broken_driver_fails_only_at_use(
    run_python: RunPython, order: str, tmp_path: pathlib.Path
) -> None:
    missing = tmp_path / "missing.so"
    code = f"{order}\nprint('imported')\ntorch.ones(3, device='tb')"
    done = run_python(code, {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0", "TB_DRIVER": str(missing)}, check=False)
    assert_import_works_and_use_says(done, str(missing))


def test_import_opens_no_driver_and_starts_no_thread(run_python: RunPython) -> None:
    code = """
        import os, torch
        before = len(os.listdir("/proc/self/task"))
        assert torch.tb.is_available()
        print(before, len(os.listdir("/proc/self/task")), torch.tb.is_initialized())
        torch.ones(3, device="tb")
        assert torch.tb.is_initialized()
    """
    before, after, initialized = run_python(code).stdout.split()
    assert initialized == "False"
    assert after == before
