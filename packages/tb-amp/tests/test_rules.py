"""The autocast rules are exactly those of PyTorch's header, and the dispatcher follows them after registration."""

import os
import pathlib
import re
import subprocess

import tb_amp
import torch
from fork_server import run_program

HEADER = pathlib.Path(torch.__file__).parent / "include/ATen/autocast_mode.h"
LISTS = {
    "AT_FORALL_LOWER_PRECISION_FP": "lower_precision_fp",
    "AT_FORALL_FP32": "fp32",
    "AT_FORALL_FP32_SET_OPT_DTYPE": "fp32_set_opt_dtype",
    "AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE": "fp32_append_dtype",
    "AT_FORALL_PROMOTE": "promote",
}
BESIDE_THE_LIST = ["linalg_matrix_sqrth"]  # CUDA's autocast casts these to float32 too, where they exist


def lists_of_the_header() -> dict[str, list[str]]:
    text = HEADER.read_text().replace("\\\n", " ")
    found: dict[str, list[str]] = {"banned": ["binary_cross_entropy"]}
    for macro, body in re.findall(r"#define (AT_FORALL_\w+)\(_\)(.*)", text):
        if macro in LISTS:
            names = re.findall(r'"([\w.]+)"', body) or [
                name if not overload else f"{name}.{overload}"
                for name, overload in re.findall(r"_\((\w+)(?:, (\w+))?\)", body)
            ]
            found[LISTS[macro]] = names
    found["fp32"] += [name for name in BESIDE_THE_LIST if (HEADER.parent / "ops" / f"{name}.h").exists()]
    return found


def run(program: str) -> subprocess.CompletedProcess[str]:
    """Runs code in a separate process, because a registration lasts until the process ends."""
    # An installed backend would register itself as PrivateUse1.
    alone = {**os.environ, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}
    return run_program(program, alone)


def test_the_rules_are_what_the_header_lists() -> None:
    expected = lists_of_the_header()
    assert set(expected) == {*LISTS.values(), "banned"}
    assert min(len(names) for policy, names in expected.items() if policy != "banned") >= 2
    assert tb_amp.rules() == expected


def test_the_rules_are_cudas_but_for_what_only_cuda_has() -> None:
    cuda = {
        name.removeprefix("aten::") for name in torch._C._dispatch_get_registrations_for_dispatch_key("AutocastCUDA")
    }
    ours = {name for names in tb_amp.rules().values() for name in names}
    assert ours <= cuda
    assert {name for name in cuda - ours if "cudnn" not in name} == set()


def test_importing_registers_nothing_and_registering_twice_is_registering_once() -> None:
    done = run(
        "import warnings; warnings.simplefilter('error')\n"
        "import torch, tb_amp\n"
        "from torch._C import _dispatch_get_registrations_for_dispatch_key as registered\n"
        "assert registered('AutocastPrivateUse1') == []\n"
        "tb_amp.register(); tb_amp.register()\n"
        "names = {n for names in tb_amp.rules().values() for n in names}\n"
        "assert {n.removeprefix('aten::') for n in registered('AutocastPrivateUse1')} == names\n"
        "has = torch._C._dispatch_has_kernel_for_dispatch_key\n"
        "assert has('aten::mm', 'AutocastPrivateUse1') and not has('aten::relu', 'AutocastPrivateUse1')\n"
        "assert torch._C._dispatch_has_backend_fallback(torch._C.DispatchKey.AutocastPrivateUse1)\n"
        "assert has('aten::_amp_foreach_non_finite_check_and_unscale_', 'PrivateUse1')\n"
        "assert has('aten::_amp_update_scale_', 'PrivateUse1')\n"
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_rules_of_another_package_are_left_alone_and_named() -> None:
    done = run(
        "import torch\n"
        "library = torch.library.Library('aten', 'IMPL', 'AutocastPrivateUse1')\n"
        "library.impl('mm', lambda a, b: a)\n"
        "import tb_amp\n"
        "try: tb_amp.register()\n"
        "except RuntimeError as error: print(error)\n"
        "from torch._C import _dispatch_get_registrations_for_dispatch_key as registered\n"
        "print(registered('AutocastPrivateUse1'), torch._C._dispatch_has_kernel_for_dispatch_key("
        "'aten::_amp_update_scale_', 'PrivateUse1'))\n"
    )
    assert "cannot register its autocast rules: aten::mm has one for PrivateUse1 devices already" in done.stdout
    assert done.stdout.splitlines()[-1] == "['aten::mm'] False", done.stdout + done.stderr


# Tensors that claim to be on a PrivateUse1 device and report the calls that they get below autocast. So the tests see
# the casts without a backend.
FAKE_DEVICE = """
import types, torch, tb_amp
from torch.utils._pytree import tree_leaves, tree_map

seen = []

class Fake(torch.Tensor):
    @staticmethod
    def __new__(cls, dtype, shape=(2, 2)):
        return torch.Tensor._make_wrapper_subclass(cls, shape, dtype=dtype, device="privateuseone:0")

    @classmethod
    def __torch_dispatch__(cls, function, classes, arguments=(), options=None):
        options = {name: value for name, value in (options or {}).items() if name != "device"}
        if function is not torch.ops.aten._to_copy.default:
            seen.append([str(leaf.dtype)[6:] for leaf in tree_leaves(arguments) if isinstance(leaf, torch.Tensor)])
        meta = lambda leaf: torch.empty(leaf.shape, dtype=leaf.dtype, device="meta") if isinstance(leaf, Fake) else leaf
        result = function(*tree_map(meta, arguments), **tree_map(meta, options))
        return tree_map(lambda leaf: Fake(leaf.dtype, leaf.shape) if isinstance(leaf, torch.Tensor) else leaf, result)

torch.utils.rename_privateuse1_backend("fake")
module = types.ModuleType("fake")
module.get_amp_supported_dtype = tb_amp.get_amp_supported_dtype
torch._register_device_module("fake", module)
half, full, double = Fake(torch.bfloat16), Fake(torch.float32), Fake(torch.float64)
tb_amp.register()

def ask(operation, *tensors):
    seen.clear()
    result = operation(*tensors)
    return *seen[-1], "->", str(result.dtype)[6:]
"""


def test_in_an_autocast_region_each_policy_casts_as_it_says() -> None:
    done = run(
        FAKE_DEVICE + "with tb_amp.autocast(dtype=torch.bfloat16):\n"
        "    assert ask(torch.mm, full, half) == ('bfloat16', 'bfloat16', '->', 'bfloat16')\n"
        "    assert ask(torch.mm, double, double) == ('float64', 'float64', '->', 'float64')\n"
        "    assert ask(torch.exp, half) == ('float32', '->', 'float32')\n"
        "    assert ask(torch.sum, half) == ('bfloat16', '->', 'float32')\n"
        "    assert ask(torch.norm, half) == ('bfloat16', '->', 'float32')\n"
        "    assert ask(torch.addcmul, full, half, half) == ('float32', 'float32', 'float32', '->', 'float32')\n"
        "    assert ask(torch.addcmul, half, half, half) == ('bfloat16', 'bfloat16', 'bfloat16', '->', 'bfloat16')\n"
        "    assert ask(torch.relu, half) == ('bfloat16', '->', 'bfloat16')\n"
        "    try: torch.nn.functional.binary_cross_entropy(half, half)\n"
        "    except RuntimeError as error: assert 'unsafe to autocast' in str(error)\n"
        "    else: raise AssertionError('binary_cross_entropy was not refused')\n"
        "with tb_amp.autocast(dtype=torch.float16):\n"
        "    assert ask(torch.mm, full, full) == ('float16', 'float16', '->', 'float16')\n"
        "assert ask(torch.mm, full, full) == ('float32', 'float32', '->', 'float32')\n"
        "with torch.autocast('fake', enabled=False):\n"
        "    assert ask(torch.mm, full, full) == ('float32', 'float32', '->', 'float32')\n"
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_rules_come_from_register_and_from_nothing_else() -> None:
    done = run(
        FAKE_DEVICE.replace("tb_amp.register()", "") + "with tb_amp.autocast():\n"
        "    try: ask(torch.mm, full, full)\n"
        "    except NotImplementedError as error: assert 'Autocast' in str(error)\n"
        "    else: raise AssertionError('there are rules')\n"
        "    tb_amp.register()\n"
        "    assert ask(torch.mm, full, full) == ('bfloat16', 'bfloat16', '->', 'bfloat16')\n"
    )
    assert (done.returncode, done.stderr) == (0, "")


def test_the_device_named_is_the_privateuse1_device_whatever_its_name() -> None:
    done = run(
        FAKE_DEVICE + "assert tb_amp.autocast().device == 'fake' and tb_amp.autocast().fast_dtype == torch.bfloat16\n"
        "module.is_available = lambda: True\n"
        "scaler = tb_amp.GradScaler(init_scale=8.0, growth_interval=3)\n"
        "assert isinstance(scaler, torch.amp.GradScaler) and scaler._device == 'fake'\n"
        "assert scaler.get_scale() == 8.0 and scaler.get_growth_interval() == 3\n"
    )
    assert (done.returncode, done.stderr) == (0, "")
