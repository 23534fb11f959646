"""Compares the CUDA driver's own prototypes with cuda.h: python tools/checks/cuda_header_check.py FOLDER_OF_CUDA_H.

The driver is built without a toolkit, so nothing else would notice a wrong number. A compiler checks every number, the
size of every struct, and the number, size and kind of each function's parameters. The pip package
nvidia-cuda-runtime-cu12 has the header. The exit status is the compiler's.
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

OURS = Path(__file__).resolve().parents[2] / "packages" / "tb-device" / "drivers" / "cuda"
STRUCTS = {
    "CUuuid": "CUuuid",
    "CUipcMemHandle": "CUipcMemHandle",
    "CUipcEventHandle": "CUipcEventHandle",
    "CUmemLocation": "CUmemLocation",
    "CUmemAllocationProp": "CUmemAllocationProp",
    "CUmemAccessDesc": "CUmemAccessDesc",
    "CUDA_MEMCPY2D": "CUDA_MEMCPY2D_v2",
    "CUgraphExecUpdateResultInfo": "CUgraphExecUpdateResultInfo",
}
FIELDS = (
    ("CUDA_MEMCPY2D", "src_memory_type", "CUDA_MEMCPY2D_v2", "srcMemoryType"),
    ("CUDA_MEMCPY2D", "src_device", "CUDA_MEMCPY2D_v2", "srcDevice"),
    ("CUDA_MEMCPY2D", "dst_host", "CUDA_MEMCPY2D_v2", "dstHost"),
    ("CUDA_MEMCPY2D", "dst_pitch", "CUDA_MEMCPY2D_v2", "dstPitch"),
    ("CUDA_MEMCPY2D", "height", "CUDA_MEMCPY2D_v2", "Height"),
    ("CUmemAllocationProp", "location", "CUmemAllocationProp", "location"),
    ("CUmemAllocationProp", "flags", "CUmemAllocationProp", "allocFlags"),
    ("CUmemAccessDesc", "flags", "CUmemAccessDesc", "flags"),
)
SAME_SHAPE = """
#include <type_traits>
template <class A, class B> constexpr bool same_shape_one = sizeof(A) == sizeof(B) && alignof(A) == alignof(B) &&
  std::is_pointer_v<A> == std::is_pointer_v<B> && std::is_floating_point_v<A> == std::is_floating_point_v<B>;
template <class A, class B> constexpr bool same_shape = false;
template <class... A, class... B> constexpr bool same_shape<int (*)(A...), CUresult (*)(B...)> = [] {
  if constexpr (sizeof...(A) == sizeof...(B)) return (true && ... && same_shape_one<A, B>);
  else return false;
}();
"""


def source() -> str:
    """The C++ file whose compilation is the check."""
    header = (OURS / "cuda_api.h").read_text()
    listed = (OURS / "functions.inc").read_text()
    numbers = re.findall(r"^  (CUD?A?_\w+) = \d+,", header, re.MULTILINE)
    functions = re.findall(r"^CUDA_FUNCTION\(\w+, (\w+), \d+, (\w+),", listed, re.MULTILINE)
    # Our header comes first, because some of the toolkit's names are macros.
    lines = ['#include "cuda_api.h"', "namespace ours {", "using namespace tb::drivers::cuda;"]
    lines += [f"constexpr long number_{name} = {name};" for name in numbers]
    lines += [f"using struct_{name} = {name};" for name in STRUCTS]
    lines += [
        "struct Api {",
        "#define CUDA_FUNCTION(need, name, version, symbol, parameters) CUresult(*symbol) parameters;",
    ]
    lines += ['#include "functions.inc"', "};"]
    lines += [f"using type_{symbol} = decltype(Api::{symbol});" for _, symbol in functions]
    lines += [
        f"constexpr unsigned long offset_{ours}_{field} = __builtin_offsetof({ours}, {field});"
        for ours, field, _, _ in FIELDS
    ]
    lines += ["}", "#include <cuda.h>", SAME_SHAPE]
    lines += [f'static_assert(ours::number_{name} == long({name}), "{name}");' for name in numbers]
    lines += [f'static_assert(sizeof(ours::struct_{a}) == sizeof({b}), "{a}");' for a, b in STRUCTS.items()]
    lines += [
        f'static_assert(ours::offset_{ours}_{field} == __builtin_offsetof({theirs}, {its}), "{ours}.{field}");'
        for ours, field, theirs, its in FIELDS
    ]
    lines += [
        f'static_assert(same_shape<ours::type_{symbol}, decltype(&{symbol})>, "{symbol}");' for _, symbol in functions
    ]
    return "\n".join(lines) + "\n"


def main(arguments: list[str]) -> int:
    if len(arguments) != 1 or not (Path(arguments[0]) / "cuda.h").is_file():
        print(__doc__)
        return 2
    with tempfile.TemporaryDirectory() as scratch:
        file = Path(scratch) / "check.cpp"
        file.write_text(source())
        command = ["c++", "-std=c++20", "-fsyntax-only", "-I", str(OURS), "-isystem", arguments[0], str(file)]
        done = subprocess.run(command, check=False)
    if done.returncode == 0:
        print("every number, struct and prototype is that of", Path(arguments[0]) / "cuda.h")
    return done.returncode


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
