"""What tests of other versions of PyTorch need beside the installed one.

A test file belongs to its version of `torch.testing._internal`. Between near versions little changes, and that is here:
names that are now elsewhere, or gone, are added to their module if it lacks them, and a few texts are replaced. What a
test asserts is never changed.
"""

from __future__ import annotations

import importlib
import pathlib
import re
from collections.abc import Callable
from typing import Any

INTERNAL = "torch.testing._internal"


def _new_module_tests() -> Any:
    return importlib.import_module(f"{INTERNAL}.common_nn").get_new_module_tests()


def _binary_ufuncs_and_refs() -> Any:
    return importlib.import_module(f"{INTERNAL}.common_methods_invocations").binary_ufuncs


def _skip_ops() -> Any:
    now = importlib.import_module(f"{INTERNAL}.common_device_type").skipOps
    # It had the names of the class and of the test before the operators.
    return lambda *arguments: now(arguments[-1])


def _no_overlap(tensor: Any) -> bool:
    return False


def _constant(value: Any) -> Callable[[], Any]:
    return lambda: value


def _test_compiled_fsdp() -> Any:
    # It ran a test without and with torch.compile of what FSDP computes; the latter is gone.
    return lambda compile_compute_on_module=None: lambda test: test


# module: {name: "module:name" of the same thing in the installed version, or what makes it}
NAMES: dict[str, dict[str, str | Callable[[], Any]]] = {
    f"{INTERNAL}.common_methods_invocations": {
        "skip": f"{INTERNAL}.common_device_type:skip",
        "xfail": f"{INTERNAL}.common_device_type:xfail",
        "skipOps": _skip_ops,
        "binary_ufuncs_and_refs": _binary_ufuncs_and_refs,
    },
    f"{INTERNAL}.common_cuda": {"tf32_is_not_fp32": _constant(lambda: False)},
    f"{INTERNAL}.common_mkldnn": {"bf32_on_and_off": f"{INTERNAL}.common_mkldnn:reduced_f32_on_and_off"},
    f"{INTERNAL}.common_nn": {"new_module_tests": _new_module_tests},
    f"{INTERNAL}.common_utils": {"dtype_abbrs": "torch.utils._dtype_abbrs:dtype_abbrs"},
    f"{INTERNAL}.common_fsdp": {"test_compiled_fsdp": _test_compiled_fsdp},
    "torch.nn.attention.flex_attention": {"create_nested_block_mask": _constant(None)},
    "functorch.experimental.control_flow": {
        "UnsupportedAliasMutationException": "torch._higher_order_ops.utils:UnsupportedAliasMutationException"
    },
    "torch._inductor.compile_fx": {"complex_memory_overlap": _constant(_no_overlap)},
    f"{INTERNAL}.inductor_utils": {
        "HAS_CUDA": f"{INTERNAL}.inductor_utils:HAS_CUDA_AND_TRITON",
        "HAS_XPU": f"{INTERNAL}.inductor_utils:HAS_XPU_AND_TRITON",
    },
}


# Replaced in test files. Since PyTorch 2.7 the generic class is a base of a device's class, where this calls itself.
TEXTS = {"super(self.__class__, self)": "super()"}


def adapted(text: str) -> str:
    """The text of a test file as it is run."""
    for old, new in TEXTS.items():
        text = text.replace(old, new)
    return text


def adapt(path: pathlib.Path) -> list[str]:
    """Adds to modules of the installed PyTorch, in this process, what a test file may miss. Returns the added names.

    A file's own helpers, in its folder, may miss it too.
    """
    text = path.read_text()
    near = [path.with_name(f"{module}.py") for module in re.findall(r"^ *from \.?(\w+) import", text, re.MULTILINE)]
    text += "".join(module.read_text() for module in near if module.is_file())
    added = []
    for module_name, names in NAMES.items():
        if module_name.rsplit(".", 1)[-1] not in text:
            continue
        module = importlib.import_module(module_name)
        for name, source in names.items():
            if hasattr(module, name):
                continue
            if isinstance(source, str):
                other, attribute = source.split(":")
                value = getattr(importlib.import_module(other), attribute)
            else:
                value = source()
            setattr(module, name, value)
            added.append(f"{module_name}.{name}")
    return added
