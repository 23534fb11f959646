"""tb_allocator.record() writes the trace of a program, on meta tensors and on real tb tensors."""

from __future__ import annotations

import subprocess
import sys
import threading
from pathlib import Path

import tb_allocator
import torch
from tb_allocator import _core, replay

KIB = 1 << 10


def test_every_storage_is_written_once_and_freed_when_its_last_tensor_ends() -> None:
    outside = torch.empty(KIB, dtype=torch.uint8, device="meta")

    def step() -> None:
        made = torch.empty(2 * KIB, dtype=torch.uint8, device="meta")
        view = made[:KIB]
        view.add_(outside)  # views and in-place operators allocate nothing
        del made
        doubled = view + view
        del view
        torch.empty(7)  # host memory is not recorded
        del doubled

    assert tb_allocator.record(step, iterations=2).splitlines() == [
        f"a 1 {KIB} 0",  # existed before the step
        "# iteration 0",
        f"a 0 {2 * KIB} 0",
        f"a 2 {KIB} 0",
        "f 0",
        "f 2",
        "# iteration 1",
        f"a 3 {2 * KIB} 0",
        f"a 4 {KIB} 0",
        "f 3",
        "f 4",
    ]


def test_a_resized_storage_is_another_allocation() -> None:
    def step() -> None:
        torch.empty(KIB, dtype=torch.uint8, device="meta").resize_(3 * KIB)

    assert tb_allocator.record(step).splitlines()[1:] == [f"a 0 {KIB} 0", "f 0", f"a 1 {3 * KIB} 0", "f 1"]


def test_a_training_step_on_meta_tensors_replays() -> None:
    with torch.device("meta"):
        model = torch.nn.Sequential(torch.nn.Linear(512, 2048), torch.nn.GELU(), torch.nn.Linear(2048, 512))
        inputs = torch.empty(64, 512)
    optimizer = torch.optim.AdamW(model.parameters(), foreach=True)

    def step() -> None:
        model(inputs).square().mean().backward()
        optimizer.step()
        optimizer.zero_grad(set_to_none=True)

    trace = _core._Trace(tb_allocator.record(step, iterations=3).encode())
    parameters = sum(parameter.numel() for parameter in model.parameters()) * 4
    # The weights, two moments, the gradients and the inputs are alive at the same time.
    assert trace.peak_live > 4 * parameters + inputs.numel() * 4
    assert trace.peak_live < 7 * parameters
    assert replay.replay(trace)["repetitions"][-1]["completed"]


def test_streams_and_allocations_outside_of_operators_are_written() -> None:
    with tb_allocator.Recorder() as recorder, recorder.stream(1):
        free = recorder.allocate(KIB, 2)
        kept = torch.empty(KIB, dtype=torch.uint8, device="meta")
        free()
    assert recorder.text().splitlines() == [f"a 0 {KIB} 2", f"a 1 {KIB} 1", "f 0"]
    assert kept.is_meta


def _sizes(trace: str) -> list[int]:
    """The sizes of a trace's allocations in units of 512 bytes, to which the allocator's history rounds them."""
    return sorted(-(-int(line.split()[2]) // 512) for line in trace.splitlines() if line.startswith("a"))


def test_a_trace_of_live_tensors_has_the_sizes_of_the_allocators_history(tmp_path: Path) -> None:
    side = torch.Stream("tb")
    weight = torch.randn(64, 64, device="tb", requires_grad=True)

    def step() -> None:
        result = torch.tanh(weight @ weight)
        torch.autograd.backward(result.sum())
        with side:
            copy = result.detach() * 2
        copy.record_stream(torch.accelerator.current_stream())
        weight.grad = None

    step()
    torch.accelerator.synchronize()
    tb_allocator.record_memory_history()
    trace = tb_allocator.record(step, device_type="tb")
    file = tmp_path / "trace.txt"
    tb_allocator.dump_trace(file)
    lines = trace.splitlines()
    assert lines[0] == f"a 0 {64 * 64 * 4} 0"  # the weight
    assert {line.split()[3] for line in lines if line.startswith("a")} == {"0", "1"}
    assert sum(line.startswith("r ") for line in lines) == 1
    assert _sizes("\n".join(lines[1:])) == _sizes(file.read_text())


def test_a_tensor_freed_by_another_thread_is_recorded() -> None:
    held = [torch.empty(KIB, dtype=torch.uint8, device="meta")]
    with tb_allocator.Recorder() as recorder:
        held.append(held[0] + 1)
        thread = threading.Thread(target=held.clear)
        thread.start()
        thread.join()
    assert sorted(recorder.text().splitlines()[2:]) == ["f 0", "f 1"]


def test_torch_is_imported_only_when_asked() -> None:
    code = "import sys, tb_allocator; tb_allocator.record; print('torch' in sys.modules)"
    done = subprocess.run(
        [sys.executable, "-c", code],
        capture_output=True,
        text=True,
        check=True,
        env={"TORCH_DEVICE_BACKEND_AUTOLOAD": "0"},
    )
    assert done.stdout.strip() == "False"
