"""A checkout, or an unpacked source archive, of PyTorch: its version and its test files."""

from __future__ import annotations

import pathlib
from collections.abc import Iterable

# What a device of PyTorch is judged by, in folders below `test`. Large files are first: a large one last leaves
# workers idle.
FILES = {
    "": (
        "test_ops test_ops_gradients test_ops_fwd_gradients test_decomp test_meta test_linalg test_torch "
        "test_nn test_binary_ufuncs test_unary_ufuncs test_reductions test_foreach test_sparse "
        "test_sparse_csr test_nestedtensor test_transformers test_tensor_creation_ops test_type_promotion "
        "test_view_ops test_shape_ops test_indexing test_sort_and_select test_scatter_gather_ops "
        "test_segment_reductions test_spectral_ops test_complex test_masked test_modules test_optim "
        "test_autograd test_serialization test_dlpack test_dataloader test_fake_tensor test_custom_ops "
        "test_autocast test_multiprocessing"
    ),
    "functorch": "test_ops test_vmap test_eager_transforms test_vmap_registrations test_control_flow",
    "distributions": "test_distributions test_constraints",
    "autograd": "test_complex test_functional test_logging",
    "nn": (
        "test_convolution test_dropout test_embedding test_init test_lazy_modules test_load_state_dict "
        "test_module_hooks test_multihead_attention test_packed_sequence test_parametrization test_pooling "
        "test_pruning"
    ),
    "profiler": "test_profiler test_memory_profiler",
    "inductor": "test_torchinductor_opinfo",
}


class Checkout:
    """The folder of PyTorch's sources."""

    def __init__(self, root: pathlib.Path) -> None:
        """Raises ValueError if the folder is no checkout of PyTorch."""
        self.root = root.resolve()
        self.tests = self.root / "test"
        if not (self.tests / "test_torch.py").is_file() or not (self.root / "version.txt").is_file():
            raise ValueError(
                f"{root} is no checkout of PyTorch: it has no test/test_torch.py or no version.txt. Name the folder of "
                "a checkout, or of an unpacked source archive, of the installed version or a near one"
            )
        self.version = (self.root / "version.txt").read_text().strip().split("a0")[0]

    def files(self, names: Iterable[str] = ()) -> list[str]:
        """The files, relative to `test` and without ".py": those named, as paths in any form, or all of FILES.

        Raises:
            ValueError: a named one is not there.
        """
        found = [name.removeprefix("./").removeprefix("test/").removesuffix(".py") for name in names]
        if missing := [name for name in found if not self.path(name).is_file()]:
            raise ValueError(f"{self.tests} has no {', '.join(missing)}")
        standard = [
            str(pathlib.PurePosixPath(folder, name)) for folder, names in FILES.items() for name in names.split()
        ]
        return found or [name for name in standard if self.path(name).is_file()]

    def path(self, name: str) -> pathlib.Path:
        return self.tests / f"{name}.py"
