"""Generates all code from the schema of one PyTorch and checks it, without that PyTorch's headers or libraries.

    python schema_check.py FOLDER...

Each FOLDER holds the `torchgen` of one PyTorch, as in its wheel, named by the version; `nox -s check-schemas` makes it.
Prints a table of the differences between the versions. Fails if a check fails, and if there is no version to check.
"""

from __future__ import annotations

import json
import os
import pathlib
import re
import subprocess
import sys
from typing import Any

SOURCES = pathlib.Path(__file__).resolve().parents[1] / "src"
ROUTES = SOURCES / "dispatch" / "routes.yaml"

# Operators registered by hand that some of the versions lack, with the versions that have them. The build for another
# version leaves out their kernels.
ONLY_IN: dict[str, set[str]] = {}

# Headers of ATen/ops that PyTorch writes by hand, for names that are no operators of the schema.
NO_OPERATORS = {"from_blob"}


def registered_by_hand(without: pathlib.Path | None = None) -> set[str]:
    """The aten operators that tb-ops' own sources register, except those in a folder: "add.out"."""
    found = [path for suffix in ("*.cpp", "*.h") for path in sorted(SOURCES.rglob(suffix))]
    paths = [path for path in found if without is None or not path.is_relative_to(without)]
    text = "\n".join(path.read_text() for path in paths)
    names = set(re.findall(r'aten\.impl\(\s*"([^"]+)"', text))
    names.update(re.findall(r"^  - (\S+)", ROUTES.read_text(), re.MULTILINE))
    for listed in re.findall(r"constexpr const char \*\w+\[\] = \{(.*?)\};", text, re.DOTALL):
        names.update(re.findall(r'"([^"]+)"', listed))
    return names


def headers_by_hand() -> set[str]:
    """The operators whose ATen/ops headers tb-ops' own sources include: "add" for ATen/ops/add_native.h."""
    paths = [path for suffix in ("*.cpp", "*.h") for path in sorted(SOURCES.rglob(suffix))]
    text = "\n".join(path.read_text() for path in paths)
    return set(re.findall(r"#include <ATen/ops/(\w+?)(?:_native|_ops|_meta|_[a-z]+_dispatch)?\.h>", text))


def declared(folder: pathlib.Path) -> list[dict[str, Any]]:
    """The entries of native_functions.yaml, read without torchgen."""
    import yaml

    text = (folder / "torchgen" / "packaged" / "ATen" / "native" / "native_functions.yaml").read_text()
    entries: list[dict[str, Any]] = yaml.load(text, Loader=getattr(yaml, "CSafeLoader", yaml.SafeLoader))
    return entries


def check(folder: pathlib.Path, version: str) -> dict[str, Any]:
    """The facts of the version whose torchgen is imported from `folder`; raises AssertionError if a check fails."""
    sys.path[:0] = [str(folder), str(SOURCES / "tb_ops")]
    from codegen import aten, schema, structured  # type: ignore[import-not-found]

    given = schema.installed()
    assert given.directory.is_relative_to(folder), f"{given.directory} is not the schema of {folder}"
    entries = declared(folder)
    names = {entry["func"].partition("(")[0] for entry in entries}

    groups = given.structured_groups
    wanted = {
        entry["func"].partition("(")[0]
        for entry in entries
        if entry.get("structured")
        and ("ufunc_inner_loop" in entry or any("CPU" in keys.split(", ") for keys in entry.get("dispatch", {})))
    }
    emitted = {str(group.out.func.name) for group in groups}
    assert emitted == wanted - schema.BY_HAND, f"structured groups: {emitted ^ (wanted - schema.BY_HAND)}"

    index, routes, lists, kinds, *shards = aten.file_texts(given, ROUTES, 4)
    text = "".join(shards)
    for part in (index, routes, lists, kinds, *shards):
        check_balance(part)
    on_lists = set(re.findall(r'"aten::(_foreach_\w+)"', lists))
    assert {"_foreach_add", "_foreach_sqrt"} <= on_lists
    assert on_lists <= {name.partition(".")[0] for name in names}
    kernels = [str(f.func.name) for group in groups for f in structured.functions(group)]
    assert sorted(re.findall(r'aten\.impl\("([^"]+)"', text)) == sorted(kernels)
    assert len(set(kernels)) == len(kernels) >= len(groups) > 200
    assert set(re.findall(r"structured_(\w+), Schema", text)) == {
        str(group.functional.func.name).replace(".", "_")
        for group in groups
        if str(group.out.func.name) not in structured.CHECKED
    }
    assert len(re.findall(r"^  op\.meta\(", text, re.M)) == len(re.findall(r"^  launch_kernel<", text, re.M))

    by_hand = registered_by_hand()
    assert len(by_hand) > 100, "the sources' registrations were not found"
    check_names(by_hand, names, version)
    # Drivers that get the operators of jit do not get the generated ones.
    twice = registered_by_hand(without=SOURCES / "backends" / "jit") & set(kernels)
    assert not twice, f"both generated and written by hand: {sorted(twice)}"
    roots = {name.partition(".")[0].rstrip("_") for name in names} | {name.partition(".")[0] for name in names}
    lost = headers_by_hand() - roots - NO_OPERATORS
    assert not lost, f"headers included by hand of operators that {version} has not: {sorted(lost)}"
    schemas = {entry["func"].partition("(")[0]: entry["func"] for entry in entries}
    return {
        "version": version,
        "operators": len(names),
        "groups": sorted(emitted),
        "kernels": len(kernels),
        "by hand": {name: schemas.get(name, "") for name in sorted(by_hand)},
    }


def check_names(by_hand: set[str], names: set[str], version: str) -> None:
    """Checks that the version has each operator registered by hand, and lacks those that are listed as absent."""
    absent = {name for name, versions in ONLY_IN.items() if minor(version) not in versions}
    missing = by_hand - names - absent
    assert not missing, f"registered by hand, but {version} has no such operator: {sorted(missing)}"
    assert absent.isdisjoint(names), f"listed as absent from {version}, which has it: {sorted(absent & names)}"


def check_balance(text: str) -> None:
    """Checks that brackets outside of strings close in the order in which they open."""
    open_ones: list[str] = []
    for character in re.sub(r'"(?:\\.|[^"\\])*"|//[^\n]*', "", text):
        if character in "([{":
            open_ones.append(character)
        elif character in ")]}":
            assert open_ones, f"an unopened {character}"
            assert open_ones.pop() + character in ("()", "[]", "{}"), f"{character} closes another bracket"
    assert not open_ones, f"never closed: {open_ones}"


def minor(version: str) -> str:
    """ "2.13" of "2.13.0"."""
    return ".".join(version.split(".")[:2])


def check_alone(folder: pathlib.Path, version: str) -> dict[str, Any]:
    """Runs check() in a separate interpreter, which imports no other torchgen. Raises CalledProcessError."""
    clean = {**os.environ, "PYTHONPATH": str(folder)}
    command = [sys.executable, __file__, "--one", str(folder), version]
    done = subprocess.run(command, env=clean, check=True, stdout=subprocess.PIPE, text=True)
    facts: dict[str, Any] = json.loads(done.stdout)
    return facts


def table(versions: list[dict[str, Any]]) -> str:
    """A Markdown table with a line for each version, which shows the changes since the version before it."""
    lines = [
        "| torch | operators | structured groups | kernels | new groups | groups gone | changed, written by hand |"
    ]
    lines += ["| --- | ---: | ---: | ---: | --- | --- | --- |"]
    for before, facts in zip([None, *versions], versions, strict=False):
        changes = ["-"] * 3
        if before is not None:
            new, old = set(facts["groups"]), set(before["groups"])
            changed = [name for name, schema in facts["by hand"].items() if before["by hand"][name] != schema]
            changes = [", ".join(names) or "none" for names in (sorted(new - old), sorted(old - new), changed)]
        counts = [facts["operators"], len(facts["groups"]), facts["kernels"]]
        lines.append(f"| {' | '.join(map(str, [facts['version'], *counts, *changes]))} |")
    return "\n".join(lines)


def main(arguments: list[str]) -> int:
    """The command; returns the exit status."""
    if arguments[:1] == ["--one"]:
        print(json.dumps(check(pathlib.Path(arguments[1]).resolve(), arguments[2])))
        return 0
    versions, failed = [], []
    for folder in map(pathlib.Path, arguments):
        try:
            versions.append(check_alone(folder.resolve(), folder.name))
        except subprocess.CalledProcessError:  # the process has printed the reason
            failed.append(folder.name)
    print(table(versions))
    if failed or not versions:
        print(f"schema_check: {f'failed for {failed}' if failed else 'no version was checked'}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
