"""Failures of OpenCL become errors with its own number and name, and the process goes on."""

from __future__ import annotations

from conftest import Library, Python, lines


def test_more_memory_than_there_is(python: Python, intel: dict[str, str]) -> None:
    first, second = lines(
        python,
        intel,
        """
attempt("huge", lambda: device.allocate(1 << 50))
attempt("small", lambda: device.allocate(64))
""",
    )
    assert first.startswith("huge OutOfMemoryError")
    assert f"{1 << 50} bytes were asked for; the device gives at most" in first
    assert second == "small worked"


def test_an_allocation_that_opencl_refuses(python: Python, intel: dict[str, str], library: Library) -> None:
    failing = library("void *clSVMAlloc(void) { return 0; }")
    done = python.run("import tb_device; tb_device.load_driver('opencl')", **intel, TB_OPENCL_LIBRARY=str(failing))
    assert "OutOfMemoryError" in done.stderr
    assert "no memory for a stream's word of failures" in done.stderr


LOST = """
int clEnqueueSVMMemcpy(void) { return -2; } /* CL_DEVICE_NOT_AVAILABLE */
"""


def test_a_device_that_is_lost(python: Python, intel: dict[str, str], library: Library) -> None:
    found = lines(
        python,
        {**intel, "TB_OPENCL_LIBRARY": str(library(LOST))},
        """
memory = device.allocate(64)
attempt("copy", lambda: tb_device.copy(memory, b"x" * 64))
memory.free()
attempt("close", driver.close)
""",
    )
    assert found[0].startswith("copy DeviceLostError")
    assert "queueing a copy failed: CL_DEVICE_NOT_AVAILABLE (-2)" in found[0]
    assert found[1] == "close worked"


def test_images_that_do_not_build(python: Python, intel: dict[str, str]) -> None:
    found = lines(
        python,
        intel,
        """
from device_table import describe
def load(image):
    module = ctypes.c_void_p()
    status = slot("module_load")(0, image, ctypes.c_uint64(len(image)), None, ctypes.byref(module))
    print(status, describe(status, "module_load", 0) if status else slot("module_unload")(module))
load(b"__kernel void f(__global int *x) { *x = nonsense; }")
load(bytes(range(64)))
load(b"__kernel void f(__global int *x) { *x = 1; }")
""",
    )
    assert found[0].startswith("3 ")
    assert any("undeclared identifier 'nonsense'" in line for line in found)  # as the implementation says it
    assert any("neither SPIR-V, nor LLVM's bitcode of SPIR, nor OpenCL C" in line for line in found)
    assert found[-1] == "0 0"


def test_ten_thousand_steps_leak_nothing(python: Python, intel: dict[str, str]) -> None:
    python.limit = 300
    found = lines(
        python,
        intel,
        """
import gc, resource
module, function = ctypes.c_void_p(), ctypes.c_void_p()
image = b"__kernel void add(__global int *x, int y) { x[get_global_id(0)] += y; }"
assert slot("module_load")(0, image, ctypes.c_uint64(len(image)), None, ctypes.byref(module)) == 0
assert slot("module_function")(module, b"add", ctypes.byref(function)) == 0

class Launch(ctypes.Structure):
    _fields_ = [("struct_size", ctypes.c_uint32), ("arg_count", ctypes.c_uint32), ("grid", ctypes.c_uint32 * 3),
                ("block", ctypes.c_uint32 * 3), ("shared_size", ctypes.c_uint64), ("args", ctypes.c_void_p),
                ("arg_sizes", ctypes.c_void_p), ("next", ctypes.c_void_p)]

def step(number):
    memory, value = ctypes.c_void_p(), ctypes.c_int32(number)
    event, other = ctypes.c_void_p(), ctypes.c_void_p()
    assert slot("mem_alloc")(0, ctypes.c_uint64(4096), ctypes.c_uint64(0), ctypes.byref(memory)) == 0
    assert slot("stream_create")(0, 0, ctypes.c_uint64(0), ctypes.byref(other)) == 0
    assert slot("event_create")(0, ctypes.c_uint64(0), ctypes.byref(event)) == 0
    assert slot("mem_set")(0, other, memory, 0, 4, ctypes.c_uint64(1024)) == 0
    arguments = (ctypes.c_void_p * 2)(ctypes.addressof(memory), ctypes.addressof(value))
    sizes = (ctypes.c_uint64 * 2)(8, 4)
    addresses = ctypes.addressof(arguments), ctypes.addressof(sizes)
    launch = Launch(ctypes.sizeof(Launch), 2, (16, 1, 1), (64, 1, 1), 0, *addresses)
    assert slot("launch")(other, function, ctypes.byref(launch)) == 0
    assert slot("event_record")(event, other) == 0
    assert slot("stream_wait_event")(stream, event) == 0
    result = (ctypes.c_int32 * 1024)()
    assert slot("mem_copy")(0, stream, result, memory, ctypes.c_uint64(4096), 2) == 0
    assert slot("stream_synchronize")(stream) == 0
    assert set(result) == {number}
    for name, handle in (("event_destroy", event), ("stream_destroy", other)):
        assert slot(name)(handle) == 0
    assert slot("mem_free")(0, memory) == 0

def resident():
    return int(open("/proc/self/statm").read().split()[1]) * resource.getpagesize()

for number in range(2000):
    step(number)
before = resident()
for number in range(10000):
    step(number)
print((resident() - before) / 10000)
assert slot("module_unload")(module) == 0
driver.close()
""",
    )
    assert float(found[-1]) < 100  # bytes a step: what the allocators of the process keep
