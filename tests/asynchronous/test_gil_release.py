"""Every wait for the device releases Python's lock, which queued work may need. Otherwise both would wait for ever."""

from __future__ import annotations

import pytest
from conftest import RunPython

# A queued Python function needs the lock. Python cannot end a hang that holds the lock, so faulthandler's thread does.
PROGRAM = """
import copy, faulthandler, io, pickle
import tb_stream
import torch
from torch_backend._testing import Gate

calls = []

def call_back(gate):
    gate.stop_the_stream()  # gives the lock up, and needs it again while the caller waits
    calls.append(1)

def queue():
    gate = Gate(50)
    tb_stream.current_stream().add_callback(call_back, gate)
    gate.open_once_this_thread_waits()

def prepare():
    x = torch.arange(12.0, device="tb").reshape(3, 4)
    torch.tb.synchronize()
    return {
        **globals(), "x": x, "mask": x > 4, "side": torch.Stream(device="tb"), "event": torch.Event(device="tb"),
        "host": torch.zeros(3, 4),
    }

for name, call in CALLS.items():
    print("hangs with Python's lock held:", name, flush=True)
    faulthandler.dump_traceback_later(60, exit=True)
    names = prepare()
    queue()
    exec(call, names)
    faulthandler.cancel_dump_traceback_later()
torch.tb.synchronize()
assert len(calls) >= len(CALLS)
print("went on")
"""

# Public calls that wait. Each runs after the function was queued.
WAITING = {
    "item": "x.sum().item()",
    "bool": "bool(x.sum() > 0)",
    "int": "int(x.sum())",
    "tolist": "x.tolist()",
    "cpu": "x.cpu()",
    "to": "x.to('cpu')",
    "to_dtype": "x.to('cpu', torch.float64)",
    "copy": "host.copy_(x)",
    "copy_from_host": "x.copy_(host); x.sum().item()",
    "from_host": "torch.ones(1 << 18).to('tb').sum().item()",
    "numpy": "x.cpu().numpy()",
    "print": "str(x)",
    "format": "f'{x.sum():.1f}'",
    "equal": "torch.equal(x, x + 0)",
    "allclose": "torch.allclose(x, x)",
    "nonzero": "x.nonzero()",
    "mask": "x[mask]",
    "mask_set": "x[mask] = 1.0",
    "unique": "x.unique()",
    "where": "torch.where(mask)",
    "repeat_interleave": "torch.repeat_interleave(torch.tensor([1, 2], device='tb'))",
    "linalg": "torch.linalg.inv(torch.eye(3, device='tb'))",
    "svd": "torch.linalg.svd(x)",
    "new_types": "x.to(torch.int16).bitwise_xor(x.to(torch.int16))",
    "new_shape": "torch.fft.fft(x)",
    "save": "torch.save(x, io.BytesIO())",
    "load": "f = io.BytesIO(); torch.save(x, f); f.seek(0); queue(); torch.load(f)",
    "load_cpu": "f = io.BytesIO(); torch.save(x, f); f.seek(0); queue(); torch.load(f, map_location='cpu')",
    "pickle": "pickle.loads(pickle.dumps(x))",
    "deepcopy": "copy.deepcopy(x)",
    "deepcopy_parameter": "copy.deepcopy(torch.nn.Parameter(x))",
    "storage_cpu": "x.untyped_storage().cpu()",
    "storage_tolist": "x.untyped_storage().tolist()",
    "storage_getitem": "x.untyped_storage()[0]",
    "storage_setitem": "x.untyped_storage()[0] = 3; x.sum().item()",
    "storage_fill": "x.untyped_storage().fill_(0); x.sum().item()",
    "storage_copy": "torch.UntypedStorage(48).copy_(x.untyped_storage())",
    "storage_clone": "x.untyped_storage().clone().cpu()",
    "storage_resize": "s = x.untyped_storage(); s.resize_(1 << 20); x.sum().item()",
    "typed_storage": "x.storage().tolist()",
    "state_dict": "m = torch.nn.Linear(2, 2).to('tb'); queue(); m.load_state_dict(torch.nn.Linear(2, 2).state_dict())",
    "module_cpu": "m = torch.nn.Linear(2, 2).to('tb'); queue(); m.cpu()",
    "backward": "y = x.clone().requires_grad_(); queue(); y.square().sum().backward(); y.grad.sum().item()",
    "optimizer": "p = torch.nn.Parameter(x.clone()); o = torch.optim.Adam([p]); p.grad = x; queue(); o.step()",
    "clip": "p = torch.nn.Parameter(x.clone()); p.grad = x.clone(); queue(); "
    "torch.nn.utils.clip_grad_norm_([p], 1.0, error_if_nonfinite=True)",
    "stream_synchronize": "torch.accelerator.current_stream().synchronize()",
    "tb_stream_synchronize": "tb_stream.current_stream().synchronize()",
    "device_synchronize": "torch.accelerator.synchronize()",
    "tb_synchronize": "torch.tb.synchronize()",
    "event_synchronize": "event.record(); event.synchronize()",
    "tb_event_synchronize": "e = torch.tb.Event(); e.record(); e.synchronize()",
    "event_timing": "e = torch.Event(device='tb', enable_timing=True); e.record(); e.synchronize()",
    "other_stream": "event.record(); side.wait_event(event); side.synchronize()",
    "wait_stream": "side.wait_stream(torch.accelerator.current_stream()); side.synchronize()",
    "record_stream": "y = x + 1; y.record_stream(side); del y; torch.accelerator.empty_cache()",
    "empty_cache": "torch.accelerator.empty_cache()",
    "tb_empty_cache": "torch.tb.empty_cache()",
    "pinned": "p = host.pin_memory(); x.copy_(p, non_blocking=True); torch.tb.synchronize()",
    "generator": "g = torch.Generator('tb'); g.set_state(g.get_state()); torch.rand(3, device='tb', generator=g).cpu()",
    "seed": "torch.manual_seed(3); torch.randn(3, device='tb').sum().item()",
    "rng_state": "torch.tb.set_rng_state(torch.tb.get_rng_state()); torch.rand(2, device='tb').tolist()",
    "randperm": "torch.randperm(9, device='tb').tolist()",
    "multinomial": "torch.multinomial(torch.ones(4, device='tb'), 2).tolist()",
    "capture": "g = torch.tb.Graph()\nwith torch.tb.graph(g):\n    y = x + 1\nqueue(); g.replay(); y.cpu(); del g, y",
    "many": "for _ in range(20000): x.add_(0)\nx.sum().item()",
    "many_events": "\n".join(
        ["for _ in range(20000):", "    e = torch.Event(device='tb', enable_timing=True)", "    e.record()"]
    ),
    "many_storages": "s = x.untyped_storage()\nfor _ in range(20000): s.fill_(0)",
    "many_copies": "s, o = x.untyped_storage().clone(), x.untyped_storage()\nfor _ in range(20000): s.copy_(o, True)",
    "buffer": "import tb_allocator; b = tb_allocator.empty(8); b.tobytes(); bytes(memoryview(b))",
    "dlpack": "torch.utils.dlpack.from_dlpack(torch.utils.dlpack.to_dlpack(x)).sum().item()",
}

# Further calls. Each runs in its own process, with these environment variables.
ALONE: dict[str, tuple[str, dict[str, str]]] = {
    "fallback": ("x * x", {"TB_FORCE_FALLBACK": "aten::mul.Tensor", "TB_FALLBACK": "allow"}),
    "memory_limit": (
        "torch.tb.set_per_process_memory_fraction(1e-9)\n"
        "try:\n    torch.empty(1 << 28, device='tb')\n    assert 0\nexcept torch.OutOfMemoryError:\n    pass",
        {},
    ),
    "launch_blocking": ("x + 1", {"TB_LAUNCH_BLOCKING": "1"}),
    "del_at_exit": ("keep = [x + 1 for _ in range(4)]", {}),
    "sim": (
        ";".join(["torch.save(x, io.BytesIO())", "copy.deepcopy(x)", "x.untyped_storage().cpu()"]),
        {"TB_DRIVER": "sim"},
    ),
    "sim_full": ("s = x.untyped_storage()\nfor _ in range(20000): s.fill_(0)", {"TB_DRIVER": "sim"}),
}


def run(calls: dict[str, str], run_python: RunPython, **env: str) -> None:
    done = run_python(f"CALLS = {calls!r}\n{PROGRAM}", env=env, check=False, timeout=600)
    assert done.returncode == 0, done.stdout.splitlines()[-1] + "\n" + done.stderr
    assert done.stdout.endswith("went on\n")


def test_no_public_call_waits_with_pythons_lock(run_python: RunPython) -> None:
    run(WAITING, run_python)


@pytest.mark.parametrize("name", ALONE)
def test_no_public_call_waits_with_pythons_lock_in_a_process_of_its_own(name: str, run_python: RunPython) -> None:
    call, env = ALONE[name]
    run({name: call}, run_python, **env)


def test_two_threads_that_run_out_of_memory_do_not_block_each_other(run_python: RunPython) -> None:
    """The thread that waits for the device needs Python's lock afterwards, which the other thread holds."""
    call = """
import threading
torch.tb.set_per_process_memory_fraction((64 << 20) / torch.tb.mem_get_info()[1])
def work():
    for _ in range(20):
        storages = [torch.UntypedStorage(1 << 20, device="tb") for _ in range(24)]
        storages[0].fill_(0)
        queue()
        del storages
        try:
            torch.UntypedStorage(40 << 20, device="tb")
        except torch.OutOfMemoryError:
            pass
threads = [threading.Thread(target=work) for _ in range(2)]
for thread in threads: thread.start()
for thread in threads: thread.join()
"""
    run({"two threads": call}, run_python)
