"""tb-amp works with another PrivateUse1 backend, without the other packages of this project."""

import os
import pathlib
import subprocess

import pytest
import torch
from fork_server import run_program

HERE = pathlib.Path(__file__).parent
START = """
import types, torch, warnings
torch.ops.load_library({library!r})
torch.utils.rename_privateuse1_backend("second")
import tb_amp
module = types.ModuleType("second")
module.get_amp_supported_dtype = tb_amp.get_amp_supported_dtype
module.is_available, module.device_count, module.current_device = lambda: True, lambda: 1, lambda: 0
module._is_in_bad_fork, module.manual_seed_all = lambda: False, lambda seed: None
torch._register_device_module("second", module)
tb_amp.register()
torch.manual_seed(0)
x = torch.randn(4, 8).to("second")
"""


@pytest.fixture(scope="module")
def start(tmp_path_factory: pytest.TempPathFactory) -> str:
    """The first lines of a program that uses the backend."""
    torch_folder = pathlib.Path(torch.__file__).parent
    library = tmp_path_factory.mktemp("second") / "second_backend.so"
    include = [f"-isystem{torch_folder / path}" for path in ("include", "include/torch/csrc/api/include")]
    link = [f"-L{torch_folder / 'lib'}", "-lc10", "-ltorch_cpu", f"-Wl,-rpath,{torch_folder / 'lib'}"]
    command = [os.environ.get("CXX", "c++"), "-std=c++20", "-O0", "-fPIC", "-shared", *include]
    done = subprocess.run(
        [*command, str(HERE / "second_backend.cpp"), "-o", str(library), *link],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return START.format(library=str(library))


# PyTorch's thread for the device's backward passes may still free a graph, for which it takes the GIL. If the
# interpreter ends meanwhile, that thread is ended inside C++ code, and the process crashes.
LEAVE = "\nimport os, sys\nsys.stdout.flush()\nos._exit(0)\n"


def run(program: str) -> list[str]:
    """The output of a program. A process has one PrivateUse1 backend, so each test has its own process."""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("TB_") or k == "TB_DRIVER"}
    done = run_program(program + LEAVE, {**clean, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"})
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout.splitlines()


@pytest.mark.parametrize("low", ["bfloat16", "float16"])
def test_autocast_gives_the_values_of_casting_by_hand(start: str, low: str) -> None:
    program = f"""
low = torch.{low}
weight = torch.randn(5, 8).to("second")
with torch.autocast("second", low):
    product = torch.nn.functional.linear(x, weight)
    with torch.autocast("second", enabled=False):
        full = x @ weight.t()
    with tb_amp.autocast(dtype=torch.bfloat16):
        inner = x @ weight.t()
    assert (x @ weight.t()).dtype == low and full.dtype == torch.float32 and inner.dtype == torch.bfloat16
    assert x.to(low).exp().dtype == torch.float32
assert product.dtype == low
assert torch.equal(product.cpu(), torch.nn.functional.linear(x.cpu().to(low), weight.cpu().to(low)))
print("all", torch._C._get_privateuse1_backend_name())
"""
    assert run(start + program) == ["all second"]


def test_training_with_a_scaler_is_that_of_the_cpu_and_overflow_is_skipped(start: str) -> None:
    program = """
def train(device, scaler):
    torch.manual_seed(1)
    model = torch.nn.Sequential(torch.nn.Linear(8, 16), torch.nn.Tanh(), torch.nn.Linear(16, 1)).to(device)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    scales = []
    for step in range(6):
        optimizer.zero_grad()
        with torch.autocast(device, torch.float16):
            loss = model(x.to(device)).square().mean()
        scaler.scale(loss if step not in (0, 3) else loss * float("inf")).backward()
        scaler.step(optimizer)
        scaler.update()
        scales.append(scaler.get_scale())
    return scales, [p.detach().cpu() for p in model.parameters()]

scales, weights = train("second", tb_amp.GradScaler(init_scale=1024.0, growth_interval=2))
expected_scales, expected = train("cpu", torch.amp.GradScaler("cpu", init_scale=1024.0, growth_interval=2))
assert scales == expected_scales == [512, 512, 1024, 512, 512, 1024], (scales, expected_scales)
for a, b in zip(weights, expected):
    torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-4)
print("trained")
"""
    assert run(start + program) == ["trained"]


def test_an_autograd_function_runs_its_backward_in_the_state_of_its_forward(start: str) -> None:
    program = """
class Product(torch.autograd.Function):
    @staticmethod
    @tb_amp.custom_fwd(cast_inputs=torch.float32)
    def forward(context, a, b):
        context.save_for_backward(a, b)
        assert not torch.is_autocast_enabled("second")
        return a @ b

    @staticmethod
    @tb_amp.custom_bwd
    def backward(context, gradient):
        a, b = context.saved_tensors
        assert not torch.is_autocast_enabled("second") and gradient.dtype == torch.float32
        return gradient @ b.t(), a.t() @ gradient

a = x.half().requires_grad_()
with tb_amp.autocast(dtype=torch.float16):
    result = Product.apply(a, torch.ones(8, 2).to("second"))
assert result.dtype == torch.float32
result.sum().backward()
print(a.grad.dtype, a.grad.cpu().unique().tolist())
"""
    assert run(start + program) == ["torch.float16 [2.0]"]


@pytest.mark.parametrize("early", [False, True], ids=["registered first", "made way for"])
def test_a_backend_with_scaler_kernels_of_its_own_keeps_them(start: str, early: bool) -> None:
    program = """
warnings.simplefilter("error")  # of a kernel registered over another
library = torch.library.Library("aten", "IMPL", "PrivateUse1")
library.impl("_amp_update_scale_", lambda scale, *rest: scale.fill_(7.0))
tb_amp.register()
scale, tracker = torch.ones(1).to("second"), torch.zeros(1, dtype=torch.int32).to("second")
torch._amp_update_scale_(scale, tracker, torch.zeros(1).to("second"), 2.0, 0.5, 1)
gradient, found = torch.full((2,), 8.0).to("second"), torch.zeros(1).to("second")
torch._amp_foreach_non_finite_check_and_unscale_([gradient], found, torch.full((1,), 0.5).to("second"))
print(scale.item(), gradient.cpu().tolist(), found.item())
"""
    before = "tb_amp.register()\ntb_amp.make_way()\n" if early else ""
    assert run(start.replace("tb_amp.register()\n", before) + program) == ["7.0 [4.0, 4.0] 0.0"]


def test_operators_of_ones_own_follow_the_rule_that_they_were_given(start: str) -> None:
    program = """
seen = []

@torch.library.custom_op("mine::mix", mutates_args=())
def mix(
    a: torch.Tensor, others: list[torch.Tensor], bias: torch.Tensor | None = None, factor: float = 2.0
) -> torch.Tensor:
    seen.append([str(t.dtype)[6:] for t in (a, *others, *([] if bias is None else [bias]))])
    return a * factor

@torch.library.custom_op("mine::fill", mutates_args=("a",))
def fill(a: torch.Tensor) -> None:
    a.fill_(1)

torch.library.define("mine::pick", "(Tensor a, Tensor?[] rest) -> Tensor")

@torch.library.impl("mine::pick", "CompositeExplicitAutograd")
def pick(a, rest):
    seen.append([str(a.dtype)[6:], *(None if t is None else str(t.dtype)[6:] for t in rest)])
    return a.clone()

half, double, whole = x.half(), x.double(), x.long()
def ask(*arguments, operator=mix):
    seen.clear()
    with tb_amp.autocast(dtype=torch.float16):
        result = operator(*arguments)
    return *seen[0], "->", str(result.dtype)[6:]

plain = ask(x, [half])
tb_amp.add_rule(mix, "lower_precision_fp")
assert tb_amp.rules()["lower_precision_fp"][-1] == "mine::mix"
assert ask(x, [half, double, whole], x) == ("float16", "float16", "float64", "int64", "float16", "->", "float16")
assert ask(x, []) == ("float16", "->", "float16")
seen.clear(); mix(x, [half]); assert seen == [["float32", "float16"]], "outside of a region nothing is cast"
tb_amp.remove_rule("mine::mix")
assert ask(x, [half]) == plain == ("float32", "float16", "->", "float32")
tb_amp.add_rule("mine::mix", "promote")
assert ask(half, [x], half) == ("float32", "float32", "float32", "->", "float32")
assert ask(half, [half]) == ("float16", "float16", "->", "float16")
tb_amp.remove_rule(mix)
tb_amp.add_rule(torch.ops.mine.mix, "fp32")
assert ask(half, [half], whole) == ("float32", "float32", "int64", "->", "float32")
tb_amp.add_rule(torch.ops.mine.pick.default, "lower_precision_fp")
assert ask(x, [None, x], operator=torch.ops.mine.pick) == ("float16", None, "float16", "->", "float16")

def refused(*arguments):
    try: tb_amp.add_rule(*arguments)
    except ValueError as error: return str(error)
    raise AssertionError(arguments)

assert "has a rule for PrivateUse1 devices already" in refused("mine::mix", "fp32")
assert "PyTorch's own cannot be exchanged" in refused("aten::mm", "fp32")
assert "writes to an argument" in refused(fill, "fp32")
assert "there is no such operator" in refused("mine::other", "fp32")
assert 'name the operator with its library, "mylib::mix"' in refused("mix", "fp32")
assert "lower_precision_fp, fp32 and promote" in refused("mine::mix", "fp16")
try: tb_amp.remove_rule("aten::mm")
except ValueError as error: print(error)
"""
    assert run(start + program) == ['remove_rule("aten::mm"): add_rule() gave it none. Rules of PyTorch\'s lists stay']


def test_a_region_casts_a_weight_once_if_its_cache_is_on(start: str) -> None:
    program = """
from torch.utils._python_dispatch import TorchDispatchMode

class Casts(TorchDispatchMode):
    def __torch_dispatch__(self, function, types, arguments=(), options=None):
        if function is torch.ops.aten._to_copy.default:
            self.count += 1
        return function(*arguments, **options or {})

def casts(**options):
    with Casts() as counter:
        counter.count = 0
        with torch.autocast("second", torch.bfloat16, **options):
            for _ in range(3):
                inputs.mm(weight)
            with torch.autocast("second", torch.bfloat16):
                inputs.mm(weight)
    return counter.count

inputs = x.bfloat16()
weight = torch.ones(8, 8).to("second").requires_grad_()
print(casts(), casts(), casts(cache_enabled=False))
weight.requires_grad_(False)
print(casts())
"""
    assert run(start + program) == ["1 1 4", "4"]
