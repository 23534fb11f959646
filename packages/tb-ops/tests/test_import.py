"""Importing tb-ops changes nothing in PyTorch, and raises one sentence if it cannot work."""

import subprocess
import sys

import pytest


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    import os

    return subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        env={**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0", **environment},
    )


def check(code: str, **environment: str) -> str:
    done = run(code, **environment)
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_import_registers_no_kernel_and_opens_no_driver():
    check(
        "import torch, tb_ops, tb_device\n"
        "assert not torch._C._dispatch_has_kernel_for_dispatch_key('aten::add.Tensor', 'PrivateUse1')\n"
        "assert not tb_device.is_open()"
    )


def test_initialize_without_an_allocator_says_what_to_import():
    done = run("import tb_ops; tb_ops.initialize()")
    assert done.returncode != 0
    assert "import torch_backend" in done.stderr


def test_another_torch_minor_is_refused_with_the_remedy():
    import tb_ops

    done = run("import torch; torch.__version__ = '2.99.1'; import tb_ops")
    assert done.returncode != 0
    last = done.stderr.strip().splitlines()[-1]
    assert last.startswith("ImportError: tb-ops")
    built = ", ".join(tb_ops._build.torch_minors())
    assert f"built for torch {built}, but torch 2.99.1 is installed: pip install" in last


@pytest.mark.parametrize("mode", ["allow", "warn", "error"])
def test_fallback_mode_is_kept(mode):
    assert check(f"import tb_ops; tb_ops.set_fallback_mode('{mode}'); print(tb_ops.fallback_mode())").strip() == mode


def test_unknown_fallback_mode_lists_the_known_ones():
    import tb_ops

    with pytest.raises(ValueError, match="allow, warn, error"):
        tb_ops.set_fallback_mode("loud")


def test_unknown_fallback_variable_is_an_error_not_ignored():
    done = run("import tb_ops; tb_ops.initialize()", TB_FALLBACK="loud")
    assert done.returncode != 0
    assert "TB_FALLBACK='loud' is not one of allow, warn, error" in done.stderr


def test_the_fallback_statistics_start_empty():
    counted = check("import tb_ops; print(len(tb_ops.fallbacks()), tb_ops.fallbacks())")
    assert counted.strip() == "0 no operator ran on the CPU"
