"""Checks that code depends on a minor version of PyTorch in one place only, shared/torch/tb/torch_versions.h.

    python tools/checks/torch_minors.py     exit code 1 with what is wrong

A mention is a version such as 2.14, or one of PyTorch's version macros. Code should rather ask whether something
exists. Pages, tests and results may name versions.
"""

from __future__ import annotations

import pathlib
import re
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from checks.tree import listed  # noqa: E402

MENTION = re.compile(r"\bTORCH_VERSION_M(?:AJOR|INOR)\b|(?<![\d.])2\.1\d(?![\d%])")

# Files that may mention a version, and why.
ALLOWED = {
    "shared/torch/tb/torch_versions.h": "the place for what differs",
    "packages/tb-ops/src/custom/tb/operator.h": "a library of operators says for which version it was compiled",
    "packages/tb-ops/src/custom/custom.h": "tb-ops says for which version it was compiled",
    "packages/torch-backend/src/torch_backend/conformance/expected.toml": "expected failures of some versions",
    "packages/torch-backend/src/torch_backend/conformance/expectations.py": "explains the key of that file",
    "tools/building/torch_versions.py": "explains the range that the packages declare",
    "tools/benchmarks/allocator/libraries.py": "the version of PyTorch's allocator that is measured",
    "tools/drift/not_overridden.toml": "functions that not every supported version has",
    "tools/building/sessions/checks.py": "schemas of older versions are generated from as well",
}
SUFFIXES = {".py", ".h", ".cpp", ".cuh", ".cu", ".inc", ".in", ".build", ".yaml", ".toml"}


def mentions(root: pathlib.Path) -> list[str]:
    """What is wrong in the tree: mentions in files that may have none, and allowed files that have none."""
    wrong = []
    found = set()
    for name in listed(root, "packages/*/src/*", "packages/*/meson.build", "shared/*", "tools/*", "noxfile.py"):
        path = root / name
        if path.suffix not in SUFFIXES or not path.is_file() or path.resolve() == pathlib.Path(__file__).resolve():
            continue
        for number, line in enumerate(path.read_text().splitlines(), 1):
            if MENTION.search(line) is None:
                continue
            found.add(name)
            if name not in ALLOWED:
                wrong.append(f"{name}:{number}: {line.strip()}")
    return wrong + [f"{name} mentions no version any more: remove it from ALLOWED" for name in ALLOWED.keys() - found]


if __name__ == "__main__":
    problems = mentions(ROOT)
    if problems:
        print("\n".join(problems))
        sys.exit(f"{len(problems)} mentions of a version of PyTorch outside shared/torch/tb/torch_versions.h")
    print("only the listed files depend on a version of PyTorch")
