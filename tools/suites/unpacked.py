"""The tests of a suite in a folder of their own, beside nothing of the library: it is tested as it is installed."""

from __future__ import annotations

import pathlib
import re
import shutil

from suites.suite import Suite

CUDA = re.compile(r"(?<=[.\"'])cuda\b")
"""In `torch.cuda`, `x.cuda()` and "cuda:0", but not in `is_cuda`, nor an argument `cuda` of the library's functions.
PyTorch has the same names for tb."""
LEGACY = "torch.LongTensor("
"""It makes a tensor of the CPU, whatever the default device is, and `torch.tensor(` makes the same one there."""


def take(suite: Suite, source: pathlib.Path, folder: pathlib.Path, device: str) -> pathlib.Path:
    """Copies the tests, with the device renamed if the suite asks for it. Returns their root."""
    root = folder / f"tests-{device}"
    shutil.rmtree(root, ignore_errors=True)
    for name in [*suite.tests, *suite.beside]:
        origin, copy = source / name, root / name
        copy.parent.mkdir(parents=True, exist_ok=True)
        if origin.is_dir():
            shutil.copytree(origin, copy, dirs_exist_ok=True)
        else:
            shutil.copy2(origin, copy)
    for name in suite.without:
        for path in root.glob(name):
            path.unlink()
    for name in suite.packages:
        (root / name / "__init__.py").touch()
    # The suite's own settings may ask for plugins, or for warnings to be errors.
    (root / "pytest.ini").write_text("[pytest]\n")
    if device != "cpu":
        for path in root.rglob("*.py"):
            text = path.read_text()
            if suite.renamed:
                text = renamed(text, device)
            if suite.default_device:
                text = text.replace(LEGACY, "torch.tensor(")
            path.write_text(text)
    return root


def renamed(text: str, device: str) -> str:
    return CUDA.sub(device, text)
