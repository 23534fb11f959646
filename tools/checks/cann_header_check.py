"""Compares our prototypes for Ascend with CANN's headers: python tools/checks/cann_header_check.py FOLDER.

The NPU driver and tb-ops' calls of aclnn are built without CANN, so nothing else would notice a wrong number or type.
FOLDER is the one that has acl/acl_rt.h, and aclnn/acl_meta.h and aclnnop/ beside it, as the toolkit installs them below
include/ (acl/ or aclnnop/ alone will do). A compiler compares

* the driver's numbers, structs and functions: drivers/npu/acl.h and functions.inc;
* the functions that describe arguments, the element types and the format: library.h and description.cpp of tb-ops;
* the parameters of both phases of each function that operators.yaml, or C++ beside it, calls.

A header must be const where we are, as it may not write what we only read. The reverse changes no call, nor do signs of
enums. What no header of FOLDER has is named, and not checked. The exit status is 0 if everything that was compared
agrees, 1 otherwise and if nothing was compared. The table is read by tb-ops' code generator, which needs PyYAML and the
torchgen of an installed PyTorch, but does not import torch.
"""

from __future__ import annotations

import functools
import importlib
import re
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

PACKAGES = Path(__file__).resolve().parents[2] / "packages"
DRIVER = PACKAGES / "tb-device" / "drivers" / "npu"
OPERATORS = PACKAGES / "tb-ops" / "src" / "backends" / "aclnn"

NUMBERS = {
    "host_to_device": "ACL_MEMCPY_HOST_TO_DEVICE",
    "device_to_host": "ACL_MEMCPY_DEVICE_TO_HOST",
    "device_to_device": "ACL_MEMCPY_DEVICE_TO_DEVICE",
    "huge_pages_first": "ACL_MEM_MALLOC_HUGE_FIRST",
    "hbm": "ACL_HBM_MEM",
    "hbm_huge": "ACL_HBM_MEM_HUGE",
    "location_host": "ACL_MEM_LOCATION_TYPE_HOST",
    "location_device": "ACL_MEM_LOCATION_TYPE_DEVICE",
    "minimum_option": "ACL_RT_MEM_ALLOC_GRANULARITY_MINIMUM",
    "recommended": "ACL_RT_MEM_ALLOC_GRANULARITY_RECOMMENDED",
    "register_mapped": "ACL_HOST_REGISTER_MAPPED",
    "ai_cores": "ACL_DEV_ATTR_AICORE_CORE_NUM",
    "cube_cores": "ACL_DEV_ATTR_CUBE_CORE_NUM",
    "vector_cores": "ACL_DEV_ATTR_VECTOR_CORE_NUM",
    "total_memory_key": "ACL_DEV_ATTR_TOTAL_GLOBAL_MEM_SIZE",
    "l2_bytes": "ACL_DEV_ATTR_L2_CACHE_SIZE",
    "stream_fast_launch": "ACL_STREAM_FAST_LAUNCH",
    "stream_fast_sync": "ACL_STREAM_FAST_SYNC",
    "event_sync": "ACL_EVENT_SYNC",
    "event_time_line": "ACL_EVENT_TIME_LINE",
    "stream_complete": "ACL_STREAM_STATUS_COMPLETE",
    "stream_not_ready": "ACL_STREAM_STATUS_NOT_READY",
    "event_not_ready": "ACL_EVENT_RECORDED_STATUS_NOT_READY",
    "event_complete": "ACL_EVENT_RECORDED_STATUS_COMPLETE",
    "success": "ACL_SUCCESS",
    "repeat_initialize": "ACL_ERROR_REPEAT_INITIALIZE",
    "compiling_stub": "ACL_ERROR_COMPILING_STUB_MODE",
    "context_null": "ACL_ERROR_RT_CONTEXT_NULL",
    "timestamp_reversed": "ACL_ERROR_RT_EVENT_TIMESTAMP_REVERSAL",
}
STRUCTS = {
    "MemoryLocation": ("aclrtMemLocation", {"id": "id", "type": "type"}),
    "PhysicalProperties": (
        "aclrtPhysicalMemProp",
        {
            "handle_type": "handleType",
            "allocation_type": "allocationType",
            "attribute": "memAttr",
            "location": "location",
            "reserve": "reserve",
        },
    ),
    "PointerAttributes": (
        "aclrtPtrAttributes",
        {"location": "location", "page_size": "pageSize", "reserve": "rsv"},
    ),
    "Uuid": ("aclrtUuid", {"bytes": "bytes"}),
}
OBJECTS = {
    "Tensor": "aclTensor",
    "Scalar": "aclScalar",
    "IntArray": "aclIntArray",
    "BoolArray": "aclBoolArray",
    "TensorList": "aclTensorList",
    "Executor": "aclOpExecutor",
}
ELEMENT_TYPES = {
    "kFloat": "ACL_FLOAT",
    "kHalf": "ACL_FLOAT16",
    "kChar": "ACL_INT8",
    "kInt": "ACL_INT32",
    "kByte": "ACL_UINT8",
    "kShort": "ACL_INT16",
    "kLong": "ACL_INT64",
    "kDouble": "ACL_DOUBLE",
    "kBool": "ACL_BOOL",
    "kComplexFloat": "ACL_COMPLEX64",
    "kComplexDouble": "ACL_COMPLEX128",
    "kBFloat16": "ACL_BF16",
}
INPUT, OUTPUT, SCALAR, INTEGERS = "const aclTensor *", "aclTensor *", "const aclScalar *", "const aclIntArray *"
# The parameters by the words of operators.yaml and, for arguments without a word, by their type in PyTorch's schema.
WORDS = {
    **dict.fromkeys(("given", "tensor"), INPUT),
    **dict.fromkeys(("number", "none"), SCALAR),
    **dict.fromkeys(("dims", "ints"), INTEGERS),
    **{each: f"{each}_t" for each in ("int8", "int32", "int64", "uint64")},
    **{"type": "aclDataType", "text": "char *", "bool": "bool", "float": "float"},
}
SCHEMA_TYPES = {
    **dict.fromkeys(("Tensor", "Tensor?"), INPUT),
    **dict.fromkeys(("Scalar", "Scalar?"), SCALAR),
    **dict.fromkeys(("int", "SymInt"), "int64_t"),
    **{"float": "double", "bool": "bool", "bool[3]": "const aclBoolArray *"},
}
# The calls that are written in C++ (OPERATORS/*.cpp), where only the compiler knows the types.
BY_HAND = {
    "InplaceCopy": [OUTPUT, INPUT],
    "Cast": [INPUT, "aclDataType", OUTPUT],
    "Cat": ["const aclTensorList *", "int64_t", OUTPUT],
    "Arange": [SCALAR, SCALAR, SCALAR, OUTPUT],
    "ApplyAdamWV2": [*[OUTPUT] * 4, *[INPUT] * 2, *["float"] * 5, "bool", "bool"],
}

COMPARISON = """
#include <type_traits>
template <class Ours> struct Paired { using type = Ours; };
template <class Ours, class Theirs> struct Same : std::is_same<typename Paired<Ours>::type, Theirs> {};
template <class Ours, class Theirs> constexpr bool same() {
  if constexpr (std::is_enum_v<Theirs>)
    return (std::is_integral_v<Ours> || std::is_enum_v<Ours>) && sizeof(Ours) == sizeof(Theirs);
  else
    return Same<Ours, Theirs>::value;
}
template <class Ours, class Theirs> struct Same<Ours *, Theirs *>
    : std::bool_constant<(std::is_const_v<Theirs> || !std::is_const_v<Ours>) &&
                         same<std::remove_cv_t<Ours>, std::remove_cv_t<Theirs>>()> {};
template <class R, class... A, class S, class... B> struct Same<R(A...), S(B...)> {
  static constexpr bool value = [] {
    if constexpr (sizeof...(A) == sizeof...(B)) return same<R, S>() && (true && ... && same<A, B>());
    else return false;
  }();
};
template <class Name, class Ours, class Theirs> struct Compare {
  static_assert(same<Ours, Theirs>(), "our type, the first of the two, is not that of the header");
};
"""


def code(file: Path) -> str:
    """The text of a C++ file without its comments."""
    return re.sub(r"/\*.*?\*/|//[^\n]*", " ", file.read_text(encoding="utf-8", errors="replace"), flags=re.DOTALL)


@dataclass
class Comparison:
    """The C++ file whose compilation is the check, and what is compared by it."""

    folder: Path
    ours: list[str] = field(default_factory=list)
    """Lines before the headers."""
    checks: list[str] = field(default_factory=list)
    """Lines behind the headers."""
    included: set[str] = field(default_factory=set)
    counts: dict[str, int] = field(default_factory=dict)
    absent: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        # Words that are declared or defined, with the first file that has them. Files in subfolders repeat others.
        self.places: dict[str, str] = {}
        for pattern in ("acl/acl*.h", "acl/error_codes/*.h", "aclnn/acl_meta.h", "aclnnop/aclnn_*.h"):
            for file in sorted(self.folder.glob(pattern)):
                for name in re.findall(r"\bacl\w+(?=\s*\()|(?<=})\s*acl\w+(?=\s*;)|\bACL_\w+", code(file)):
                    self.places.setdefault(name.strip(), str(file.relative_to(self.folder)))

    def has(self, kind: str, name: str) -> bool:
        """Whether a header has this name, which counts it as compared; its header is included then."""
        self.counts.setdefault(kind, 0)
        if name not in self.places:
            self.absent.append(name)
            return False
        self.counts[kind] += 1
        self.included.add(self.places[name])
        return True

    def pair(self, ours: str, theirs: str) -> None:
        self.checks.append(f"template <> struct Paired<{ours}> {{ using type = {theirs}; }};")

    def compare(self, name: str, ours: str, theirs: str) -> None:
        self.checks.append(f"template struct Compare<struct our_{name}, {ours}, {theirs}>;")

    def equal(self, name: str, ours: str, theirs: str) -> None:
        self.checks.append(f'static_assert(long({ours}) == long({theirs}), "{name}");')

    def source(self) -> str:
        """The whole file. Our lines come first, because some of the toolkit's names are macros."""
        headers = [f"#include <{header}>" for header in sorted(self.included)]
        return "\n".join([*self.ours, *headers, COMPARISON, *self.checks]) + "\n"


def add_driver(comparison: Comparison) -> None:
    """The driver's numbers, structs and functions."""
    acl, listed = code(DRIVER / "acl.h"), code(DRIVER / "functions.inc")
    comparison.ours += ['#include "drivers/npu/acl.h"', '#include "drivers/npu/library.h"']
    enums = " ".join(re.findall(r"enum : \w+ {(.*?)}", acl, re.DOTALL))
    for name in re.findall(r"(\w+) =", enums):
        if comparison.has("numbers", NUMBERS[name]):
            comparison.equal(name, f"tb::drivers::npu::acl::{name}", NUMBERS[name])
    for name in re.findall(r"struct (\w+) {", acl):
        theirs, fields = STRUCTS[name]
        if not comparison.has("structs", theirs):
            continue
        ours = f"tb::drivers::npu::acl::{name}"
        comparison.pair(ours, theirs)
        comparison.equal(name, f"sizeof({ours})", f"sizeof({theirs})")
        for mine, its in fields.items():
            offsets = [f"__builtin_offsetof({ours}, {mine})", f"__builtin_offsetof({theirs}, {its})"]
            comparison.equal(f"{name}.{mine}", *offsets)
            comparison.compare(f"{name}_{mine}", f"decltype({ours}::{mine})", f"decltype({theirs}::{its})")
    for name in re.findall(r"TB_ACL(?:_TEXT)?\((?:\w+,\s*)?(acl\w+)", listed):
        if comparison.has("functions of libascendcl", name):
            comparison.compare(name, f"decltype(tb::drivers::npu::Library::{name}.pointer)", f"decltype(&{name})")


def add_descriptions(comparison: Comparison) -> None:
    """What describes arguments to aclnn."""
    comparison.ours.append('#include "backends/aclnn/library.h"')
    described = code(OPERATORS / "description.cpp")
    for name, number in re.findall(r"{c10::(k\w+), (\d+)}", described):
        if comparison.has("element types and formats", ELEMENT_TYPES[name]):
            comparison.equal(name, number, ELEMENT_TYPES[name])
    [plain] = re.findall(r"format_plain = (\d+);", described)
    if comparison.has("element types and formats", "ACL_FORMAT_ND"):
        comparison.equal("format_plain", plain, "ACL_FORMAT_ND")
    taken = re.findall(r'take\(out\.(\w+), "(\w+)"', code(OPERATORS / "library.cpp"))
    found = [each for each in taken if comparison.has("functions about arguments", each[1])]
    if found:
        for ours, theirs in OBJECTS.items():
            comparison.checks.append(f"struct {theirs};")
            comparison.pair(f"tb::ops::aclnn::native::{ours}", theirs)
    for ours, theirs in found:
        comparison.compare(f"{theirs}_{ours}", f"decltype(tb::ops::aclnn::Library::{ours})", f"decltype(&{theirs})")


@functools.cache
def calls() -> dict[str, list[tuple[str, list[str]]]]:
    """For each function of aclnn, the operators that call it and the C types of the parameters that they pass."""
    # As tb-ops' build does: importing tb_ops would import torch.
    sys.path.append(str(PACKAGES / "tb-ops" / "src" / "tb_ops"))
    schema = importlib.import_module("codegen.schema")
    table = importlib.import_module("codegen.aclnn.table")
    out: dict[str, list[tuple[str, list[str]]]] = {}
    for entry in table.read(OPERATORS / "operators.yaml", schema.installed()).entries:
        for call in filter(None, (entry.plain, entry.number)):
            parameters = [parameter(entry, argument) for argument in call.arguments]
            out.setdefault(call.function, []).append((entry.operator.symbol, parameters))
    named = {name for file in OPERATORS.glob("*.cpp") for name in re.findall(r'function<"(\w+)">', code(file))}
    for name in sorted(named - out.keys()):
        out[name] = [("by_hand", BY_HAND[name])]
    return out


def parameter(entry: Any, argument: Any) -> str:
    """The C type that is passed for an argument of the table."""
    if argument.kind:
        return WORDS[argument.kind]
    if argument.text in entry.out_names:
        return OUTPUT
    [declared] = [each for each in entry.operator.arguments if each.name == argument.text]
    is_list = declared.schema_type.startswith(("int[", "SymInt["))
    return INTEGERS if is_list else SCHEMA_TYPES[declared.schema_type]


def add_operators(comparison: Comparison) -> None:
    """Both phases of the functions that compute operators."""
    second = "int32_t (*)(void *, uint64_t, aclOpExecutor *, void *)"
    for function, callers in calls().items():
        plan, start = f"aclnn{function}GetWorkspaceSize", f"aclnn{function}"
        if comparison.has("functions of aclnn", plan):
            for operator, parameters in callers:
                ours = f"int32_t (*)({', '.join([*parameters, 'uint64_t *', 'aclOpExecutor **'])})"
                comparison.compare(f"{plan}_{operator}", ours, f"decltype(&{plan})")
            comparison.counts["calls of them"] = comparison.counts.get("calls of them", 0) + len(callers)
            comparison.compare(start, second, f"decltype(&{start})")


def main(arguments: list[str]) -> int:
    if len(arguments) != 1 or not Path(arguments[0]).is_dir():
        print(__doc__)
        return 2
    comparison = Comparison(Path(arguments[0]))
    for add in (add_driver, add_descriptions, add_operators):
        add(comparison)
    if not comparison.included:
        print(f"nothing was compared: {arguments[0]} has no acl/*.h and aclnnop/*.h; name the toolkit's include folder")
        return 1
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / "check.cpp"
        file.write_text(comparison.source())
        ours = [PACKAGES / "tb-device", PACKAGES.parent / "shared" / "include", OPERATORS.parents[1]]
        theirs = [comparison.folder, comparison.folder / "aclnnop"]
        folders = [*(f"-I{folder}" for folder in ours), *(f"-isystem{folder}" for folder in theirs)]
        done = subprocess.run(["c++", "-std=c++20", "-fsyntax-only", *folders, str(file)], check=False)
    print("compared:", ", ".join(f"{count} {kind}" for kind, count in comparison.counts.items()))
    if comparison.absent:
        print(f"not checked, no header has them ({len(comparison.absent)}):", ", ".join(comparison.absent))
    print("they differ: see the compiler's errors above" if done.returncode else "all of it is that of the headers")
    return 1 if done.returncode else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
