"""Writes docs/torch-cuda-names.md: names of the installed torch.cuda and torch.xpu beside those of torch.tb.

`python -m docs.cuda_names` fails if the page is stale; `--write` writes it. The names are read from the modules.
cuda_names.toml has the names that differ, and a text about each name that torch.tb lacks. It is an error if an entry
there names nothing, or if such a name has no text.
"""

from __future__ import annotations

import pathlib
import sys
import tomllib
from typing import Any

import torch

from docs import DocsError

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "torch-cuda-names.md"
SAID = pathlib.Path(__file__).with_name("cuda_names.toml")


def cuda_names(leave_out: list[str]) -> list[str]:
    """Their names without `leave_out`, and without tensor and storage types, which torch.Tensor replaces."""
    names = {*torch.cuda.__all__, *torch.xpu.__all__, "AcceleratorError", "OutOfMemoryError"} - {"amp"}
    names |= {f"amp.{name}" for name in torch.cuda.amp.__all__}
    kept = [name for name in names if not name.endswith(("Tensor", "Storage")) and name not in leave_out]
    return sorted(kept, key=lambda name: (name.lower(), name))


def _exists(path: str) -> bool:
    """Whether `torch.a.b` names something. A call or an argument after the name is ignored."""
    found: Any = torch
    for part in path.split("(")[0].split(".")[1:]:
        if not hasattr(found, part):
            return False
        found = getattr(found, part)
    return True


def _tb_name(name: str, renamed: dict[str, str]) -> str:
    whole = renamed.get(name, f"torch.tb.{name}")
    return whole if _exists(whole) else ""


def _accelerator_name(name: str, agnostic: dict[str, str]) -> str:
    return agnostic.get(name) or (f"torch.accelerator.{name}" if name in torch.accelerator.__all__ else "")


def _code(text: str) -> str:
    return f"`{text}`" if text else ""


def differences(said: dict[str, Any]) -> list[str]:
    """Where `said`, the content of cuda_names.toml, does not say the truth about torch.tb."""
    renamed, lacking = said["torch_tb"], said["lacking"]
    names = cuda_names(said["leave_out"])
    found = [f"{path} does not exist" for path in renamed.values() if not _exists(path)]
    found += [
        f"torch.tb has no {name}: say under [lacking] why, and what to use"
        for name in names
        if not _tb_name(name, renamed) and name not in lacking
    ]
    return found + [f"[lacking] has {name}, which torch.tb has" for name in lacking if _tb_name(name, renamed)]


def page(said: dict[str, Any]) -> str:
    """The whole page. DocsError: `said`, the content of cuda_names.toml, does not fit the installed names."""
    names = cuda_names(said["leave_out"])
    agnostic, renamed, lacking = said["device_agnostic"], said["torch_tb"], said["lacking"]
    problems = differences(said)
    problems += [f"{path} does not exist" for path in agnostic.values() if not _exists(path)]
    problems += [f"[lacking] has {name}, which torch.cuda and torch.xpu have not" for name in {*lacking} - {*names}]
    if problems:
        raise DocsError("\n".join([f"{SAID.name} and the installed packages differ:", *problems]))
    rows, absent = [], []
    for name in names:
        tb, accelerator = _tb_name(name, renamed), _accelerator_name(name, agnostic)
        if tb:
            rows.append(f"| `{name}` | {_code(accelerator)} | `{tb.removeprefix('torch.tb.')}` |")
        else:
            absent.append(f"| `{name}` | {_code(accelerator)} | {lacking[name]} |")
    counterparts = {_tb_name(name, renamed) for name in names}
    own = [name for name in torch.tb.__all__ if f"torch.tb.{name}" not in counterparts and name != "amp"]  # type: ignore[attr-defined]
    version = ".".join(torch.__version__.split(".")[:2])
    lines = [
        "# From torch.cuda to torch.tb",
        "",
        "<!-- Written by `nox -s docs -- --write` from the installed packages and tools/docs/cuda_names.toml. -->",
        "",
        f"The public names of `torch.cuda` and `torch.xpu` in PyTorch {version}, and what they are called for `tb`. A",
        "program that uses the device-agnostic names runs on `tb`, CUDA and others as it is; `torch.tb` has the names",
        'that programs written for `torch.cuda` expect. Tensors and modules need no name at all: `.to("tb")`.',
        "",
        f"`torch.tb` has {len(rows)} of these {len(names)} names.",
        "",
        "## Names that torch.tb has",
        "",
        "| torch.cuda. or torch.xpu. | any device | torch.tb. |",
        "| --- | --- | --- |",
        *rows,
        "",
        "## Names that torch.tb lacks",
        "",
        "| torch.cuda. or torch.xpu. | any device | why, and what to use |",
        "| --- | --- | --- |",
        *absent,
        "",
        "## Names that torch.tb adds",
        "",
        "| torch.tb. | any device |",
        "| --- | --- |",
        *(f"| `{name}` | {_code(_accelerator_name(name, agnostic))} |" for name in sorted(own, key=str.lower)),
    ]
    return "\n".join(lines) + "\n"


def main(arguments: list[str]) -> int:
    try:
        text = page(tomllib.loads(SAID.read_text(encoding="utf-8")))
        if arguments == ["--write"]:
            PAGE.write_text(text, encoding="utf-8")
        elif arguments:
            raise DocsError(f"unknown arguments {' '.join(arguments)}: there is --write")
        elif not PAGE.exists() or PAGE.read_text(encoding="utf-8") != text:
            raise DocsError(f"{PAGE.relative_to(ROOT)} is stale: run nox -s docs -- --write and commit it")
    except DocsError as error:
        print(f"docs: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
