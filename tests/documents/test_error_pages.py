"""docs/errors.md has the texts that are raised: each is raised here and compared. <...> matches any text."""

from __future__ import annotations

import importlib.util
import json
import pathlib
import re
from typing import NamedTuple

import pytest
from conftest import ROOT, RunPython

PAGE = (ROOT / "docs" / "errors.md").read_text(encoding="utf-8")
TEXTS = dict(re.findall(r"^### ([^\n]+)\n\n```text\n(.*?)\n```$", PAGE, re.DOTALL | re.MULTILINE))

SPEC = importlib.util.find_spec("torch")
assert SPEC is not None
assert SPEC.origin is not None
A_LIBRARY = str(pathlib.Path(SPEC.origin).parent / "lib" / "libc10.so")

USE = 'torch.ones(1, device="tb")'
HALVE = """
@torch.library.custom_op("mine::halve", mutates_args=(), device_types="cpu")
def halve(x: torch.Tensor) -> torch.Tensor:
    return x / 2
halve(torch.ones(3, device="tb"))
"""
CAPTURE = """
x, graph = torch.ones(1, device="tb"), torch.tb.Graph()
with torch.tb.graph(graph):
    {call}
"""
# A replacement for tb_device._core whose export record has another major version.
OTHER_MAJOR = """
import ctypes, types
class Record(ctypes.Structure):
    _fields_ = [("magic", ctypes.c_char * 8), ("major", ctypes.c_uint16), ("minor", ctypes.c_uint16),
                ("table_size", ctypes.c_uint32), ("component", ctypes.c_char_p), ("version", ctypes.c_char_p),
                ("platform", ctypes.c_char_p), ("table", ctypes.c_void_p)]
table = (ctypes.c_uint32 * 64)(256)
record = Record(b"tbexport", 2, 0, 256, b"tb-device", b"9.8.7", b"linux-test", ctypes.addressof(table))
new = ctypes.pythonapi.PyCapsule_New
new.restype, new.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
name = b"tb.export.v1"
package, core = types.ModuleType("tb_device"), types.ModuleType("tb_device._core")
package.__path__, package._core = [], core
core._tb_export = new(ctypes.addressof(record), name, None)
sys.modules.update({"tb_device": package, "tb_device._core": core})
import tb_stream
"""

# These cases run in one interpreter, in this order.
TOGETHER = {
    "Use after fork": f"""
{USE}
read, write = os.pipe()
if os.fork() == 0:
    try:
        {USE}
    except RuntimeError as error:
        os.write(write, str(error).encode())
    os._exit(0)
os.wait()
raise RuntimeError(os.read(read, 9999).decode())
""",
    "No such device": 'torch.ones(1, device="tb:7")',
    "Tensor of another device type": 'torch.tb.memory_allocated("cpu")',
    "Fallback warning": """
with warnings.catch_warnings(record=True) as caught, contextlib.suppress(NotImplementedError):
    warnings.simplefilter("always")
    torch.ones(2, 2, device="tb").to_sparse()
raise caught[0].message
""",
    "Fallback budget is used up": """
x = torch.ones(4, device="tb")
with torch.tb.fallback_budget(0), torch.tb.force_fallback("aten::mode"):
    x.mode()
""",
    "No kernel anywhere": """
library = torch.library.Library("mine", "DEF")
library.define("nothing(Tensor x) -> Tensor")
torch.ops.mine.nothing(torch.ones(3, device="tb"))
""",
    "Quantized tensors": 'torch.quantize_per_tensor(torch.ones(2, device="tb"), 0.1, 0, torch.qint8)',
    "Tensors on two devices": 'torch.ones(2, device="tb") + torch.ones(2)',
    "Binary cross entropy under autocast": """
with torch.autocast("tb", dtype=torch.bfloat16):
    torch.nn.functional.binary_cross_entropy(torch.rand(3, device="tb"), torch.rand(3, device="tb"))
""",
    "Synchronizing operator": """
torch.tb.set_sync_debug_mode("error")
try:
    torch.ones(1, device="tb").item()
finally:
    torch.tb.set_sync_debug_mode("default")
""",
    "Out of memory": 'torch.empty(2**55, dtype=torch.uint8, device="tb")',
    "Out of memory under a limit": """
torch.tb.set_per_process_memory_fraction(0.001)
try:
    torch.empty(2**40, dtype=torch.uint8, device="tb")
finally:
    torch.tb.set_per_process_memory_fraction(1)
""",
    "Late error": 'torch.ones(3, device="tb")[torch.tensor([7], device="tb")].sum().item()',
    "Late error of another kind": """
torch.ones(2, 3, device="tb").gather(0, torch.tensor([[7]], device="tb"))
torch.tb.synchronize()
""",
    "Event without timing": """
first, second = torch.tb.Event(), torch.tb.Event()
first.record()
second.record()
second.synchronize()
first.elapsed_time(second)
""",
    "Graph without work": "torch.tb.Graph().replay()",
    "Waiting inside a capture": CAPTURE.format(call="x.item()"),
    "Copy from pageable memory inside a capture": CAPTURE.format(call="x.copy_(torch.ones(1))"),
    "Synchronizing inside a capture": CAPTURE.format(call="torch.tb.synchronize()"),
    "Closed driver": """
driver = tb_device.open("cpu")
driver.close()
driver.memory_info(0)
""",
    "The driver is chosen already": 'tb_device.use_driver("sim")',
}


class Alone(NamedTuple):
    """A case that needs its own interpreter, because of its variables or its effect on the process."""

    code: str
    variables: dict[str, str]


ALONE = {
    "Unknown driver": Alone(USE, {"TB_DRIVER": "mychip"}),
    "Driver library not found": Alone(USE, {"TB_DRIVER": "./libmychip.so"}),
    "The library is no driver": Alone(USE, {"TB_DRIVER": A_LIBRARY}),
    "Vendor library not found": Alone(USE, {"TB_DRIVER": "cuda", "TB_CUDA_LIBRARY": "/nowhere/libcuda.so"}),
    "Driver option out of range": Alone(USE, {"TB_CPU_DEVICES": "many"}),
    "Unknown layer": Alone(USE, {"TB_LAYERS": "validat"}),
    "Unknown fallback mode": Alone(USE, {"TB_FALLBACK": "maybe"}),
    "Unknown operator in TB_FORCE_FALLBACK": Alone(USE, {"TB_FORCE_FALLBACK": "aten::nothing"}),
    "Another version of PyTorch": Alone(f'torch.__version__ = "2.99.0"\n{USE}', {}),
    "Mismatched component versions": Alone(OTHER_MAJOR, {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}),
    "Component not installed": Alone(
        'sys.modules["tb_device"] = None\nimport tb_stream', {"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    ),
    "Fallback is forbidden": Alone(HALVE, {"TB_FALLBACK": "error"}),
    "Memory freed twice": Alone(
        "import tb_device\n"
        "driver = tb_device.default_driver()\n"
        "address = driver.mem_alloc(0, 64)\n"
        "driver.mem_free(0, address)\n"
        "driver.mem_free(0, address)",
        {"TB_LAYERS": "validate"},
    ),
}

# Prints a line of JSON for each piece of code: the type and the text of the exception.
RAISE = """
import contextlib, json, os, sys, warnings
import torch
{imports}
for code in json.loads({codes!r}):
    try:
        exec(compile(code, "example.py", "exec"), dict(globals()))
        said = "nothing was raised"
    except Exception as error:
        said = f"{{type(error).__name__}}: {{error}}"
    print(json.dumps(said), flush=True)
"""


def raised(run_python: RunPython, codes: list[str], variables: dict[str, str], imports: str = "") -> list[str]:
    script = RAISE.format(codes=json.dumps(codes), imports=imports)
    done = run_python(script, {"TB_DRIVER": "cpu", **variables})
    return [json.loads(line) for line in done.stdout.splitlines()]


def assert_said(title: str, said: str) -> None:
    """Compares a text with the page. Line breaks count as spaces, because the page wraps its lines."""
    parts = re.split(r"<[a-z ]+>", " ".join(TEXTS[title].split()))
    pattern = ".+?".join(map(re.escape, parts))
    assert re.fullmatch(pattern, " ".join(said.split())), f"docs/errors.md, {title}: what is raised is\n{said}"


def test_the_page_and_the_cases_are_the_same() -> None:
    assert sorted(TEXTS) == sorted([*TOGETHER, *ALONE])
    assert len(TEXTS) == PAGE.count("\n### ")


_said: list[str] = []


@pytest.fixture
def together(run_python: RunPython) -> dict[str, str]:
    """The exceptions of the cases that share an interpreter, which runs once for all tests of the file."""
    if not _said:
        _said.extend(raised(run_python, list(TOGETHER.values()), {}, "import tb_device"))
    return dict(zip(TOGETHER, _said, strict=True))


@pytest.mark.parametrize("title", TOGETHER)
def test_the_page_has_the_text_that_is_raised(title: str, together: dict[str, str]) -> None:
    assert_said(title, together[title])


@pytest.mark.parametrize("title", ALONE)
def test_the_page_has_the_text_that_a_separate_process_raises(title: str, run_python: RunPython) -> None:
    [said] = raised(run_python, [ALONE[title].code], ALONE[title].variables)
    assert_said(title, said)


def test_a_wrong_page_is_noticed() -> None:
    with pytest.raises(AssertionError, match="what is raised is"):
        assert_said("No such device", "AcceleratorError: something else")
