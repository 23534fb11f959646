"""The device allocator: reuse in stream order, statistics, limits, and running out of memory."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import tb_allocator
import tb_device
from conftest import Python, Stream

MiB = 1 << 20
MakeStream = Callable[[], Stream]


def test_freed_memory_is_handed_out_again_on_the_same_stream_at_once(make_stream: MakeStream) -> None:
    stream = make_stream()
    stream.hold()
    first = tb_allocator.empty(5000, stream=stream)
    address = first.ptr
    first.free()
    with tb_allocator.empty(5000, stream=stream) as again:
        assert again.ptr == address


def test_freed_memory_is_not_handed_to_another_stream(make_stream: MakeStream) -> None:
    first = tb_allocator.empty(5000, stream=make_stream())
    address = first.ptr
    first.free()
    with tb_allocator.empty(5000, stream=make_stream()) as other:
        assert other.ptr != address


def test_a_recorded_stream_keeps_freed_memory_until_its_work_is_done(make_stream: MakeStream) -> None:
    own, user = make_stream(), make_stream()
    buffer = tb_allocator.empty(5000, stream=own)
    address = buffer.ptr
    buffer.record_stream(user)
    gate = user.hold()
    buffer.free()
    stats = tb_allocator.memory_stats()
    assert (stats["allocation.all.current"], stats["active.all.current"]) == (0, 1)
    with tb_allocator.empty(5000, stream=own) as other:
        assert other.ptr != address
    gate.set()
    tb_device.synchronize()
    blocks = [tb_allocator.empty(5000, stream=own) for _ in range(2)]
    assert address in [block.ptr for block in blocks]


def test_emptying_the_cache_waits_for_work_on_freed_memory(make_stream: MakeStream) -> None:
    own, user = make_stream(), make_stream()
    done: list[str] = []
    buffer = tb_allocator.empty(5000, stream=own)
    buffer.record_stream(user)
    own.call(lambda: done.append("own"))
    user.call(lambda: done.append("user"))
    buffer.free()
    tb_allocator.empty_cache()
    assert sorted(done) == ["own", "user"]
    assert tb_allocator.memory_reserved() == 0


def test_a_stream_may_be_given_by_its_address(make_stream: MakeStream) -> None:
    stream = make_stream()
    with tb_allocator.empty(10, stream=stream.handle.value) as buffer:
        assert buffer.stream == stream.handle.value


def test_without_tb_stream_the_default_stream_is_taken(python: Python) -> None:
    code = """
    import sys
    sys.modules["tb_stream"] = None
    import tb_allocator
    buffers = [tb_allocator.empty(10) for _ in range(2)]
    print(buffers[0].stream == buffers[1].stream != 0)
    """
    assert python.output(code) == "True"


def test_statistics_have_pytorchs_keys_and_meaning() -> None:
    with tb_allocator.empty(700), tb_allocator.empty(3 * MiB):
        stats = tb_allocator.memory_stats()
    assert stats["allocation.all.current"] == 2
    assert stats["allocated_bytes.all.current"] == 1024 + 3 * MiB
    assert stats["allocated_bytes.small_pool.current"] == 1024
    assert stats["requested_bytes.all.current"] == 700 + 3 * MiB
    assert stats["reserved_bytes.all.current"] == 22 * MiB
    assert stats["inactive_split_bytes.all.current"] == 22 * MiB - 1024 - 3 * MiB
    assert stats["segment.large_pool.current"] == 1
    stats = tb_allocator.memory_stats()
    assert stats["allocated_bytes.all.current"] == 0
    assert stats["allocated_bytes.all.peak"] == 1024 + 3 * MiB
    assert stats["allocated_bytes.all.freed"] == 1024 + 3 * MiB
    assert {key for key in stats if key.startswith("num_")} == {
        "num_alloc_retries",
        "num_device_alloc",
        "num_device_free",
        "num_ooms",
        "num_sync_all_streams",
    }


def test_single_statistics_are_current_and_can_be_reset() -> None:
    with tb_allocator.empty(1024):
        assert tb_allocator.memory_allocated() == 1024
        assert tb_allocator.memory_reserved() == 2 * MiB
    assert tb_allocator.memory_allocated() == 0
    assert tb_allocator.max_memory_allocated() == 1024
    tb_allocator.empty_cache()
    assert (tb_allocator.memory_reserved(), tb_allocator.max_memory_reserved()) == (0, 2 * MiB)
    tb_allocator.reset_peak_memory_stats()
    assert (tb_allocator.max_memory_allocated(), tb_allocator.max_memory_reserved()) == (0, 0)
    assert tb_allocator.memory_stats()["allocated_bytes.all.freed"] == 1024
    tb_allocator.reset_accumulated_memory_stats()
    assert tb_allocator.memory_stats()["allocated_bytes.all.freed"] == 0


def test_the_summary_shows_every_count() -> None:
    with tb_allocator.empty(3 * MiB):
        text = tb_allocator.memory_summary()
    allocated = next(line for line in text.splitlines() if line.startswith("Allocated memory"))
    assert allocated.split()[2:] == ["3.00", "MiB", "3.00", "MiB", "3.00", "MiB", "0", "bytes"]
    assert len(text.splitlines()) == 2 + 9 * 3


def test_memory_info_is_the_drivers() -> None:
    assert tb_allocator.mem_get_info() == tb_device.memory_info()


def test_the_limit_bounds_reserved_memory_and_the_error_says_so() -> None:
    tb_allocator.set_memory_limit(30 * MiB)
    try:
        with tb_allocator.empty(20 * MiB):
            with pytest.raises(tb_device.OutOfMemoryError, match=r"limit of 30\.00 MiB.*set_memory_limit") as caught:
                tb_allocator.empty(12 * MiB)
            assert isinstance(caught.value, MemoryError)
            assert (caught.value.status, caught.value.device) == (8, 0)
        tb_allocator.empty(22 * MiB).free()  # replaces the cached 20 MiB
    finally:
        tb_allocator.set_memory_limit(None)
    assert tb_allocator.memory_stats()["num_ooms"] == 1


def test_the_limit_may_be_a_fraction() -> None:
    total = tb_allocator.mem_get_info()[1]
    tb_allocator.set_per_process_memory_fraction(10 * MiB / total)
    try:
        with pytest.raises(tb_device.OutOfMemoryError):
            tb_allocator.empty(12 * MiB)
    finally:
        tb_allocator.set_per_process_memory_fraction(1.0)
    for wrong in (-0.1, 1.1, float("nan")):
        with pytest.raises(ValueError, match="from 0 to 1"):
            tb_allocator.set_per_process_memory_fraction(wrong)


def test_running_out_frees_the_cache_and_then_reports_the_figures(python: Python) -> None:
    code = """
    import tb_allocator, tb_device
    cached = [tb_allocator.empty(30 << 20) for _ in range(2)]
    cached.clear()
    held = tb_allocator.empty(50 << 20)  # only with the cached 60 MiB back at the driver
    assert tb_allocator.memory_stats()["num_alloc_retries"] == 1
    try:
        tb_allocator.empty(40 << 20)
    except tb_device.OutOfMemoryError as error:
        print(error)
    """
    text = python.output(code, TB_CPU_MEMORY="64M")
    for part in (
        "allocate(device=0) failed: out of memory (8)",
        "device 0 is out of memory. Tried to allocate 40.00 MiB. ",
        "14.00 MiB of 64.00 MiB free at the driver",
        "reserved 50.00 MiB, of which 50.00 MiB allocated, 0 bytes free; largest free block 0 bytes",
        "Free tensors, use a smaller batch",
    ):
        assert part in text


def test_a_huge_size_is_out_of_memory() -> None:
    for size in (1 << 45, 1 << 60, (1 << 64) - 1):
        with pytest.raises(tb_device.OutOfMemoryError, match="ask for less at a time"):
            tb_allocator.empty(size)


@pytest.mark.parametrize("device", [-1, 1, 1000])
def test_a_device_that_is_not_there_is_refused(device: int) -> None:
    for call in (
        lambda: tb_allocator.empty(1, device=device),
        lambda: tb_allocator.memory_stats(device),
        lambda: tb_allocator.empty_cache(device),
        lambda: tb_allocator.set_memory_limit(1, device),
        lambda: tb_allocator.reset_peak_memory_stats(device),
    ):
        with pytest.raises(tb_device.OutOfRangeError):
            call()


def test_each_device_has_its_own_memory(python: Python) -> None:
    code = """
    import tb_allocator, tb_device
    buffer = tb_allocator.empty(1000, device=1)
    assert (buffer.device, tb_allocator.memory_allocated(0), tb_allocator.memory_allocated(1)) == (1, 0, 1024)
    with tb_device.device(1):
        assert tb_allocator.empty(10).device == 1
    tb_allocator.empty_cache()
    print(tb_allocator.memory_reserved(0), tb_allocator.memory_reserved(1))
    """
    assert python.output(code, TB_CPU_DEVICES="2") == f"0 {2 * MiB}"


GROWING = """
import tb_allocator
buffers = [tb_allocator.empty(3 << 20) for _ in range(10)]
for number, buffer in enumerate(buffers):
    view = memoryview(buffer)
    view[0] = view[-1] = number
assert [buffers[i].ptr - buffers[i - 1].ptr for i in range(1, 10)] == [3 << 20] * 9
stats = tb_allocator.memory_stats()
assert (stats["segment.all.current"], stats["reserved_bytes.all.current"]) == (1, 30 << 20), stats
del view
for number in range(2, 9):
    buffers[number] = None
buffer = None
tb_allocator.empty_cache()  # the whole pages of 2 MiB inside the hole go back: from 6 to 26 MiB
print(tb_allocator.memory_reserved() >> 20, tb_allocator.memory_allocated() >> 20)
wide = tb_allocator.empty(60 << 20)  # new pages behind the last
memoryview(wide)[-1] = 1
assert tb_allocator.memory_stats()["segment.all.current"] == 1
assert (memoryview(buffers[1])[-1], memoryview(buffers[9])[-1]) == (1, 9)
wide = None
buffers.clear()
tb_allocator.empty_cache()
print(tb_allocator.memory_reserved(), tb_allocator.memory_stats()["segment.all.current"])
"""


def test_growing_segments_are_contiguous_and_give_pages_back(python: Python) -> None:
    assert python.output(GROWING, TB_ALLOC_CONF="expandable_segments:True").splitlines() == ["10 9", "0 0"]


def test_growing_segments_use_fragmented_memory(python: Python) -> None:
    code = """
    import tb_allocator, tb_device
    blocks = [tb_allocator.empty(20 << 20) for _ in range(6)]
    for number in (0, 2, 4):
        blocks[number] = None  # 60 MiB free, nowhere more than 20 MiB in a row
    try:
        memoryview(tb_allocator.empty(60 << 20))[-1] = 1
        print("fits")
    except tb_device.OutOfMemoryError as error:
        print("expandable_segments:True" in str(error) or str(error))
    """
    assert python.output(code, TB_CPU_MEMORY="128M", TB_ALLOC_CONF="expandable_segments:True") == "fits"


UNDER_A_LIMIT = """
import tb_allocator, tb_device
tb_allocator.set_memory_limit(130 << 20)
segment = tb_allocator.empty(120 << 20)
segment = None
blocks = [tb_allocator.empty(20 << 20) for _ in range(6)]
for number in range(FREED):
    blocks[2 * number] = None
try:
    tb_allocator.empty(40 << 20)
    print("fits")
except tb_device.OutOfMemoryError as error:
    print(error)
"""


def test_under_a_limit_fragmented_memory_is_reported_before_the_limit(python: Python) -> None:
    settings = {"TB_CPU_MEMORY": "1G", "TB_ALLOC_CONF": "expandable_segments:False"}
    in_pieces = python.output(UNDER_A_LIMIT.replace("FREED", "3"), **settings)
    assert "in pieces: TB_ALLOC_CONF=expandable_segments:True" in in_pieces
    assert "raise the limit" in in_pieces
    too_little = python.output(UNDER_A_LIMIT.replace("FREED", "1"), **settings)
    assert "The limit is in the way: raise it" in too_little
    assert "expandable_segments" not in too_little
    settings["TB_ALLOC_CONF"] = "expandable_segments:True"
    assert python.output(UNDER_A_LIMIT.replace("FREED", "3"), **settings) == "fits"


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (
            "speed:9",
            "unknown key 'speed'. Known keys: expandable_segments, per_process_memory_fraction, pages_slack, "
            "pinned_slack, history",
        ),
        ("expandable_segments:yes", "'yes': use True or False"),
    ],
)
def test_a_wrong_configuration_is_an_error_at_the_first_use(python: Python, value: str, message: str) -> None:
    code = """
    import tb_allocator
    for _ in range(2):
        try:
            tb_allocator.empty(1)
        except ValueError as error:
            print(error)
    """
    lines = python.output(code, TB_ALLOC_CONF=value).splitlines()
    assert len(lines) == 2
    assert all(message in line for line in lines)


def test_pytorchs_keys_without_effect_are_reported_once(python: Python) -> None:
    code = """
    import contextlib, os, tb_allocator
    tb_allocator.empty(1), tb_allocator.empty(1), tb_allocator.pinned(1)
    """
    conf = "max_split_size_mb:64,roundup_power2_divisions:[256:1,>:4]"
    with pytest.raises(AssertionError) as caught:  # python.output() raises what the process wrote to stderr
        python.output(code, TB_ALLOC_CONF=conf)
    assert str(caught.value).count("ignored: max_split_size_mb, roundup_power2_divisions.") >= 1


def test_the_configuration_bounds_memory_to_a_fraction(python: Python) -> None:
    code = """
    import tb_allocator, tb_device
    try:
        tb_allocator.empty(40 << 20)
    except tb_device.OutOfMemoryError as error:
        print(error)
    """
    text = python.output(code, TB_CPU_MEMORY="64M", TB_ALLOC_CONF="per_process_memory_fraction:0.5")
    assert "limit of 32.00 MiB" in text


def test_a_forked_child_cannot_allocate_and_its_frees_do_nothing(python: Python) -> None:
    code = """
    import os, tb_allocator, tb_device
    buffer, pinned = tb_allocator.empty(10), tb_allocator.pinned(10)
    child = os.fork()
    if child == 0:
        buffer.free()
        pinned.free()
        for call in (lambda: tb_allocator.empty(10), lambda: tb_allocator.pinned(10), tb_allocator.memory_allocated):
            try:
                call()
            except tb_device.FailedPreconditionError as error:
                assert "fork" in str(error), error
            else:
                os._exit(1)
        os._exit(0)
    print(os.waitpid(child, 0)[1], tb_allocator.memory_allocated())
    """
    assert python.output(code) == "0 512"


def test_a_process_ends_well_with_memory_in_use(python: Python) -> None:
    code = """
    import atexit, tb_allocator
    buffer = tb_allocator.empty(100)
    view = memoryview(buffer)
    pinned = tb_allocator.pinned(100)
    class Late:
        def __del__(self):
            view[0] = 7  # after the driver was asked to close
            assert view[0] == 7
    late = Late()
    print("end")
    """
    assert python.output(code) == "end"


def test_importing_opens_no_driver(python: Python) -> None:
    code = """
    import tb_allocator, tb_device
    tb_allocator.empty_cache()
    tb_allocator.empty_host_cache()
    print(tb_device.is_open())
    """
    assert python.output(code) == "False"


def test_without_tb_device_the_import_says_what_to_install(python: Python) -> None:
    code = """
    import sys
    sys.modules["tb_device"] = None
    try:
        import tb_allocator
    except ImportError as error:
        print(error)
    """
    assert python.output(code) == "tb-allocator needs tb-device, which is not installed: pip install tb-device"
