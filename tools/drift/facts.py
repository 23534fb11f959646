"""What an installed torch offers to a backend, as data that can be written to JSON and compared.

`record` runs in an environment that has that torch, and NumPy and expecttest for its databases of tests.
`record_headers` needs its headers only.
"""

from __future__ import annotations

import dataclasses
import json
import pathlib
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from drift import headers
from drift.interfaces import HEADERS, resolve

_ENTRY = re.compile(r"^- func: ([\w.]+)(\(.*)$")
_C10D_MACRO = re.compile(r"^\s*#\s*define\s+(C10D_BACKEND_HAS_\w+)", re.MULTILINE)
# Headers of operators, which native_functions.yaml lists, and of other devices and processors.
_OTHER_HEADERS = re.compile(r"^ATen/ops/|(^|[/_])(cuda|cudnn|cupti|hip|metal|miopen|mps|nccl2?|nvshmem|vec|xpu)")

# The lists of names, by what they are.
AUTOCAST = ("AutocastCUDA", "AutocastCPU")
DTYPES, MACROS, HEADER_FILES = "dtypes", "macros of c10d::Backend", "headers"


@dataclass(frozen=True)
class Virtual:
    """A virtual function as a class of PyTorch declares it."""

    kind: str
    """`pure`, `body`, `override` or `final`."""
    returns: str


@dataclass
class Interface:
    """A class of drift.interfaces with its virtual functions by name, parameters and qualifiers."""

    header: str
    bases: list[str]
    virtuals: dict[str, Virtual]


@dataclass(frozen=True)
class Operator:
    """An entry of native_functions.yaml."""

    schema: str
    """Arguments and results."""
    structured: bool
    dispatch: tuple[str, ...] = ()
    """Kernels of its own that a backend can use: those of CPU and Meta, and composite ones."""


@dataclass
class Facts:
    """One version of torch."""

    version: str
    interfaces: dict[str, Interface] = field(default_factory=dict)
    operators: dict[str, Operator] = field(default_factory=dict)
    names: dict[str, list[str]] = field(default_factory=dict)
    """Sorted: operators with a kernel for autocast, by dispatch key; entries of test databases; and the lists above."""

    @property
    def minor(self) -> str:
        return ".".join(self.version.split(".")[:2])

    def write(self, path: pathlib.Path) -> None:
        """Writes JSON, in which a virtual function is `kind returns`."""
        content = dataclasses.asdict(self)
        for name, interface in self.interfaces.items():
            lines = {key: f"{virtual.kind} {virtual.returns}" for key, virtual in interface.virtuals.items()}
            content["interfaces"][name]["virtuals"] = lines
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(json.dumps(content, indent=1) + "\n")


def load(path: pathlib.Path) -> Facts:
    """Facts from a file that Facts.write wrote."""
    found: dict[str, Any] = json.loads(path.read_text())
    for name, interface in found["interfaces"].items():
        virtuals = {key: Virtual(*line.split(" ", 1)) for key, line in interface.pop("virtuals").items()}
        found["interfaces"][name] = Interface(**interface, virtuals=virtuals)
    for name, operator in found["operators"].items():
        found["operators"][name] = Operator(operator["schema"], operator["structured"], tuple(operator["dispatch"]))
    return Facts(**found)


def record_headers(include: pathlib.Path, version: str) -> Facts:
    """What the folder of headers torch/include says."""
    texts = {header: (include / header).read_text() for header in set(HEADERS.values()) if (include / header).exists()}
    sources = {header: headers.read(text) for header, text in texts.items()}
    facts = Facts(version)
    for name, header in HEADERS.items():
        source = sources.get(header, headers.Source())
        for declared in source.classes:
            if declared.name == name:
                facts.interfaces[name] = _interface(declared, header, source.aliases)
    roots = ("ATen", "c10", "torch")
    files = [path.relative_to(include).as_posix() for root in roots for path in include.glob(f"{root}/**/*.h*")]
    facts.names = {
        MACROS: sorted(set(_C10D_MACRO.findall(texts.get(HEADERS["c10d::Backend"], "")))),
        HEADER_FILES: sorted(file for file in files if not _OTHER_HEADERS.search(file)),
    }
    return facts


def _interface(declared: headers.Class, header: str, aliases: Mapping[str, str]) -> Interface:
    bases = [resolve(base, declared.name.rpartition("::")[0], aliases, HEADERS) for base in declared.bases]
    virtuals = {f.key: Virtual(f.kind, f.returns) for f in declared.functions if f.kind != "plain"}
    return Interface(header, [base for base in bases if base in HEADERS], virtuals)


def read_operators(text: str) -> dict[str, Operator]:
    """The entries of a native_functions.yaml, with the operators that it has generated.

    Only the structure of its lines is read, so that no YAML library is needed.
    """
    found = {}
    for entry in re.split(r"^(?=- func:)", text, flags=re.MULTILINE)[1:]:
        lines = entry.splitlines()
        declared = _ENTRY.match(lines[0])
        if not declared:
            raise ValueError(f"native_functions.yaml has an entry that tools/drift/facts.py cannot read: {lines[0]}")
        name, schema = declared.groups()
        structured = any(re.match(r"  structured(_delegate)?: (?!False)", line) for line in lines)
        keys = {
            key.strip() for line in lines if (row := re.match(r"    (\w[\w, ]*): ", line)) for key in row[1].split(",")
        }
        keys = {key for key in keys if key in ("CPU", "Meta") or key.startswith("Composite")}
        found[name] = Operator(schema.strip(), structured, tuple(sorted(keys)))
        for line in lines:
            if line.startswith("  autogen: "):
                for generated in line.removeprefix("  autogen: ").split(","):
                    found[generated.strip()] = Operator(f"generated from {name}", False)
    return found


def record() -> Facts:
    """What the torch of this environment offers."""
    import torch
    import torchgen
    from torch.testing._internal import common_methods_invocations, common_modules, common_optimizers

    facts = record_headers(pathlib.Path(torch.__file__).parent / "include", torch.__version__)
    native = pathlib.Path(torchgen.__file__).parent / "packaged" / "ATen" / "native" / "native_functions.yaml"
    facts.operators = read_operators(native.read_text())
    optimizers: Iterable[Any] = common_optimizers.optim_db
    lists: dict[str, Iterable[str]] = {
        **{key: torch._C._dispatch_get_registrations_for_dispatch_key(key) for key in AUTOCAST},
        "op_db": (f"{op.name} {op.variant_test_name}".strip() for op in common_methods_invocations.op_db),
        "module_db": (module.name for module in common_modules.module_db),
        "optim_db": (optimizer.optim_cls.__name__ for optimizer in optimizers),
        DTYPES: (str(value) for value in vars(torch).values() if isinstance(value, torch.dtype)),
    }
    facts.names = {**{kind: sorted(set(names)) for kind, names in lists.items()}, **facts.names}
    return facts


def cut(versions: Sequence[Facts], kept: int = 3) -> list[Facts]:
    """The facts without operators and names that are the same in all versions, but for the first few of each kind."""

    def wanted(tables: Sequence[Mapping[str, object]]) -> set[str]:
        every = sorted({name for table in tables for name in table})
        same = [name for name in every if all(name in table and table[name] == tables[0][name] for table in tables)]
        return set(every) - set(same[kept:])

    operators = wanted([facts.operators for facts in versions])
    kinds = versions[0].names
    names = {kind: wanted([dict.fromkeys(facts.names[kind]) for facts in versions]) for kind in kinds}
    return [
        dataclasses.replace(
            facts,
            operators={name: operator for name, operator in facts.operators.items() if name in operators},
            names={kind: [name for name in facts.names[kind] if name in names[kind]] for kind in kinds},
        )
        for facts in versions
    ]
