"""Every call that copies between host and device and blocks, and who may see its result when it returns.

`python blocking_copies.py REPETITIONS` runs all of it on the driver of TB_DRIVER and prints a line for each call.
"""

from __future__ import annotations

import contextlib
import io
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor, wait

import torch
from torch import Tensor, nn
from torch_backend._testing import held

SIZES = {4: "4 B", 64: "64 B", 4 << 10: "4 KiB", 1 << 20: "1 MiB", 4 << 20: "4 MiB"}
READERS = ("a second stream", "a second thread")
STATES = ("idle", "held")  # of the stream on which the call is made
MAY_RETURN = 0.02  # seconds after which a call is taken to wait for its stream, so that the gate opens
LARGEST_LIST = 4 << 10  # bytes of numbers that Python makes one by one


class _Holder(nn.Module):
    def __init__(self, value: Tensor) -> None:
        super().__init__()
        self.register_buffer("value", value)


def _loaded_from_file(x: Tensor) -> Tensor:
    file = io.BytesIO()
    torch.save(x, file)
    file.seek(0)
    loaded: Tensor = torch.load(file, map_location="tb")
    return loaded


def _loaded_by_module(x: Tensor, y: Tensor) -> Tensor:
    module = _Holder(y)
    module.load_state_dict({"value": x})
    return y


def _moved_with_module(x: Tensor) -> Tensor:
    moved: Tensor = _Holder(x).to("tb").value  # type: ignore[assignment]
    return moved


def _assigned(x: Tensor, y: Tensor) -> Tensor:
    y[:] = x
    return y


def _into_gaps(x: Tensor, y: Tensor) -> Tensor:
    wide = torch.stack([y, y], dim=1)
    return wide[:, 1].copy_(x)


def _storage_copied(x: Tensor, y: Tensor, non_blocking: bool) -> Tensor:
    y.untyped_storage().copy_(x.untyped_storage(), non_blocking)
    return y


def _from_list(x: Tensor) -> list[float] | Tensor:
    return x.tolist() if x.nbytes <= LARGEST_LIST else x


# What makes device memory of host memory `x`, on the current stream; `y` is a device tensor of other values.
TO_DEVICE: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    "to": lambda x, y: x.to("tb"),
    "to, from pinned memory": lambda x, y: x.pin_memory().to("tb"),
    "to, non_blocking, from pageable memory": lambda x, y: x.to("tb", non_blocking=True),
    "to with another type": lambda x, y: x.to("tb", torch.float64),
    "copy_": lambda x, y: y.copy_(x),
    "copy_ from pinned memory": lambda x, y: y.copy_(x.pin_memory()),
    "copy_, non_blocking, from pageable memory": lambda x, y: y.copy_(x, non_blocking=True),
    "copy_ of another type": lambda x, y: y.copy_(x.double()),
    "copy_ into gaps": _into_gaps,
    "copy_ of one number": lambda x, y: y.copy_(x[0]),
    "y[:] = x": _assigned,
    "torch.tensor": lambda x, y: torch.tensor(_from_list(x), device="tb"),
    "torch.as_tensor": lambda x, y: torch.as_tensor(x.numpy(), device="tb"),
    "new_tensor": lambda x, y: y.new_tensor(_from_list(x)),
    "storage copy_": lambda x, y: _storage_copied(x, y, False),
    "storage copy_, non_blocking, from pageable memory": lambda x, y: _storage_copied(x, y, True),
    "torch.load": lambda x, y: _loaded_from_file(x),
    "load_state_dict": _loaded_by_module,
    "module.to": lambda x, y: _moved_with_module(x),
}


def _into(host: Tensor, y: Tensor, non_blocking: bool = False) -> Tensor:
    return host.copy_(y, non_blocking=non_blocking)


def _saved(y: Tensor) -> Tensor:
    file = io.BytesIO()
    torch.save(y, file)
    file.seek(0)
    loaded: Tensor = torch.load(file, map_location="cpu")
    return loaded


# What makes host memory of device memory `y`, on whose stream the values are still to be computed.
TO_HOST: dict[str, Callable[[Tensor], Tensor]] = {
    "cpu": lambda y: y.cpu(),
    "copy_ to the host": lambda y: _into(torch.empty(y.shape), y),
    "copy_ to the host, of another type": lambda y: _into(torch.empty(y.shape, dtype=torch.float64), y),
    "copy_ to the host, non_blocking, to pageable memory": lambda y: _into(torch.empty(y.shape), y, True),
    "copy_ to the host, to pinned memory": lambda y: _into(torch.empty(y.shape, pin_memory=True), y),
    "item": lambda y: torch.full(y.shape, y[-1].item()),
    "tolist": lambda y: torch.tensor(y[: LARGEST_LIST // 4].tolist()),
    "storage cpu": lambda y: torch.tensor([], dtype=y.dtype).set_(y.untyped_storage().cpu()),  # type: ignore[no-untyped-call]
    "torch.save": _saved,
}


def wrong(call: str, reader: str, state: str, size: int, repetitions: int) -> int:
    """How many of so many calls left something else than their values for the reader. `size`: bytes of float32."""
    return sum(not right for right in _runs(call, reader, state, size // 4, repetitions))


def _runs(call: str, reader: str, state: str, elements: int, repetitions: int) -> Iterator[bool]:
    copying, reading = torch.Stream(device="tb"), torch.Stream(device="tb")
    with ThreadPoolExecutor(1) as caller, ThreadPoolExecutor(1) as other:
        for repetition in range(repetitions):
            value = float(repetition + 1)
            torch.full((elements,), -1.0, device="tb")  # what freed memory holds
            with copying:
                y = torch.full((elements,), value if call in TO_HOST else -1.0, device="tb")
            torch.accelerator.synchronize()
            with held(copying) if state == "held" else contextlib.nullcontext() as gate:
                called = caller.submit(_call, call, copying, y, value)
                if gate and not wait([called], timeout=MAY_RETURN).done:
                    gate.open()  # the call waits for its stream
                seen = called.result()
                reads, stream = (other, None) if reader == "a second thread" else (caller, reading)
                yield reads.submit(_all_equal, seen, value + 1 if call in TO_HOST else value, stream).result()


def _call(call: str, stream: torch.Stream, y: Tensor, value: float) -> Tensor:
    with stream:
        if call in TO_HOST:
            y += 1  # behind the gate
            return TO_HOST[call](y)
        x = torch.full(y.shape, value)
        seen = TO_DEVICE[call](x, y)
        x.fill_(-2)
        return seen


def _all_equal(x: Tensor, value: float, stream: torch.Stream | None) -> bool:
    with stream or contextlib.nullcontext():
        return bool(x.eq(value).all())


def main(repetitions: int) -> int:
    failed = 0
    for call in (*TO_DEVICE, *TO_HOST):
        counts = {
            (reader, state, size): wrong(call, reader, state, size, repetitions)
            for reader in READERS
            for state in STATES
            for size in SIZES
        }
        failed += sum(counts.values())
        found = [f"{count} by {r}, {state}, {SIZES[size]}" for (r, state, size), count in counts.items() if count]
        print(f"{call}: {', '.join(found) or 'none'} wrong of {repetitions} each", flush=True)
    return failed


if __name__ == "__main__":
    sys.exit(main(int(sys.argv[1])) > 0)
