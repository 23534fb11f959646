"""tb-allocator with tb-stream: memory is allocated for the current stream."""

from __future__ import annotations

import tb_allocator
import tb_stream


def test_memory_is_taken_for_the_current_stream() -> None:
    stream = tb_stream.Stream()
    with stream, tb_allocator.empty(10) as buffer:
        assert buffer.stream == stream.handle
    with tb_allocator.empty(10) as buffer:
        assert buffer.stream == tb_stream.default_stream().handle
