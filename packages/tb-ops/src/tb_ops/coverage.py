"""python -m tb_ops.coverage [--json FILE] [--markdown FILE] [--missing]: how each aten operator runs on this device.

The kinds come from the dispatcher's own table, which says which kernel a call with tb tensors reaches under the driver
in use, and from tb-ops' list of its kernels that wait. This module names what neither knows: operators that wait only
for some arguments, and operators that make tensors which tb does not have.
"""

from __future__ import annotations

import argparse
import json
import pathlib
import re
import sys
from collections import Counter
from dataclasses import asdict, dataclass

import torch
from tb_device import console

from . import _core, backends, native

KINDS = {
    "native-async": "a kernel of the device; the call returns before the work is done",
    "native-sync": "a kernel of the device that waits for it, for the reason given",
    "fallback": "runs on the CPU, counted in torch.tb.fallbacks(); raises where its tensors are not dense",
    "composite": "PyTorch's own composition of other operators, which run on the device as they are listed here",
    "unsupported": "raises, for the reason given",
}


# Kernels that wait for some arguments; without these they return before the work is done.
SOMETIMES_WAIT = {
    "aten::index.Tensor": "waits where an index is a boolean mask: the size of the result depends on the data",
    "aten::index.Tensor_out": "waits where an index is a boolean mask: the size of the result depends on the data",
    "aten::_index_put_impl_": "waits where an index is a boolean mask: it is counted first",
    "aten::index_fill_.int_Tensor": "waits for the value, which the host reads",
}

# Operators that make quantized or MKL-DNN tensors of dense ones, as their names say.
_MAKE_OTHER_KINDS = re.compile(r"aten::(to_mkldnn|quantize_per_|_make_per_|_empty_\w*affine)")

CACHES_LAYOUTS = "the first call with new shapes waits: the CPU's kernel then shows the layout of the results"


@dataclass(frozen=True)
class Operator:
    """How one overload runs on tb."""

    name: str
    """The name as in the fallback statistics: "aten::std.correction"."""
    kind: str
    """A key of KINDS."""
    reason: str
    """Why it waits, falls back or is unsupported, which sort of composite it is, or when a native-async one waits."""
    backend: str = ""
    """The name of the backend whose kernel it is (tb_ops.backends()); "" for others, and for views and copies."""


def operators() -> list[Operator]:
    """All aten overloads of the installed torch, by name, under the driver in use.

    Raises:
        RuntimeError: no device tb, or no driver; the text says why.
    """
    if not hasattr(torch, "tb"):
        raise RuntimeError("the listing needs torch.device('tb'): pip install torch-backend")
    torch.tb.init()
    waiting, forced = dict(_core.synchronous_operators()), set(_core.forced_fallbacks())
    cached = set(_core.layout_cached_operators())
    sometimes = SOMETIMES_WAIT | {
        name: f"waits {when}: its kernel checks on the host, and raises"
        for name, when in _core.checked_operators()
        if when
    }
    names = sorted(name for name in torch._C._dispatch_get_all_op_names() if name.startswith("aten::"))
    return [
        Operator(name, "fallback", "forced: it has a kernel of the device")
        if name in forced
        else _operator(name, waiting, cached, sometimes)
        for name in names
    ]


def _operator(name: str, waiting: dict[str, str], cached: set[str], sometimes: dict[str, str]) -> Operator:
    dump = torch._C._dispatch_dump_table(name)
    table = dict(_TABLE_LINE.findall(dump))
    backend = match[1] if (match := _BACKEND.search(dump)) else ""
    match table.get("PrivateUse1"):
        case "kernel" if name in waiting:
            return Operator(name, "native-sync", waiting[name], backend)
        case "kernel" | "fallthrough":
            reasons = [sometimes[name]] if name in sometimes else []
            return Operator(name, "native-async", "; ".join([*reasons, *[CACHES_LAYOUTS] * (name in cached)]), backend)
        case "math kernel":
            return Operator(name, "composite", "CompositeImplicitAutograd")
        case "default backend kernel":
            return Operator(name, "composite", "CompositeExplicitAutograd")
        case "backend fallback" if "CPU" not in table:
            return Operator(name, "unsupported", f"neither this device nor the CPU has a kernel: {_whose(table)}")
        case "backend fallback" if _MAKE_OTHER_KINDS.match(name):
            return Operator(name, "unsupported", "it makes a tensor that is not dense, and all of tb's are")
        case "backend fallback" if _returns_view(name) and not _core.host_accessible():
            return Operator(
                name, "unsupported", "returns a view, and views of copies would lose what is written to them"
            )
        case "backend fallback":
            how = "in place, without copies" if _core.host_accessible() else "on copies of the tensors"
            return Operator(name, "fallback", f"no kernel of the device: the CPU's runs {how}")
        case other:
            return Operator(name, "unsupported", f"the dispatcher has no kernel to call ({other or 'nothing'})")


def _whose(table: dict[str, str]) -> str:
    """Says to which devices an operator without a CPU kernel belongs."""
    backends = [key for key in _BACKENDS if table.get(key, "backend fallback") != "backend fallback"]
    if backends:
        return f"its kernels are for {', '.join(backends)}"
    if table.get("Meta", "backend fallback") != "backend fallback":
        return "it belongs to another device, and only its shape rule (Meta) is in this build"
    return "it belongs to another device, or to a kind of tensor that is written in Python"


# Matches lines such as "CPU: registered at FILE:LINE [math kernel]".
_TABLE_LINE = re.compile(r"^(\w+): .*\[([^\]]*)\]$", re.MULTILINE)
# A backend registers its kernels with its name and source in place of a file: "registered at jit (tb-ops):0 [kernel]".
_BACKEND = re.compile(r"^PrivateUse1: registered at (\S+) \(.*\):0 \[kernel\]$", re.MULTILINE)
# The backends where an operator without a CPU kernel may have one. Builds without CUDA do not register CUDA's kernels.
_BACKENDS = (
    *("CUDA", "MPS", "XPU", "MkldnnCPU", "QuantizedCPU", "QuantizedCUDA", "SparseCPU", "SparseCUDA"),
    *("SparseCsrCPU", "SparseCsrCUDA", "NestedTensorCPU", "NestedTensorCUDA"),
)


def _returns_view(name: str) -> bool:
    schema = torch._C._get_schema(*_split(name))
    return any(result.alias_info is not None and not result.alias_info.is_write for result in schema.returns)


def _split(name: str) -> tuple[str, str]:
    base, _, overload = name.partition(".")
    return base, overload


def summary(listing: list[Operator]) -> str:
    """One line per kind: the number of operators, and what the kind means."""
    counts = Counter(operator.kind for operator in listing)
    lines = [f"{len(listing)} aten overloads of torch {torch.__version__} on driver {_driver()}:"]
    lines += [f"{counts[kind]:>6}  {kind:<13} {meaning}" for kind, meaning in KINDS.items()]
    owned = Counter(operator.backend for operator in listing)
    lines += ["", "Operators come from these backends, which register in this order:"]
    for backend in backends():
        use = "serves" if backend.serves else "not used"
        count = f"; kernels for {owned[backend.name]} overloads" if backend.serves else ""
        source = f"; from {backend.source}" if backend.source != "tb-ops" else ""
        lines.append(f"{use:>8}  {backend.name:<11} {backend.description} (for: {backend.rule}{count}{source})")
    return "\n".join(lines)


def _driver() -> str:
    name = torch.get_device_module("tb").get_device_name()
    return f"{name} ({'native kernels' if native() else 'no native kernels'})"


def as_json(listing: list[Operator]) -> str:
    """JSON: {"torch", "driver", "native", "total", "backends": [...], "counts": {kind: n}, "operators": [...]}."""
    counts = Counter(operator.kind for operator in listing)
    facts = {
        "torch": torch.__version__,
        "driver": _driver(),
        "native": native(),
        "total": len(listing),
        "backends": [backend._asdict() for backend in backends()],
        "counts": {kind: counts[kind] for kind in KINDS},
        "operators": [asdict(operator) for operator in listing],
    }
    return json.dumps(facts, indent=1) + "\n"


def as_markdown(listing: list[Operator]) -> str:
    """A page: the counts, then a table for each kind with its operators and reasons."""
    lines = [
        "# Operator coverage",
        "",
        f"torch {torch.__version__}, driver {_driver()}. {len(listing)} aten overloads.",
        "",
    ]
    lines += ["| kind | overloads | meaning |", "| --- | ---: | --- |"]
    for kind, meaning in KINDS.items():
        lines.append(f"| {kind} | {sum(operator.kind == kind for operator in listing)} | {meaning} |")
    lines += ["", "| backend | serves the driver | operators | drivers | from |", "| --- | --- | --- | --- | --- |"]
    for backend in backends():
        use = "yes" if backend.serves else "no"
        lines.append(f"| {backend.name} | {use} | {backend.description} | {backend.rule} | {backend.source} |")
    for kind in KINDS:
        lines += ["", f"## {kind}", "", "| operator | |", "| --- | --- |"]
        lines += [f"| `{operator.name}` | {operator.reason} |" for operator in listing if operator.kind == kind]
    return "\n".join(lines) + "\n"


def main(arguments: list[str] | None = None) -> int:
    """Prints the counts, and with --missing the operators without a kernel. Returns 1 if there is no device."""
    parser = argparse.ArgumentParser(prog="python -m tb_ops.coverage", description="How each aten operator runs on tb.")
    parser.add_argument("--json", type=pathlib.Path, metavar="FILE", help="write the whole listing as JSON")
    parser.add_argument("--markdown", type=pathlib.Path, metavar="FILE", help="write the whole listing as a page")
    parser.add_argument("--missing", action="store_true", help="also print the operators that fall back or raise")
    chosen = parser.parse_args(arguments)
    try:
        listing = operators()
    except RuntimeError as error:
        print(f"python -m tb_ops.coverage: {error}", file=sys.stderr)
        return 1
    print(summary(listing))
    if chosen.missing:
        missing = [operator for operator in listing if operator.kind in ("fallback", "unsupported")]
        print(*("", *(f"{operator.name}: {operator.kind}, {operator.reason}" for operator in missing)), sep="\n")
    if chosen.json:
        chosen.json.write_text(as_json(listing))
    if chosen.markdown:
        chosen.markdown.write_text(as_markdown(listing))
    return 0


if __name__ == "__main__":
    sys.exit(console.run(main))
