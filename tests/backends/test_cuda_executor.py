"""PyTorch's CUDA kernels as operators of the CUDA driver, on the simulated backend of tests/sim_vendor/torch_cuda."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from conftest import RunPython
from sim_vendor.simulated import variables_of_torch_cuda

pytestmark = pytest.mark.skipif(
    torch.version.cuda is not None, reason="the simulated backend takes the place of kernels that this PyTorch has"
)

Run = Callable[..., "subprocess.CompletedProcess[str]"]

# The simulated backend must be loaded before torch, which looks for its CUDA part at the import.
START = """
import ctypes, json, os
backend = ctypes.CDLL(os.environ["SIMULATED_BACKEND"])
import torch
backend.simulated_kernels.restype = ctypes.c_uint64
backend.simulated_last_stream.restype = ctypes.c_uint64
backend.simulated_current_stream.restype = ctypes.c_uint64
"""


@pytest.fixture(scope="module")
def simulated_backend() -> dict[str, str]:
    """The environment of a process with the simulated CUDA driver and simulated CUDA kernels."""
    return variables_of_torch_cuda()


@pytest.fixture
def run(run_python: RunPython, simulated_backend: dict[str, str]) -> Run:
    """Runs code after START; keyword arguments are environment variables."""

    def run_code(code: str, *, check: bool = True, **environment: str) -> subprocess.CompletedProcess[str]:
        return run_python(START + textwrap.dedent(code), {**simulated_backend, **environment}, check=check)

    return run_code


CASES = """
    import torch.nn.functional as F
    def made(*shape):
        return torch.arange(float(torch.Size(shape).numel())).sin().reshape(shape)
    def out(x):
        result = torch.empty(0, device=x.device)
        torch.add(x, 1, out=result)
        return result
    def in_place(x):
        y = x.clone()
        y[:, 1].mul_(3).add_(y[:, 0])
        return y
    def gradients(x):
        weight = made(4, 3, 2, 2).to(x.device).requires_grad_()
        bias = made(4).to(x.device).requires_grad_()
        image = x.view(1, 3, 4, 5).clone().requires_grad_()
        F.conv2d(image, weight, bias, padding=1).square().sum().backward()
        return [image.grad, weight.grad, bias.grad]
    x = made(12, 5)
    cases = {
        "structured": lambda x: x + x.t().contiguous().t(),
        "product": lambda x: x @ x.t(),
        "reduction": lambda x: x.sum(1),
        "new results": lambda x: F.layer_norm(x, (5,)),
        "several results": lambda x: list(x.sort(dim=1)),
        "several outputs": lambda x: list(torch.mode(x, 1, out=(x.new_empty(0), x.new_empty(0, dtype=torch.int64)))),
        "size depends on the data": lambda x: x.nonzero(),
        "list": lambda x: torch.cat([x, x[2:4]]),
        "index": lambda x: x[torch.tensor([3, 0, 7], device=x.device)],
        "view": lambda x: x[:, ::2].t() * 2,
        "strided copy": lambda x: x.t().contiguous(),
        "cast": lambda x: x.to(torch.float64).t(),
        "host number": lambda x: x * torch.tensor(2.5),
        "factory": lambda x: torch.full((3,), 7.0, device=x.device),
        "out": out,
        "in place": in_place,
        "convolution": gradients,
        "complex": lambda x: torch.complex(x, x).conj() @ torch.complex(x.t(), x.t()),
    }
    wrong = []
    for name, case in cases.items():
        found, wanted = case(x.to("tb")), case(x)
        pairs = zip(found, wanted, strict=True) if isinstance(found, list) else [(found, wanted)]
        same = [f.device.type == "tb" and f.stride() == w.stride() and torch.equal(f.cpu(), w) for f, w in pairs]
        wrong += [] if all(same) else [name]
    print(json.dumps({"wrong": wrong, "cases": len(cases), "kernels": backend.simulated_kernels(),
                      "blocks": backend.simulated_blocks(), "fallbacks": [r.operator for r in torch.tb.fallbacks()]}))
"""


def test_results_are_the_kernels_without_a_fallback_and_in_the_allocators_memory(run: Run) -> None:
    found = json.loads(run(CASES).stdout.splitlines()[-1])
    assert (found["wrong"], found["fallbacks"]) == ([], [])
    assert found["kernels"] > found["cases"]
    assert found["blocks"] == 0  # no block of CUDA's own allocator is alive


def test_kernels_run_on_tbs_current_stream_and_leave_cudas_as_it_was(run: Run) -> None:
    code = """
        x = torch.ones(1000, device="tb")
        default = backend.simulated_last_stream()
        side = torch.tb.Stream()
        side.wait_stream(torch.tb.current_stream())
        with torch.tb.stream(side):
            y = x + 1
            print(default, backend.simulated_last_stream(), side.native_handle or 0, backend.simulated_current_stream())
        second = torch.ones(3, device="tb:1") + 1
        assert second.device.index == 1 and second.tolist() == [2.0] * 3
        assert torch.tb.current_device() == 0
    """
    default, used, side, now = map(int, run(code).stdout.split())
    assert default == 0
    assert used == side != 0
    assert now == 0


def test_a_capture_is_refused_with_the_setting_that_allows_it(run: Run) -> None:
    code = """
        x = torch.ones(3, device="tb")
        graph = torch.tb.Graph()
        try:
            with torch.tb.graph(graph):
                x + 1
        except NotImplementedError as error:
            print(error)
        print((x + 1).tolist())
    """
    refusal, after = run(code).stdout.splitlines()
    assert "takes memory that a graph would not keep. Start the program with TB_CUDA_OPERATORS=own" in refusal
    assert after == "[2.0, 2.0, 2.0]"


TRAINS = """
    def train(device):
        torch.manual_seed(0)
        layers = [torch.nn.Embedding(32, 16), torch.nn.LayerNorm(16), torch.nn.Linear(16, 32)]
        model = torch.nn.Sequential(*layers).to(device)
        optimizer = torch.optim.AdamW(model.parameters(), lr=1e-2)
        tokens = (torch.arange(64) % 32).to(device)
        losses = []
        for _ in range(3):
            optimizer.zero_grad()
            loss = torch.nn.functional.cross_entropy(model(tokens), (tokens * 3) % 32)
            loss.backward()
            optimizer.step()
            losses.append(loss.item())
        return losses
    print(json.dumps([train("tb"), train("cpu"), [r.operator for r in torch.tb.fallbacks()]]))
"""


def test_a_model_trains_to_the_losses_of_the_kernels_without_a_fallback(run: Run) -> None:
    here, cpu, fallbacks = json.loads(run(TRAINS).stdout.splitlines()[-1])
    assert (here, fallbacks) == (cpu, [])


@pytest.mark.parametrize("thread", ["caller", "own"])  # own: PyTorch's thread for the device
def test_backward_runs_on_the_forwards_stream_and_device(run: Run, thread: str) -> None:
    code = """
        with torch.tb.device(1):
            side = torch.tb.Stream()
            with torch.tb.stream(side):
                x = torch.arange(6.0, device="tb:1").requires_grad_()
                loss = (x * x).sin().sum()
        side.synchronize()
        loss.backward()
        print(backend.simulated_last_stream() == side.native_handle, backend.simulated_last_device())
        torch.tb.synchronize(1)
        wanted = torch.arange(6.0).requires_grad_()
        (wanted * wanted).sin().sum().backward()
        print(x.grad.device, torch.equal(x.grad.cpu(), wanted.grad))
    """
    assert run(code, TB_BACKWARD_THREAD=thread).stdout.split() == ["True", "1", "tb:1", "True"]


def test_a_call_with_tensors_of_two_devices_runs_on_the_streams_of_both(run: Run) -> None:
    code = """
        streams = [torch.tb.Stream(device=i) for i in range(2)]
        with torch.tb.stream(streams[0]), torch.tb.stream(streams[1]):
            given = [torch.arange(4.0, device=f"tb:{i}") for i in range(2)]
            before = backend.simulated_kernels()
            torch._foreach_add_(given, 1.0)
            print(backend.simulated_kernels() - before, backend.simulated_last_device())
            print(backend.simulated_last_stream() == streams[1].native_handle)
            print([each.tolist() for each in given])
        print(backend.simulated_current_stream())
    """
    wanted = ["1 1", "True", "[[1.0, 2.0, 3.0, 4.0], [1.0, 2.0, 3.0, 4.0]]", "0"]
    assert run(code).stdout.splitlines() == wanted


def test_work_is_ordered_by_streams_and_memory_is_reused_in_their_order(run: Run) -> None:
    """The simulated backend writes results after the call has returned, in the order of the current stream."""
    code = """
        side = torch.tb.Stream()
        for i in range(30):
            x = torch.full((3000,), float(i), device="tb")
            side.wait_stream(torch.tb.current_stream())
            with torch.tb.stream(side):
                y = torch.nn.functional.layer_norm(x * 0 + torch.arange(3000.0, device="tb"), (3000,)) + x
                x.record_stream(side)
            del x
            other = torch.full((3000,), -1.0, device="tb")  # not in x's memory while the side stream reads it
            torch.tb.current_stream().wait_stream(side)
            y.record_stream(torch.tb.current_stream())
            wanted = torch.nn.functional.layer_norm(torch.arange(3000.0), (3000,)) + i
            assert torch.equal(y.cpu(), wanted), i
            del y, other
        print("ordered")
    """
    assert run(code).stdout == "ordered\n"


def test_results_are_memory_of_tbs_allocator_and_copies_are_counted(run: Run) -> None:
    code = """
        from tb_ops import _core
        x = torch.ones(2000, device="tb")
        before, allocated = _core.cuda_operators(), torch.tb.memory_allocated()
        added = x + x
        assert _core.cuda_operators() == before == (True, "", 0, 0), before
        normed = torch.ops.aten.native_layer_norm(x, [2000], None, None, 1e-5)
        print(_core.cuda_operators()[2:], torch.tb.memory_allocated() - allocated, backend.simulated_blocks())
    """
    found = run(code).stdout
    assert found == "(3, 8008) 17408 0\n"  # three results, each rounded up to 512 bytes by the allocator


def test_a_cuda_kernel_is_preferred_to_pytorchs_composite_kernel(run: Run) -> None:
    code = """
        def kernels(work):
            before = backend.simulated_kernels()
            work()
            return backend.simulated_kernels() - before
        x = torch.ones(4, device="tb")
        print(kernels(lambda: torch._foreach_add([x] * 5, 1.0)), kernels(lambda: torch._foreach_abs([x] * 5)))
        print(kernels(lambda: torch.nn.functional.layer_norm(x, (4,))), kernels(lambda: x + x))
    """
    assert run(code).stdout.split() == [
        "1",
        "5",
        "1",
        "1",
    ]  # the simulated backend has no separate kernel for the second operator


def test_random_numbers_of_pytorchs_kernels_follow_tbs_generator(run: Run) -> None:
    code = """
        def drawn():
            torch.tb.manual_seed(7)
            made = [torch.multinomial(torch.ones(50, device="tb"), 20).tolist() for _ in range(2)]
            return made + [torch.rand(3, device="tb").tolist(), torch.nn.functional.dropout(
                torch.ones(9, device="tb"), 0.5).tolist()]
        first, again = drawn(), drawn()
        print(first == again, first[0] != first[1])
        own = torch.Generator("tb").manual_seed(7)
        print(torch.multinomial(torch.ones(50, device="tb"), 20, generator=own).tolist() == first[0])
    """
    assert run(code).stdout.split() == ["True"] * 3


def test_operators_that_wait_are_reported(run: Run) -> None:
    code = """
        x = torch.ones(3, device="tb")
        torch.tb.set_sync_debug_mode("error")
        x + 1
        try:
            x.nonzero()
        except RuntimeError as error:
            print(str(error).splitlines()[0])
    """
    assert "aten::nonzero" in run(code).stdout


def test_an_error_of_a_kernel_is_raised_and_changes_nothing(run: Run) -> None:
    code = """
        x, cpu = torch.ones(3, device="tb"), torch.ones(3)
        for call in (lambda: torch.nn.functional.layer_norm(x, (4,)), lambda: torch.ops.aten.index_select(x, 0, x),
                     lambda: torch.ops.aten.dot(x, x.to("meta"))):
            try:
                call()
            except Exception as error:
                print(type(error).__name__)
        print(backend.simulated_current_stream(), torch.tb.current_device(), (x + 1).tolist())
    """
    lines = run(code).stdout.splitlines()
    assert len(lines) == 4
    assert lines[-1] == "0 0 [2.0, 2.0, 2.0]"


def test_impossible_settings_are_refused_with_the_reason(
    run: Run, run_python: RunPython, simulated_backend: dict[str, str]
) -> None:
    use = "import torch; torch.ones(1, device='tb')"
    done = run_python(use, {**simulated_backend, "TB_CUDA_OPERATORS": "torch"}, check=False)  # only this PyTorch
    assert "TB_CUDA_OPERATORS=torch cannot be: the installed PyTorch has no kernels for CUDA" in done.stderr
    done = run(use, check=False, TB_CUDA_OPERATORS="mine")
    assert "TB_CUDA_OPERATORS=mine is neither own nor torch" in done.stderr
    done = run(use, check=False, TB_CUDA_OPERATORS="torch", TB_DRIVER="cpu")
    assert "the driver cpu does not say that its memory and streams are CUDA's" in done.stderr
    done = run(use, check=False, TB_CUDA_OPERATORS="torch", SIMULATED_BACKEND_DEVICES="1")
    assert "PyTorch sees 1 CUDA devices and the driver 2" in done.stderr


def test_with_own_operators_no_kernel_of_pytorchs_runs(run: Run) -> None:
    code = "print((torch.ones(3, device='tb') + 1).tolist(), backend.simulated_kernels())"
    assert run(code, TB_CUDA_OPERATORS="own").stdout == "[2.0, 2.0, 2.0] 0\n"


# About every tenth entry of PyTorch's operator database.
ENTRIES = (
    "__getitem__,_softmax_backward_data,addbmm,addmm,amax,argsort,as_strided,baddbmm,bernoulli,bmm,bucketize,cat,cdist,"
    "clamp,complex,cumsum,diag_embed,div.*,einsum,equal,erf,exponential,fft.fft2,flip,gather,index_add,index_put,kthvalue,"
    "linalg.cholesky,linalg.svd,linalg.vector_norm,log_softmax,masked_select,max.*,median,multinomial,nanmean,"
    "native_layer_norm,nn.functional.batch_norm,nn.functional.conv2d,nn.functional.conv_transpose1d,"
    "nn.functional.cross_entropy,nn.functional.embedding_bag,nn.functional.gelu,nn.functional.grid_sample,"
    "nn.functional.group_norm,nn.functional.interpolate.bilinear,nn.functional.max_pool2d,nn.functional.pad.reflect,"
    "nn.functional.scaled_dot_product_attention,nonzero,norm,poisson,put,qr,repeat_interleave,roll,scatter_reduce.sum,"
    "searchsorted,select_scatter,sort,stack,std_mean,svd,take,tensor_split,topk,tril,unfold,unique,var,where"
)


def test_entries_of_pytorchs_operator_database_pass_without_a_fallback(
    simulated_backend: dict[str, str], tmp_path: Path
) -> None:
    # It is loaded before torch in each process, as in START.
    (tmp_path / "sitecustomize.py").write_text('import ctypes, os\nctypes.CDLL(os.environ["SIMULATED_BACKEND"])\n')
    command = [sys.executable, "-m", "torch_backend.conformance", "--check", "forward", "--dtype", "float32"]
    command += ["--op", ENTRIES, "--samples", "1", "--workers", "1", "--json", str(tmp_path / "report.json")]
    environment = {**os.environ, **simulated_backend, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run(command, env=environment, cwd=tmp_path, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]
    found = json.loads((tmp_path / "report.json").read_text())["checks"]["forward"]
    assert (found["failed"], found["native_rate"]) == (0, 1.0)
    assert found["passed"] >= 70
