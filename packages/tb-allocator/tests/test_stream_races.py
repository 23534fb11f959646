"""Random programs on several streams and threads on the sim driver, which delays work and runs streams in any order
that the rules allow. The contents of blocks prove that no memory is reused while work on it is pending.

Each block is filled with its own pattern in the order of its stream. Other streams copy from it and are recorded, and
the block is freed at once. If another block gets the memory too early, it overwrites the pattern before the copies run.
TB_RACE_SECONDS: the seconds for which each program runs, 0.5 by default.
"""

from __future__ import annotations

import os

import pytest
from conftest import Python

SECONDS = os.environ.get("TB_RACE_SECONDS", "0.5")

CODE = """
import ctypes
import os
import random
import threading
import time
import tb_allocator
import tb_device
from tb_device import _core

OFFSETS = {name: offset for _, _, name, offset in _core.slots()}
FORGET = os.environ["FORGET"] == "1"
SEED = int(os.environ["SEED"])
pointer, i32, u32, u64 = ctypes.c_void_p, ctypes.c_int32, ctypes.c_uint32, ctypes.c_uint64

def call(name, *arguments):
    driver = tb_device.default_driver()
    address = pointer.from_address(driver.table_address + OFFSETS[name]).value
    status = ctypes.CFUNCTYPE(i32)(address)(pointer(driver.self_address), *arguments)
    assert status == 0, (name, status)

def made(name, *arguments):
    out = pointer()
    call(name, *arguments, ctypes.byref(out))
    return out

tb_device.default_driver()
streams = [made("stream_create", i32(0), i32(0), u64(0)) for _ in range(4)]
lock = threading.Lock()
counts = {"allocations": 0, "copies": 0, "wrong": 0}

class Block:
    def __init__(self, chance, pattern):
        self.size = 4 * chance.choice([chance.randint(1, 200), chance.randint(1, 20000), chance.randint(1, 400000)])
        self.stream = chance.choice(streams)
        self.buffer = tb_allocator.empty(self.size, stream=self.stream.value)
        self.pattern = pattern
        call("mem_set", i32(0), self.stream, pointer(self.buffer.ptr), u32(pattern), u32(4), u64(self.size // 4))

    def copy(self, chance, stream, samples):
        if stream is not self.stream:
            event = made("event_create", i32(0), u64(0))
            call("event_record", event, self.stream)
            call("stream_wait_event", stream, event)
            call("event_destroy", event)
            if not FORGET:
                self.buffer.record_stream(stream.value)
        for place in (0, chance.randrange(self.size // 4), self.size // 4 - 1):
            out = u32()
            source = pointer(self.buffer.ptr + 4 * place)
            call("mem_copy", i32(0), stream, ctypes.byref(out), source, u64(4), i32(2))
            samples.append((out, self.pattern))

def program(number, seed, steps, shared):
    chance = random.Random(seed)
    samples, mine, pattern = [], [], number << 24
    def check():
        with lock:
            counts["copies"] += len(samples)
            counts["wrong"] += sum(out.value != expected for out, expected in samples)
        samples.clear()
    for step in range(steps):
        choice = chance.random()
        if choice < 0.4 and len(mine) < 20:
            pattern += 1
            mine.append(Block(chance, pattern))
            counts["allocations"] += 1
        elif choice < 0.6 and mine:
            chance.choice(mine).copy(chance, chance.choice(streams), samples)
        elif choice < 0.95 and mine:
            block = mine.pop(chance.randrange(len(mine)))
            if shared is not None and chance.random() < 0.3:
                shared.append(block)
            else:
                block.buffer.free()
        elif choice < 0.97 and shared:
            try:
                shared.pop().buffer.free()  # of another thread
            except IndexError:
                pass
        elif choice < 0.98:
            call("stream_synchronize", chance.choice(streams))
    for block in mine:
        block.buffer.free()
    call("device_synchronize", i32(0))
    check()

end = time.monotonic() + float(os.environ["SECONDS"])
plan = tb_allocator.plan("step", warmup=1) if os.environ["MODE"] == "plan" else None
def rounds_of_programs():
    rounds, seed = 0, SEED
    while time.monotonic() < end or rounds < 4:
        rounds += 1
        if plan:  # the same each time, now and then another one
            with plan:
                program(1, SEED + (rounds % 7 == 6), 150, None)
            continue
        seed += 1
        if os.environ["MODE"] == "threads":
            shared = []
            threads = [threading.Thread(target=program, args=(n, 8 * seed + n, 120, shared)) for n in range(4)]
            for thread in threads: thread.start()
            for thread in threads: thread.join()
            while shared: shared.pop().buffer.free()
        else:
            program(1, seed, 300, None)

if FORGET:
    try:
        rounds_of_programs()
    except (AssertionError, tb_device.Error):
        counts["wrong"] += 1  # the driver saw work on memory that had been unmapped
    print(counts["wrong"], flush=True)
    os._exit(0)  # with work and memory as they are
rounds_of_programs()
if plan:
    assert plan.statistics()["replays"] >= 2 and plan.statistics()["handovers"] > 0, plan.statistics()
    plan.reset()
assert tb_allocator.memory_allocated() == 0
tb_allocator.empty_cache()
assert tb_allocator.memory_stats()["reserved_bytes.all.current"] == 0
for stream in streams: call("stream_destroy", stream)
assert counts["copies"] > 100, counts
print(counts["wrong"])
"""


def wrong(python: Python, mode: str, segments: str, seed: int, *, forget: bool = False) -> int:
    """Runs a program and returns the number of copies that read another block's bytes."""
    python.limit = 60 + 10 * int(float(SECONDS))
    printed = python.output(
        CODE,
        TB_DRIVER="sim",
        TB_SIM_SEED=str(seed),
        TB_SIM_DEVICES="1",
        TB_ALLOC_CONF=f"expandable_segments:{segments}",
        MODE=mode,
        SEED=str(seed),
        SECONDS=SECONDS,
        FORGET=str(int(forget)),
    )
    return int(printed)


@pytest.mark.parametrize("segments", ["True", "False"], ids=["pages", "segments"])
@pytest.mark.parametrize(
    ("mode", "seed"), [("one", 4), ("one", 5), ("threads", 8), ("threads", 9), ("plan", 12), ("plan", 13)]
)
def test_memory_is_not_reused_while_work_on_it_is_pending(python: Python, mode: str, seed: int, segments: str) -> None:
    assert wrong(python, mode, segments, seed) == 0


@pytest.mark.parametrize("mode", ["one", "plan"])
def test_a_program_that_records_no_stream_reads_wrong_bytes(python: Python, mode: str) -> None:
    assert wrong(python, mode, "True", 4, forget=True) > 0
