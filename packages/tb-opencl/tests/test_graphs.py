"""Captured work as command buffers: kernels and their failures, copies that OpenCL has no command for, refusals."""

from __future__ import annotations

import pytest
from conftest import Library, Python, lines

GRAPHS = """
from ctypes import byref, c_int32, c_uint32, c_uint64, c_void_p

NAMES = ["capture_begin", "capture_is_active", "capture_end", "graph_node_count", "graph_destroy", "graph_instantiate",
         "graph_launch", "graph_update", "graph_exec_destroy"]
table = (c_uint64 * (1 + len(NAMES)))()

class Launch(ctypes.Structure):
    _fields_ = [("struct_size", c_uint32), ("arg_count", c_uint32), ("grid", c_uint32 * 3), ("block", c_uint32 * 3),
                ("shared_size", c_uint64), ("args", c_void_p), ("arg_sizes", c_void_p), ("next", c_void_p)]

def offered():
    return slot("get_extension")(b"tb.graph", c_uint32(1), byref(table), c_uint32(ctypes.sizeof(table)))

def graph(name):
    function = ctypes.CFUNCTYPE(c_int32)(table[1 + NAMES.index(name)])
    return lambda *arguments: function(c_void_p(driver.self_address), *arguments)

def made(function, *arguments):
    handle = c_void_p()
    assert function(*arguments, byref(handle)) == 0
    return handle

def new_stream():
    return made(slot("stream_create"), 0, 0, c_uint64(0))

def new_memory(size):
    return made(slot("mem_alloc"), 0, c_uint64(size), c_uint64(0))

def function_of(source):
    return made(slot("module_function"), made(slot("module_load"), 0, source, c_uint64(len(source)), None), b"f")

def launch(stream, function, *values):
    arguments = (c_void_p * len(values))(*(ctypes.addressof(value) for value in values))
    sizes = (c_uint64 * len(values))(*(ctypes.sizeof(value) for value in values))
    places = ctypes.addressof(arguments), ctypes.addressof(sizes)
    config = Launch(ctypes.sizeof(Launch), len(values), (1, 1, 1), (4, 1, 1), 0, *places)
    return slot("launch")(stream, function, byref(config))

def words(memory, count):
    out = (c_uint32 * count)()
    assert slot("mem_copy")(0, stream, out, memory, c_uint64(4 * count), 2) == 0
    assert slot("stream_synchronize")(stream) == 0
    return list(out)

def offset(memory, bytes):
    return c_void_p(memory.value + bytes)

def captured(captures):
    whole = made(graph("capture_end"), captures)
    count = c_uint64()
    assert graph("graph_node_count")(whole, byref(count)) == 0
    return made(graph("graph_instantiate"), whole, c_uint64(0)), count.value

def run(executable):
    status = graph("graph_launch")(executable, other)
    return status or slot("stream_synchronize")(other)

if offered() == 0:
    captures, other = new_stream(), new_stream()
"""


@pytest.mark.parametrize("memory", ["fine", "usm", "coarse"])
def test_captured_kernels_keep_the_values_of_their_arguments(
    memory: str, python: Python, intel: dict[str, str]
) -> None:
    code = """
add = function_of(b"__kernel void f(__global uint *x, uint y) { x[get_global_id(0)] += y; }")
memory, number = new_memory(16), c_uint32(5)
assert slot("mem_set")(0, stream, memory, c_uint32(0), c_uint32(4), c_uint64(4)) == 0
assert slot("stream_synchronize")(stream) == 0
assert graph("capture_begin")(captures, c_uint64(0)) == 0
for _ in range(3):
    assert launch(captures, add, memory, number) == 0
    number.value *= 10
executable, count = captured(captures)
assert launch(stream, add, memory, c_uint32(7)) == 0  # sets the arguments of the function's own kernel object
assert slot("stream_synchronize")(stream) == 0
assert [run(executable), run(executable)] == [0, 0]
print(count, words(memory, 4))
"""
    assert lines(python, {**intel, "TB_OPENCL_MEMORY": memory}, GRAPHS + code) == [f"3 {[7 + 2 * 555] * 4}"]


def test_a_check_that_fails_in_a_graph_is_reported_once_a_launch(python: Python, intel: dict[str, str]) -> None:
    code = """
check = function_of(b"__kernel void f(__global uint *x, __global ulong *failures, ulong number)"
                    b" { if (x[get_global_id(0)] > 9) *failures = number | 11; }")
memory = new_memory(16)
def fill(value):
    assert slot("mem_set")(0, stream, memory, c_uint32(value), c_uint32(4), c_uint64(4)) == 0
    assert slot("stream_synchronize")(stream) == 0
fill(1)
assert graph("capture_begin")(captures, c_uint64(0)) == 0
assert launch(captures, check, memory) == 0
executable, _ = captured(captures)
for value in (1, 10, 11, 2):
    fill(value)
    print(run(executable), slot("stream_synchronize")(other), slot("stream_synchronize")(stream))
"""
    out_of_range = 11
    assert lines(python, intel, GRAPHS + code) == ["0 0 0", *[f"{out_of_range} 0 0"] * 2, "0 0 0"]


def test_a_call_that_becomes_several_commands_is_one_node(python: Python, intel: dict[str, str]) -> None:
    code = """
class Copy(ctypes.Structure):
    _fields_ = [("struct_size", c_uint32), ("kind", c_int32), ("dst", c_void_p), ("src", c_void_p),
                ("dst_pitch", c_uint64), ("src_pitch", c_uint64), ("width", c_uint64), ("height", c_uint64)]
memory = new_memory(64)
host = (c_uint32 * 16)(*range(16))
assert slot("mem_copy")(0, stream, memory, host, c_uint64(64), 1) == 0
assert slot("stream_synchronize")(stream) == 0
assert graph("capture_begin")(captures, c_uint64(0)) == 0
assert slot("mem_copy")(0, captures, offset(memory, 4), memory, c_uint64(12), 3) == 0  # the ranges overlap
assert slot("mem_set")(0, captures, offset(memory, 17), c_uint32(0x01010101), c_uint32(4), c_uint64(2)) == 0
rows = Copy(ctypes.sizeof(Copy), 3, offset(memory, 32), memory, 16, 8, 4, 2)
assert slot("mem_copy_2d")(0, captures, byref(rows)) == 0
executable, count = captured(captures)
assert run(executable) == 0
print(count, *(hex(word) for word in words(memory, 16)))
assert graph("graph_exec_destroy")(executable) == 0
"""
    expected = "3 0x0 0x0 0x1 0x2 0x1010104 0x1010101 0x1 0x7 0x0 0x9 0xa 0xb 0x1 0xd 0xe 0xf"
    assert lines(python, intel, GRAPHS + code) == [expected]


def test_what_cannot_be_captured_is_refused_and_the_capture_goes_on(python: Python, intel: dict[str, str]) -> None:
    code = """
from device_table import describe
memory, joins, event = new_memory(16), new_stream(), made(slot("event_create"), 0, c_uint64(0))
assert graph("capture_begin")(captures, c_uint64(0)) == 0
assert slot("mem_set")(0, captures, memory, c_uint32(3), c_uint32(4), c_uint64(4)) == 0
call = ctypes.CFUNCTYPE(None, c_void_p, c_int32)(lambda *_: None)
print(describe(slot("stream_host_call")(captures, call, None), "stream_host_call", 0))
assert slot("event_record")(event, captures) == 0
print(describe(slot("event_query")(event), "event_query", 0))
print(describe(slot("stream_wait_event")(stream, event), "stream_wait_event", 0))
assert slot("stream_wait_event")(joins, event) == 0
assert slot("event_record")(event, joins) == 0 and slot("stream_wait_event")(captures, event) == 0
assert slot("stream_destroy")(joins) == 0
executable, count = captured(captures)
assert graph("capture_begin")(captures, c_uint64(0)) == 0
print(describe(graph("graph_launch")(executable, captures), "graph_launch", 0))
assert slot("stream_destroy")(captures) == 0
print(describe(slot("stream_wait_event")(stream, event), "stream_wait_event", 0))
assert run(executable) == 0
print(count, words(memory, 1))
"""
    found = lines(python, intel, GRAPHS + code)
    assert [text for text in found if "captures no call of a function of the host" in text]
    assert [text for text in found if "it stands for no moment" in text]
    assert [text for text in found if "a default stream cannot wait for an event of a capture" in text]
    assert [text for text in found if "captures no graph in a graph" in text]
    assert [text for text in found if "recorded in a capture that has ended" in text]
    assert found[-1] == "1 [3]"


def test_a_stream_destroyed_before_it_was_waited_for_drops_the_capture(python: Python, intel: dict[str, str]) -> None:
    code = """
memory, joins, event = new_memory(16), new_stream(), made(slot("event_create"), 0, c_uint64(0))
assert graph("capture_begin")(captures, c_uint64(0)) == 0
assert slot("event_record")(event, captures) == 0 and slot("stream_wait_event")(joins, event) == 0
assert slot("mem_set")(0, joins, memory, c_uint32(3), c_uint32(4), c_uint64(4)) == 0
assert slot("stream_destroy")(joins) == 0
print(graph("capture_end")(captures, byref(c_void_p())), slot("stream_synchronize")(captures))
"""
    failed_precondition = 9
    assert lines(python, intel, GRAPHS + code) == [f"{failed_precondition} 0"]


OLD = """
#include <stddef.h>
#include <string.h>
#include <dlfcn.h>
int clGetDeviceInfo(void *device, unsigned fact, size_t size, void *value, size_t *out) {
  int (*real)(void *, unsigned, size_t, void *, size_t *) = dlsym(RTLD_NEXT, "clGetDeviceInfo");
  int code = real(device, fact, size, value, out);
  if (fact == 0x1060 && value) /* CL_DEVICE_EXTENSIONS_WITH_VERSION */
    for (char *at = value; at + 68 <= (char *)value + size; at += 68)
      if (!strcmp(at + 4, "cl_khr_command_buffer")) *(unsigned *)at = 9 << 12;
  return code;
}
"""


def test_without_copies_between_pointers_there_are_no_graphs(
    python: Python, intel: dict[str, str], library: Library
) -> None:
    code = """
from device_table import describe
print(describe(offered(), "get_extension", 0))
"""
    [text] = lines(python, {**intel, "TB_OPENCL_LIBRARY": str(library("#define _GNU_SOURCE\n" + OLD))}, GRAPHS + code)
    assert "there are no graphs (tb.graph)" in text
    assert "has cl_khr_command_buffer 0.9.0, and shared memory needs 0.9.5" in text
