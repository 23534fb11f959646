"""Checks and documents the device ABI, from the slot lists and headers in shared/include/tb.

    python tools/checks/abi.py            write docs/abi-reference.md and docs/component-reference.md, append what is
                                          new to shared/abi/v1.json
    python tools/checks/abi.py --check    fail if one of them is stale or anything below does not hold

What holds: the headers compile alone as C99, C11, C++17 and C++20 with all warnings as errors; every slot, field and
constant of the frozen layout keeps its order, offset, size, type and value, and nothing was put between; group bits and
the groups of the slots are the same set; each group has a required slot; each slot has numbered rules. The layout's
file carries the ABI's major. Needs a C and a C++ compiler (CC, CXX, or cc and c++).
"""

from __future__ import annotations

import argparse
import json
import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tools"))

from checks.device_abi import AbiError  # noqa: E402
from checks.device_abi.callers import find_callers  # noqa: E402
from checks.device_abi.headers import head_comment, read_header  # noqa: E402
from checks.device_abi.layout import check_compiles, check_frozen, measure, written  # noqa: E402
from checks.device_abi.reference import component_reference, reference  # noqa: E402
from checks.device_abi.slots import check_groups, check_rules, read_rules, read_slots  # noqa: E402

# The tables whose callers the pages name, and the package that makes each.
TABLES = {f"tb_{name}_table": f"tb-{name}" for name in ("device", "stream", "allocator", "generator", "ops")}
TABLES |= {"tb_driver_api": "", "tb_graph_api": ""}
GRAPH = ("GRAPH", "the extension tb.graph, which get_extension gives: work captured once and launched many times.")


def run(root: pathlib.Path, check: bool) -> None:
    """Checks a tree, and writes its files unless `check`. AbiError: the first promise that does not hold."""
    include = root / "shared" / "include"
    header = (include / "tb/driver.h").read_text()
    groups = read_slots((include / "tb/driver_slots.inc").read_text())
    graph = read_slots((include / "tb/graph_slots.inc").read_text(), GRAPH)
    check_groups(groups, header)
    check_rules([*groups, *graph])
    check_compiles(include)
    measured = measure(include, groups, graph)
    layout_file = root / "shared" / "abi" / f"v{measured['abi_major']}.json"
    frozen = json.loads(layout_file.read_text()) if layout_file.exists() else None
    if frozen is not None:
        check_frozen(frozen, measured)
    callers = find_callers(root, TABLES)
    texts = {name: (include / "tb" / name).read_text() for name in ("component.h", "operator_table.h", "host_kernel.h")}
    headers = {name: (head_comment(text), read_header(text)) for name, text in texts.items()}
    pages = {
        "abi-reference.md": reference(groups, graph, read_rules(header), read_header(header), callers),
        "component-reference.md": component_reference(headers, callers),
    }
    if not check:
        layout_file.parent.mkdir(exist_ok=True)
        layout_file.write_text(written(measured))
        for name, page in pages.items():
            (root / "docs" / name).write_text(page)
        return
    if frozen != measured:
        raise AbiError(f"{layout_file.name} lacks what the headers have: run python tools/checks/abi.py")
    for name, page in pages.items():
        page_file = root / "docs" / name
        if not page_file.exists() or page_file.read_text() != page:
            raise AbiError(f"{name} is stale: run python tools/checks/abi.py")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="write nothing; fail if something is stale or broken")
    try:
        run(ROOT, parser.parse_args().check)
    except AbiError as error:
        print(f"abi: {error}", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
