"""torch._lazy_clone: pinned host memory is copied on write, as the CPU's memory is, and device memory at once."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable

import numpy
import pytest
import torch

is_cow: Callable[[torch.Tensor], bool] = torch._C._is_cow_tensor
PLACES = ["device", "pinned", "cpu"]


def make(place: str, count: int = 1000) -> torch.Tensor:
    numbers = torch.arange(float(count))
    if place == "device":
        return numbers.to("tb")
    return numbers.pin_memory() if place == "pinned" else numbers


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("first", ["copy", "original"])
def test_the_copy_and_the_original_are_written_apart(place: str, first: str) -> None:
    tensor = make(place)
    copy = torch._lazy_clone(tensor)
    assert is_cow(tensor) == is_cow(copy) == (place != "device")
    for one in ("copy", "original") if first == "copy" else ("original", "copy"):
        (copy.add_(1) if one == "copy" else tensor.add_(2))
    assert not is_cow(tensor)
    assert not is_cow(copy)
    assert torch.equal(copy.cpu(), torch.arange(1000.0) + 1)
    assert torch.equal(tensor.cpu(), torch.arange(1000.0) + 2)


@pytest.mark.parametrize("place", PLACES)
@pytest.mark.parametrize("written", [False, True])
@pytest.mark.parametrize("freed", ["copy", "original", "both"])
def test_what_is_left_when_one_is_freed_is_whole(place: str, written: bool, freed: str) -> None:
    for round_ in range(20):
        tensor = make(place, 1000 + 64 * round_)
        copies = [torch._lazy_clone(tensor), torch._lazy_clone(torch._lazy_clone(tensor))]
        if written:
            copies[0].mul_(2)
        if freed in ("original", "both"):
            tensor = copies[1]
        if freed in ("copy", "both"):
            del copies[0]
        others = [make(place, 1000 + 64 * round_).fill_(-1) for _ in range(4)]
        copies[-1].add_(1)
        assert torch.equal(copies[-1].cpu(), torch.arange(1000.0 + 64 * round_) + 1)
        if freed == "copy":
            assert torch.equal(tensor.cpu(), torch.arange(1000.0 + 64 * round_))
        assert all(bool((other == -1).all()) for other in others)


@pytest.mark.parametrize("place", PLACES)
def test_views_share_the_memory_of_their_base(place: str) -> None:
    tensor = make(place, 12)
    view = tensor.view(3, 4)[1]
    copy = torch._lazy_clone(view)
    copy.zero_()
    view.add_(100)
    assert copy.cpu().tolist() == [0, 0, 0, 0]
    assert tensor.cpu().tolist() == [0, 1, 2, 3, 104, 105, 106, 107, 8, 9, 10, 11]


@pytest.mark.parametrize("place", PLACES)
def test_an_empty_tensor_is_copied(place: str) -> None:
    tensor = make(place, 0)
    copy = torch._lazy_clone(tensor)
    copy.add_(1)
    tensor.add_(1)
    assert copy.numel() == tensor.numel() == 0


@pytest.mark.parametrize("place", PLACES)
def test_memory_returns_when_all_copies_are_gone(place: str) -> None:
    def used() -> int:
        gc.collect()
        torch.tb.synchronize()
        return torch.tb.memory_allocated() + int(torch.tb.host_memory_stats()["active_bytes.current"])

    make(place).add_(1)  # what the first use keeps
    before = used()
    for _ in range(10):
        tensor = make(place)
        copies = [torch._lazy_clone(tensor) for _ in range(3)]
        copies[1].add_(1)
        tensor.add_(1)
        del tensor, copies
    assert used() == before


def test_a_stream_is_recorded_for_shared_memory() -> None:
    side = torch.tb.Stream()
    tensor = make("device")
    copy = torch._lazy_clone(tensor)
    side.wait_stream(torch.tb.current_stream())
    with torch.tb.stream(side):
        total = copy.sum()
        copy.record_stream(side)
        tensor.record_stream(side)
    del copy, tensor
    make("device").fill_(-1)
    torch.tb.current_stream().wait_stream(side)
    assert total.item() == 999 * 500


def test_a_pinned_copy_is_copied_to_the_device_without_blocking() -> None:
    tensor = make("pinned")
    copy = torch._lazy_clone(tensor)
    assert copy.is_pinned()
    assert torch.equal(copy.to("tb", non_blocking=True).cpu(), torch.arange(1000.0))
    copy.add_(1)
    assert torch.equal(tensor.to("tb", non_blocking=True).cpu(), torch.arange(1000.0))
    assert copy.is_pinned()
    assert tensor.is_pinned()


def test_threads_that_write_at_once_get_copies_of_their_own() -> None:
    for _ in range(20):
        tensor = make("device")
        copies = [torch._lazy_clone(tensor) for _ in range(4)]
        threads = [threading.Thread(target=copy.add_, args=(number,)) for number, copy in enumerate(copies)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for number, copy in enumerate(copies):
            assert torch.equal(copy.cpu(), torch.arange(1000.0) + number)
        assert torch.equal(tensor.cpu(), torch.arange(1000.0))


def test_gradients_and_transforms_pass_through_a_lazy_copy() -> None:
    tensor = make("device", 4).requires_grad_()
    (torch._lazy_clone(tensor) * 3).sum().backward()
    assert tensor.grad is not None
    assert tensor.grad.cpu().tolist() == [3, 3, 3, 3]
    gradient = torch.func.grad(lambda x: (torch._lazy_clone(x) ** 2).sum())(make("device", 4))
    assert gradient.cpu().tolist() == [0, 2, 4, 6]


def test_memory_of_others_is_refused_on_the_host_and_copied_on_the_device() -> None:
    with pytest.raises(RuntimeError):
        torch._lazy_clone(torch.from_numpy(numpy.ones(3)))
    foreign = torch.from_dlpack(make("device", 3))
    copy = torch._lazy_clone(foreign)
    foreign.add_(1)
    assert copy.cpu().tolist() == [0, 1, 2]


def test_a_copy_keeps_strides_offset_and_lazy_bits() -> None:
    for source in (
        torch.arange(24.0).view(4, 6).t()[1:4, ::2],
        torch.arange(6).view(2, 3).expand(4, 2, 3),
        torch.complex(torch.arange(4.0), torch.ones(4)).conj(),
        torch.complex(torch.arange(4.0), torch.ones(4)).conj().imag,
    ):
        on_tb = source.to("tb")
        for tensor in (on_tb, on_tb.transpose(0, -1)):
            copy = torch._lazy_clone(tensor)
            assert copy.stride() == tensor.stride()
            assert copy.storage_offset() == tensor.storage_offset()
            assert copy.is_conj() == tensor.is_conj()
            assert copy.is_neg() == tensor.is_neg()
            assert torch.equal(copy.cpu(), tensor.cpu())
            assert copy.data_ptr() != tensor.data_ptr()


def test_a_copy_comes_after_what_is_queued_and_before_what_follows() -> None:
    tensor = make("device", 1 << 20)
    for number in range(50):
        tensor.mul_(0).add_(number)
        copy = torch._lazy_clone(tensor)
        tensor.fill_(-1)
        copy.add_(1)
        assert copy[-1].item() == number + 1
