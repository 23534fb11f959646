"""`import torch` works also if tb cannot be used, and the first use of tb raises the reason."""

import pathlib

import pytest
import torch
from conftest import Script

WORKS = """
assert torch.ones(2, device="tb").add(1).tolist() == [2, 2]
assert torch.tb.is_available()
"""

# torch works on its own device, the queries answer, and each way to use tb raises one text with `reason`.
BROKEN = """
import os
import pytest
assert torch.ones(2).add(1).tolist() == [2, 2]
x = torch.ones(2, requires_grad=True)
x.sum().backward()
assert x.grad.tolist() == [1, 1]
torch.manual_seed(0)
assert not torch.tb.is_available()
assert torch.tb.device_count() == 0
assert not torch.tb.is_initialized()
assert not torch.tb._is_in_bad_fork()
for use in (
    lambda: torch.ones(1, device="tb"),
    lambda: torch.ones(1).to("tb"),
    lambda: torch.tb.init(),
    lambda: torch.tb.current_device(),
    lambda: torch.tb.synchronize(),
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
    """The prologue imports torch; then tb is broken for `reason`."""
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


def test_broken_driver_library_is_named(script: Script, tmp_path: pathlib.Path) -> None:
    garbage = tmp_path / "garbage.so"
    garbage.write_bytes(b"this is no library")
    says(script, "import torch", str(garbage), TB_DRIVER=str(garbage))


def test_no_usable_driver_is_said(script: Script) -> None:
    says(script, "import torch", "/nowhere/driver.so", TB_DRIVER="/nowhere/driver.so")


def test_wrong_torch_minor_is_one_sentence_with_the_remedy(script: Script) -> None:
    prologue = """
import sys, types
build = types.ModuleType("torch_backend._build")
build.VERSION, build.TORCH_MINOR = "0.99.0", "2.99"
sys.modules["torch_backend._build"] = build
import torch
assert "torch_backend._core" not in sys.modules
"""
    reason = (
        f"torch-backend 0.99.0 was built for torch 2.99, but torch {torch.__version__} is installed: "
        "pip install 'torch==2.99.*', or a torch-backend built for torch 2.13."
    )
    says(script, prologue, reason)


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
