"""Tensors of tb go through the queues, pipes and arguments of torch.multiprocessing as copies, and nothing hangs."""

from __future__ import annotations

import dataclasses
import multiprocessing.connection
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import torch
import torch.multiprocessing
from torch import Tensor, nn
from torch_backend._testing import held
from torch_backend.conformance.bits import bit_identical

mp: Any = torch.multiprocessing
SECONDS = 300


@dataclasses.dataclass
class Child:
    """A process that sends back what it receives, doubled if it is a tensor, with what it saw."""

    process: Any
    requests: Any
    replies: Any

    def ask(self, request: object) -> Any:
        self.requests.put(request)
        return self.replies.get(timeout=SECONDS)


def seen(item: Any) -> tuple[str, ...]:
    """What a process sees of a received object."""
    if isinstance(item, Tensor):
        facts = (
            type(item),
            item.dtype,
            item.device,
            tuple(item.shape),
            item.stride(),
            item.requires_grad,
            item.is_leaf,
        )
        return tuple(map(str, facts))
    return str(type(item)), str(item.device)


def answer(requests: Any, replies: Any, first: Tensor) -> None:
    replies.put((seen(first), first * 2))
    while (item := requests.get()) is not None:
        replies.put((seen(item), item.detach() * 2 if isinstance(item, Tensor) else item))
    requests.get()  # what was sent from here exists until the other process has received it


@pytest.fixture(scope="module", params=["spawn", "forkserver"])
def child(request: pytest.FixtureRequest) -> Iterator[Child]:
    context = mp.get_context(request.param)
    requests, replies = context.Queue(), context.Queue()
    argument = torch.arange(3.0, device="tb")
    process = context.Process(target=answer, args=(requests, replies, argument), daemon=True)
    process.start()
    facts, result = replies.get(timeout=SECONDS)
    assert facts == seen(argument)
    assert bit_identical(result, argument * 2)
    yield Child(process, requests, replies)
    requests.put(None)
    requests.put(None)
    process.join(SECONDS)
    assert process.exitcode == 0


TENSORS: dict[str, Callable[[], Tensor]] = {
    "float": lambda: torch.randn(3, 4),
    "bfloat16": lambda: torch.randn(5).bfloat16(),
    "bool": lambda: torch.tensor([True, False]),
    "complex": lambda: torch.randn(2, dtype=torch.complex64),
    "none": lambda: torch.empty(0, 3),
    "number": lambda: torch.tensor(7),
    "part": lambda: torch.arange(12.0).reshape(3, 4).T[1:, ::2],
    "large": lambda: torch.randn(1 << 18),
}


@pytest.mark.parametrize("name", TENSORS)
def test_a_tensor_arrives_and_comes_back(child: Child, name: str) -> None:
    tensor = TENSORS[name]()
    sent = torch.empty_strided(tensor.shape, tensor.stride(), dtype=tensor.dtype, device="tb").copy_(tensor)
    facts, doubled = child.ask(sent)
    assert facts == seen(sent)
    assert doubled.is_tb
    assert bit_identical(doubled, sent * 2)


def test_a_parameter_keeps_its_type_and_a_leaf_that_it_wants_gradients(child: Child) -> None:
    for sent in (
        nn.Parameter(torch.ones(2, device="tb")),
        nn.Parameter(torch.ones(2, dtype=torch.int64, device="tb"), requires_grad=False),
        torch.ones(2, device="tb", requires_grad=True),
    ):
        facts, doubled = child.ask(sent)
        assert facts == seen(sent)
        assert doubled.tolist() == [2, 2]


def test_storages_arrive(child: Child) -> None:
    untyped = torch.arange(4, dtype=torch.uint8, device="tb").untyped_storage()
    facts, back = child.ask(untyped)
    assert facts == seen(untyped)
    assert back.device == untyped.device
    assert back.cpu().tolist() == [0, 1, 2, 3]
    typed = torch.storage.TypedStorage(wrap_storage=untyped, dtype=torch.uint8, _internal=True)  # type: ignore[no-untyped-call]
    _, back = child.ask(typed)
    assert back.dtype == torch.uint8
    assert back.untyped().cpu().tolist() == [0, 1, 2, 3]


def test_work_of_any_stream_is_in_the_copy(child: Child) -> None:
    sent = torch.zeros(2, device="tb")
    sent.add_(0)  # the first call of an operator waits
    with torch.Stream("tb") as side, held(side) as gate:
        sent.add_(1)
        child.requests.put(sent)
        gate.open_once_this_thread_waits()
        _, doubled = child.replies.get(timeout=SECONDS)
    assert doubled.tolist() == [2, 2]


def test_tensors_of_one_message_share_memory_and_the_sender_keeps_its_own() -> None:
    reader, writer = multiprocessing.connection.Pipe(duplex=False)
    x = torch.arange(4.0, device="tb")
    writer.send({"all": x, "part": x[1:3]})
    received = reader.recv()
    received["part"].add_(10)
    assert received["all"].tolist() == [0, 11, 12, 3]
    assert x.tolist() == [0, 1, 2, 3]


def test_memory_can_be_shared_by_name() -> None:
    before = mp.get_sharing_strategy()
    mp.set_sharing_strategy("file_system")
    try:
        reader, writer = multiprocessing.connection.Pipe(duplex=False)
        writer.send(torch.arange(3.0, device="tb"))
        received = reader.recv()
    finally:
        mp.set_sharing_strategy(before)
    assert received.is_tb
    assert received.tolist() == [0, 1, 2]


def test_a_cpu_tensor_is_still_shared_and_not_copied() -> None:
    reader, writer = multiprocessing.connection.Pipe(duplex=False)
    x = torch.zeros(3)
    writer.send(x)
    reader.recv().add_(1)
    assert x.tolist() == [1, 1, 1]


def receive(connection: Any, errors: Any) -> None:
    try:
        connection.recv()
    except RuntimeError as error:
        errors.send(str(error))


def test_a_child_that_was_forked_after_the_first_use_raises_what_to_do() -> None:
    torch.ones(1, device="tb")
    context = mp.get_context("fork")
    (reader, writer), (errors, says) = (multiprocessing.connection.Pipe(duplex=False) for _ in range(2))
    process = context.Process(target=receive, args=(reader, says), daemon=True)
    process.start()
    writer.send(torch.ones(2, device="tb"))
    assert errors.poll(SECONDS)
    assert "Use the 'spawn' start method" in errors.recv()
    process.join(SECONDS)
    assert process.exitcode == 0


def test_pytorch_still_cannot_send_storages_of_tb() -> None:
    """When this fails, _multiprocessing.py need not replace PyTorch's function any more."""
    from torch.multiprocessing.reductions import reduce_storage

    with pytest.raises(RuntimeError, match="only available on CPU"):
        reduce_storage(torch.ones(1, device="tb").untyped_storage())  # type: ignore[no-untyped-call]
