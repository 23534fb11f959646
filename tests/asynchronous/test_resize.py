"""Growing a tensor or its storage on one stream, where the memory belongs to another."""

from __future__ import annotations

import json
import pathlib
from collections.abc import Callable, Iterator

import pytest
import tb_device
import torch
from conftest import RunPython
from torch import Tensor
from torch_backend._testing import held

MYCHIP = pathlib.Path(tb_device.__file__).parent / "new_driver" / "c" / "mychip.c"  # has no streams
COPY = "if (kind < 1 || kind > 3)"

ELEMENTS = 1 << 18  # whole blocks of the allocator

GROW: dict[str, Callable[[Tensor], object]] = {
    "tensor.resize_": lambda x: x.resize_(4 * ELEMENTS),
    "storage.resize_": lambda x: x.untyped_storage().resize_(16 * ELEMENTS),
    "set_ of more than there is": lambda x: x.set_(x.untyped_storage(), 0, (4 * ELEMENTS,)),  # type: ignore[call-overload]
}


@pytest.fixture(autouse=True)
def no_free_blocks() -> Iterator[None]:
    """Takes the free blocks that earlier tests left, so that a new tensor gets the block that is freed here."""
    torch.accelerator.synchronize()
    torch.accelerator.empty_cache()
    before, taken = torch.accelerator.memory_reserved(), []
    while torch.accelerator.memory_reserved() == before:
        taken.append(torch.empty(ELEMENTS, device="tb"))
    yield
    del taken


def is_at(x: Tensor, address: int) -> bool:
    """Whether it has memory that was at this address: freed memory may have been joined to free memory before it."""
    return abs(x.data_ptr() - address) < 4 * ELEMENTS


@pytest.mark.parametrize("way", GROW)
def test_the_old_memory_is_not_given_out_before_its_bytes_are_copied(way: str) -> None:
    side = torch.Stream(device="tb")
    x = torch.full((ELEMENTS,), 3.0, device="tb")
    address = x.data_ptr()
    torch.full((ELEMENTS,), -1.0, device="tb")  # the first call of a kernel waits
    torch.accelerator.synchronize()
    with held(side) as gate:
        with side:
            GROW[way](x)  # the copy waits behind the gate
        new = torch.full((ELEMENTS,), -1.0, device="tb")  # would take the old memory if it were free at once
        torch.accelerator.current_stream().synchronize()
        taken = is_at(new, address)
        gate.open()
        side.synchronize()
    kept = x.as_strided((ELEMENTS,), (1,))
    assert (kept == 3).all().item(), "the copy read what another tensor wrote"
    assert not taken
    again = torch.full((ELEMENTS,), -1.0, device="tb")
    assert is_at(again, address), "the old memory is free once the copy is done"


def test_the_old_memory_is_free_at_once_on_its_own_stream() -> None:
    """The negative control: the same program on one stream gets the old memory again while the copy is queued."""
    x = torch.full((ELEMENTS,), 3.0, device="tb")
    address = x.data_ptr()
    torch.accelerator.synchronize()
    with held():
        x.resize_(4 * ELEMENTS)
        new = torch.full((ELEMENTS,), -1.0, device="tb")
        assert is_at(new, address)
    assert (x[:ELEMENTS] == 3).all().item()


def test_a_driver_without_streams_copies_when_it_is_called(
    run_python: RunPython, compile_driver: Callable[[pathlib.Path], pathlib.Path], tmp_path: pathlib.Path
) -> None:
    """It gets no stream to queue the copy on: rule mem_copy.1 of the driver ABI."""
    code = """
        import json, torch
        x, y = torch.arange(3.0, device="tb"), torch.arange(3.0, device="tb")
        x.resize_(1000)
        y.untyped_storage().resize_(4000)
        print(json.dumps([x[:3].tolist(), y.tolist()]))
    """
    text = MYCHIP.read_text()
    assert text.count(COPY) == 1
    source = tmp_path / "mychip.c"
    source.write_text(text.replace(COPY, "if (stream || kind < 1 || kind > 3)"))
    done = run_python(code, {"TB_DRIVER": str(compile_driver(source)), "TB_FALLBACK": "allow"})
    assert json.loads(done.stdout.splitlines()[-1]) == [[0.0, 1.0, 2.0], [0.0, 1.0, 2.0]]


def test_a_storage_of_fixed_size_is_refused_with_pytorchs_words() -> None:
    refused = []
    for device in ("cpu", "tb"):
        x = torch.utils.dlpack.from_dlpack(torch.ones(3, device=device))
        with pytest.raises(RuntimeError) as raised:
            x.resize_(100)
        refused.append(str(raised.value).splitlines()[0])
    assert refused[0] == refused[1]
