"""Wrong calls of the lazy backend's C++ interface raise errors that say what to give, and the process goes on."""

from __future__ import annotations

import os
import pathlib
import subprocess

import pytest
import torch
from conftest import RunPython

SOURCE = pathlib.Path(__file__).with_suffix("").parent / "lazy_interface.cpp"
# A call of torch.ops.lazy_interface, and a part of its error's text.
WRONG = {
    "execute(0, True, False, False)": "got 0 arguments for a computation of 2 parameters",
    "execute(1, True, False, False)": "got 1 arguments for a computation of 2 parameters",
    "execute(3, True, False, False)": "got 3 arguments for a computation of 2 parameters",
    "execute(2, True, True, False)": "argument 1 of ExecuteComputation is missing",
    "execute(2, True, False, True)": "argument 1 of ExecuteComputation is a placeholder without a value",
    "execute(2, False, False, False)": "a computation that was not compiled: give it what Compile() returns",
    "compile_foreign()": "Compile got a computation of another class",
}


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> pathlib.Path:
    folder, made = pathlib.Path(torch.__file__).parent, tmp_path_factory.mktemp("lazy") / "lazy_interface.so"
    include = [f"-isystem{folder / path}" for path in ("include", "include/torch/csrc/api/include")]
    link = [f"-L{folder / 'lib'}", "-lc10", "-ltorch_cpu", f"-Wl,-rpath,{folder / 'lib'}"]
    command = [os.environ.get("CXX", "c++"), "-std=c++20", "-O0", "-fPIC", "-shared", *include]
    done = subprocess.run([*command, str(SOURCE), "-o", str(made), *link], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return made


def test_wrong_calls_raise_and_right_ones_work_afterwards(library: pathlib.Path, run_python: RunPython) -> None:
    done = run_python(
        f"""
        import torch
        from tb_compile import lazy
        lazy.init()
        torch.ops.load_library({str(library)!r})
        calls = torch.ops.lazy_interface
        for call, text in {WRONG!r}.items():
            try:
                eval("calls." + call)
            except ValueError as error:
                assert text in str(error) and "INTERNAL ASSERT" not in str(error), (call, error)
            else:
                raise AssertionError(call + " raised nothing")
        calls.execute(2, True, False, False)
        print("done")
        """
    )
    assert done.stdout.splitlines()[-1] == "done"
