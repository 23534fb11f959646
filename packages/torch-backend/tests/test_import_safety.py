"""`import torch` works also if tb cannot be used, and the first use of tb raises the reason."""

import pathlib
import subprocess

import pytest
import torch
from conftest import Script
from fork_server import run_new_interpreter
from torch_backend import _build


@pytest.fixture
def run_script() -> Script:
    """These tests are about what an import does."""
    return run_new_interpreter


WORKS = """
assert torch.ones(2, device="tb").add(1).tolist() == [2, 2]
assert torch.tb.is_available()
"""

# Checks that torch works on the CPU, that queries give an answer, and that each way to use tb raises a text with
# REASON.
BROKEN = """
import os
import pytest
assert torch.ones(2).add(1).tolist() == [2, 2]
x = torch.ones(2, requires_grad=True)
with torch.profiler.profile():
    x.sum().backward()
assert x.grad.tolist() == [1, 1]
torch.manual_seed(0)
torch.tb.synchronize()
assert not torch.tb.is_available()
assert torch.tb.device_count() == 0
assert not torch.tb.is_initialized()
assert not torch.tb._is_in_bad_fork()
for use in (
    lambda: torch.ones(1, device="tb"),
    lambda: torch.ones(1).to("tb"),
    lambda: torch.tb.init(),
    lambda: torch.tb.current_device(),
    lambda: torch.tb.synchronize(0),
    lambda: torch.tb.memory_allocated(),
    lambda: torch.tb.get_device_name(),
    lambda: torch.tb.current_stream(),
    lambda: torch.tb.get_rng_state(),
):
    with pytest.raises(RuntimeError) as error:
        use()
    text = str(error.value)
    assert os.environ["REASON"] in text, text
    assert text.startswith("torch.device('tb') cannot be used: ") and "python -m torch_backend" in text, text
    assert len(text) < 1500, text
print("checked")
"""


def says(script: Script, prologue: str, reason: str, **environment: str | None) -> None:
    """Checks a process in which tb is broken for `reason`. The prologue imports torch."""
    assert "checked" in script(prologue + BROKEN, REASON=reason, **environment).stdout


def test_import_torch_alone_brings_tb(script: Script) -> None:
    script("import torch" + WORKS)


def test_import_torch_backend_first_works(script: Script) -> None:
    script("import torch_backend, torch" + WORKS)


@pytest.mark.parametrize("order", ["torch, torch_backend", "torch_backend, torch"])
def test_autoload_off_and_explicit_import_works_in_either_order(script: Script, order: str) -> None:
    script(f"import {order}" + WORKS, TORCH_DEVICE_BACKEND_AUTOLOAD="0")


def test_autoload_off_leaves_torch_alone(script: Script) -> None:
    code = """
    import torch
    assert not hasattr(torch, "tb")
    assert torch._C._get_privateuse1_backend_name() == "privateuseone"
    """
    script(code, TORCH_DEVICE_BACKEND_AUTOLOAD="0")


def test_the_slot_of_outside_devices_is_left_to_another_backend(script: Script) -> None:
    code = """
    import torch, torch_backend
    assert not hasattr(torch, "tb")
    torch.utils.rename_privateuse1_backend("other")
    assert torch.device("other").type == "other"
    assert not torch_backend.doctor()
    """
    assert "PROBLEM: TB_REGISTER=0 leaves" in script(code, TB_REGISTER="0").stdout


def test_import_opens_no_driver_and_starts_no_thread(script: Script) -> None:
    code = """
    import os, torch, tb_device
    torch.manual_seed(1)
    torch.device("tb")
    assert torch.accelerator.current_accelerator() == torch.device("tb")
    assert not tb_device.is_open() and not torch.tb.is_initialized()
    assert len(os.listdir("/proc/self/task")) == 1
    """
    script(code, OMP_NUM_THREADS="1", OPENBLAS_NUM_THREADS="1", MKL_NUM_THREADS="1")


def test_a_broken_driver_library_is_named(script: Script, tmp_path: pathlib.Path) -> None:
    garbage = tmp_path / "garbage.so"
    garbage.write_bytes(b"this is no library")
    says(script, "import torch", str(garbage), TB_DRIVER=str(garbage))


def test_the_error_without_a_usable_driver_gives_the_reason(script: Script) -> None:
    says(script, "import torch", "/nowhere/driver.so", TB_DRIVER="/nowhere/driver.so")


def test_without_an_extension_for_the_installed_torch_the_first_use_says_so(script: Script) -> None:
    prologue = """
import sys, types
build = types.ModuleType("torch_backend._build")
def extension_folder(torch_version):
    raise ImportError(f"built for another torch than {torch_version}: pip install 'torch==2.99.*'")
build.VERSION, build.extension_folder = "0.99.0", extension_folder
sys.modules["torch_backend._build"] = build
import torch
assert "torch_backend._core" not in sys.modules
"""
    says(script, prologue, f"built for another torch than {torch.__version__}: pip install 'torch==2.99.*'")


@pytest.mark.parametrize("missing", ["tb_ops", "tb_amp", "tb_device", "tb_stream", "tb_allocator", "tb_generator"])
def test_missing_component_is_named(script: Script, missing: str) -> None:
    prologue = f"""
import sys
class Hide:
    def find_spec(self, name, path=None, target=None):
        if name.partition(".")[0] == "{missing}":
            raise ModuleNotFoundError(f"No module named {{name!r}}", name=name)
sys.meta_path.insert(0, Hide())
import importlib.util
find = importlib.util.find_spec
importlib.util.find_spec = lambda name, package=None: None if name == "{missing}" else find(name, package)
import torch
"""
    says(script, prologue, f"pip install {missing.replace('_', '-')}")


@pytest.mark.parametrize("autoload", ["0", "1"])
def test_another_backend_in_the_slot_is_named(script: Script, autoload: str) -> None:
    code = """
    import torch, types, warnings
    if not hasattr(torch, "tb"):
        other = types.ModuleType("torch_other")
        torch.utils.rename_privateuse1_backend("other")
        torch._register_device_module("other", other)
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            import torch_backend
        assert any("'other' (torch_other)" in str(warning.message) for warning in caught), caught
        assert not torch.tb.is_available() and torch.tb.device_count() == 0
        import pytest
        with pytest.raises(RuntimeError, match=r"'other' \\(torch_other\\) took it first"):
            torch.tb.init()
    print("checked")
    """
    assert "checked" in script(code, TORCH_DEVICE_BACKEND_AUTOLOAD=autoload).stdout


def test_another_backend_in_the_slot_is_no_error_with_warnings_as_errors(script: Script) -> None:
    code = """
    import torch, types, warnings
    torch.utils.rename_privateuse1_backend("other")
    warnings.simplefilter("error")
    import torch_backend
    assert not torch.tb.is_available()
    """
    script(code, TORCH_DEVICE_BACKEND_AUTOLOAD="0")


def test_registering_twice_is_harmless(script: Script) -> None:
    script("import torch, torch_backend; torch_backend._autoload(); torch_backend._autoload()" + WORKS)


def test_a_failed_first_use_can_be_repeated_with_the_same_text(script: Script) -> None:
    code = """
    import torch
    texts = set()
    for _ in range(2):
        try:
            torch.ones(1, device="tb")
        except RuntimeError as error:
            texts.add(str(error))
    assert len(texts) == 1, texts
    """
    script(code, TB_DRIVER="/nowhere/driver.so")


def test_first_use_from_several_threads_at_once_initializes_once(script: Script) -> None:
    code = """
    import threading, torch
    barrier, results = threading.Barrier(8), []
    def use():
        barrier.wait()
        results.append(torch.full((4,), 2.0, device="tb").sum().item())
    threads = [threading.Thread(target=use) for _ in range(8)]
    [thread.start() for thread in threads]
    [thread.join() for thread in threads]
    assert results == [8.0] * 8, results
    """
    script(code)


def test_doctor_prints_the_diagnosis_and_the_exit_status_tells(script: Script) -> None:
    code = "import runpy; runpy.run_module('torch_backend', run_name='__main__')"
    good = script(code)
    assert "torch.device('tb') works." in good.stdout
    assert "tb-allocator" in good.stdout
    bad = script(code, fails=True, TB_DRIVER="/nowhere/driver.so")
    assert bad.returncode == 1
    assert "PROBLEM" in bad.stdout
    assert "/nowhere/driver.so" in bad.stdout


USE = 'import torch\nprint("imported")\ntorch.ones(3, device="tb")\n'


def assert_import_works_and_use_says(done: subprocess.CompletedProcess[str], *words: str) -> None:
    assert "imported" in done.stdout, done.stderr
    assert done.returncode != 0, "using tb should have failed"
    assert done.stderr.count("Traceback (most recent call last)") >= 1
    for word in words:
        assert word in done.stderr, f"{word!r} is not in:\n{done.stderr}"
    assert "Error: torch.device('tb') cannot be used: " in done.stderr, done.stderr


def test_a_driver_that_is_not_there(script: Script, tmp_path: pathlib.Path) -> None:
    missing = tmp_path / "missing.so"
    done = script(USE, TB_DRIVER=str(missing), fails=True)
    assert_import_works_and_use_says(done, str(missing))


def test_a_driver_name_that_nobody_offers(script: Script) -> None:
    done = script(USE, TB_DRIVER="nosuchchip", fails=True)
    assert_import_works_and_use_says(done, "nosuchchip")


def test_a_driver_library_that_is_garbage(script: Script, tmp_path: pathlib.Path) -> None:
    broken = tmp_path / "broken.so"
    broken.write_text("not a library")
    done = script(USE, TB_DRIVER=str(broken), fails=True)
    assert_import_works_and_use_says(done, str(broken))


def test_a_library_without_the_entry_function(script: Script, tmp_path: pathlib.Path) -> None:
    source, library = tmp_path / "empty.c", tmp_path / "empty.so"
    source.write_text("int unrelated(void) { return 0; }\n")
    subprocess.run(["cc", "-shared", "-fPIC", "-o", str(library), str(source)], check=True)
    done = script(USE, TB_DRIVER=str(library), fails=True)
    assert_import_works_and_use_says(done, str(library), "tb_driver_open_v1")


def test_without_a_usable_driver_tb_is_not_available_and_the_cpu_works(script: Script, tmp_path: pathlib.Path) -> None:
    code = """
        import torch
        assert not torch.tb.is_available()
        assert torch.tb.device_count() == 0
        assert (torch.ones(3) + 1).tolist() == [2.0, 2.0, 2.0]
    """
    script(code, TB_DRIVER=str(tmp_path / "missing.so"))


def test_import_torch_prints_nothing(script: Script, tmp_path: pathlib.Path) -> None:
    for driver in ("cpu", str(tmp_path / "missing.so")):
        done = script("import torch", TB_DRIVER=driver)
        assert (done.stdout, done.stderr) == ("", "")


def test_another_torch_minor_is_named_when_tb_is_used(script: Script, tmp_path: pathlib.Path) -> None:
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
    done = script(USE, PYTHONPATH=str(tmp_path), fails=True)
    assert_import_works_and_use_says(done, "2.99", ", ".join(_build.torch_minors()), "pip install")


@pytest.mark.parametrize("order", ["import torch, torch_backend", "import torch_backend, torch"])
@pytest.mark.parametrize("autoload", ["0", "1"])
def test_explicit_import_works_in_either_order(script: Script, order: str, autoload: str) -> None:
    code = f"{order}\nprint((torch.ones(3, device='tb') + 1).tolist())"
    done = script(code, TORCH_DEVICE_BACKEND_AUTOLOAD=autoload)
    assert done.stdout.strip() == "[2.0, 2.0, 2.0]"


@pytest.mark.parametrize("order", ["import torch, torch_backend", "import torch_backend, torch"])
def test_explicit_import_with_a_broken_driver_fails_only_at_use(
    script: Script, order: str, tmp_path: pathlib.Path
) -> None:
    missing = tmp_path / "missing.so"
    code = f"{order}\nprint('imported')\ntorch.ones(3, device='tb')"
    done = script(code, TORCH_DEVICE_BACKEND_AUTOLOAD="0", TB_DRIVER=str(missing), fails=True)
    assert_import_works_and_use_says(done, str(missing))


def test_asking_whether_tb_is_available_opens_no_driver_and_starts_no_thread(script: Script) -> None:
    code = """
        import os, torch
        before = len(os.listdir("/proc/self/task"))
        assert torch.tb.is_available()
        print(before, len(os.listdir("/proc/self/task")), torch.tb.is_initialized())
        torch.ones(3, device="tb")
        assert torch.tb.is_initialized()
    """
    before, after, initialized = script(code).stdout.split()
    assert initialized == "False"
    assert after == before
