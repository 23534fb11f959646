"""The autocast rules: exactly what PyTorch's header lists, and what the dispatcher does once they are registered."""

import pathlib
import re
import subprocess
import sys

import tb_amp
import torch

HEADER = pathlib.Path(torch.__file__).parent / "include/ATen/autocast_mode.h"
LISTS = {
    "AT_FORALL_LOWER_PRECISION_FP": "lower_precision_fp",
    "AT_FORALL_FP32": "fp32",
    "AT_FORALL_FP32_SET_OPT_DTYPE": "fp32_set_opt_dtype",
    "AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE": "fp32_append_dtype",
    "AT_FORALL_PROMOTE": "promote",
}


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
    return found


def run(program: str) -> subprocess.CompletedProcess[str]:
    """Registration is for the whole process and for ever, so each test has a process of its own."""
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)


def test_the_rules_are_what_the_header_lists() -> None:
    expected = lists_of_the_header()
    assert set(expected) == {*LISTS.values(), "banned"}
    assert min(len(names) for policy, names in expected.items() if policy != "banned") >= 2
    assert tb_amp.rules() == expected


def test_the_rules_are_cudas_but_for_what_only_cuda_has() -> None:
    cuda = {name.removeprefix("aten::") for name in torch._C._dispatch_get_registrations_for_dispatch_key("AutocastCUDA")}
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


# Tensors of a device without any code: dispatch reaches the kernels that the test registers, which record the types.
# The dispatcher's part of autocast on PrivateUse1 can be seen so, without a backend.
RECORD = """
import torch, tb_amp
tb_amp.register()
seen = []
kept = torch.library.Library('aten', 'IMPL', 'PrivateUse1')
def record(name, result):
    def kernel(*arguments, **options):
        tensors = [t for a in arguments for t in (a if isinstance(a, list) else [a]) if isinstance(t, torch.Tensor)]
        seen.append((name, [str(t.dtype).removeprefix('torch.') for t in tensors]))
        return result(*arguments, **options)
    kept.impl(name, kernel)
"""


def test_autocast_regions_call_the_rules_on_privateuse1_tensors_and_fall_through_for_other_operators() -> None:
    done = run(
        "import torch, tb_amp\n"
        "tb_amp.register()\n"
        "keys = torch._C._dispatch_tls_local_include_set\n"
        "table = torch._C._dispatch_dump_table('aten::mm')\n"
        "relu = torch._C._dispatch_dump_table('aten::relu')\n"
        "line = next(l for l in table.splitlines() if l.startswith('AutocastPrivateUse1:'))\n"
        "assert '[kernel]' in line and 'rules.cpp' in line, line\n"
        "line = next(l for l in relu.splitlines() if l.startswith('AutocastPrivateUse1:'))\n"
        "assert 'fallthrough' in line and '[backend fallback]' in line, line\n"
    )
    assert (done.returncode, done.stderr) == (0, "")
