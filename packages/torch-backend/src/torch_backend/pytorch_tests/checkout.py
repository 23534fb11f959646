"""A checkout, or an unpacked source archive, of PyTorch: its version and its test files."""

from __future__ import annotations

import pathlib
from collections.abc import Iterable

DTENSOR = (
    "test_dtensor test_redistribute test_api test_init test_tensor_ops test_math_ops test_matrix_ops "
    "test_pointwise_ops test_embedding_ops test_convolution_ops test_random_ops test_optimizers test_view_ops "
    "test_utils test_experimental_ops test_attention test_common_rules test_op_strategy test_dtensor_compile "
    "test_dtensor_ops"
)

# The kinds of files: of tests that PyTorch makes for each type of device, and of tests that take the accelerator of the
# process. The latter are in these folders.
DEVICE_TYPES, ACCELERATOR = "device-types", "accelerator"
OF_ACCELERATOR = ("distributed", "dynamo", "export")

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
    "distributed": (
        "test_c10d_common test_device_mesh test_functional_api test_c10d_functional_native "
        "test_c10d_object_collectives test_multi_threaded_pg test_fake_pg test_backends test_dynamo_distributed "
        "test_inductor_collectives test_compute_comm_reordering test_data_parallel test_collective_utils "
        "test_c10d_logger"
    ),
    "distributed/_composable": "test_checkpoint test_contract test_replicate test_replicate_with_compiler",
    "distributed/_composable/fsdp": (
        "test_fully_shard_training test_fully_shard_init test_fully_shard_comm test_fully_shard_state_dict "
        "test_fully_shard_state test_fully_shard_mixed_precision test_fully_shard_autograd test_fully_shard_frozen "
        "test_fully_shard_clip_grad_norm_ test_fully_shard_extensions test_fully_shard_overlap "
        "test_fully_shard_memory test_fully_shard_grad_scaler test_fully_shard_logging test_fully_shard_compile"
    ),
    "distributed/_composable/test_composability": "test_2d_composability test_pp_composability",
    # Since PyTorch 2.7 the tests of DTensor are in the other of these two folders.
    "distributed/_tensor": DTENSOR,
    "distributed/tensor": DTENSOR,
    "distributed/tensor/parallel": (
        "test_parallelize_api test_tp_style test_tp_examples test_tp_random_state test_micro_pipeline_tp"
    ),
    "distributed/fsdp": (
        "test_fsdp_core test_fsdp_use_orig_params test_fsdp_mixed_precision test_fsdp_state_dict test_fsdp_optim_state "
        "test_fsdp_misc test_fsdp_unshard_params test_fsdp_meta test_fsdp_hybrid_shard test_fsdp_ignored_modules "
        "test_fsdp_comm_hooks test_fsdp_flatten_params test_fsdp_grad_acc test_fsdp_clip_grad_norm "
        "test_fsdp_checkpoint test_fsdp_sharded_grad_scaler test_fsdp_dtensor_state_dict test_fsdp_tp_integration "
        "test_hsdp_dtensor_state_dict test_fsdp_exec_order test_fsdp_fine_tune test_fsdp_apply test_fsdp_comm "
        "test_fsdp_freezing_weights test_fsdp_input test_fsdp_memory test_fsdp_multiple_forward test_fsdp_overlap "
        "test_fsdp_multiple_wrapping test_fsdp_pure_fp16 test_fsdp_traversal test_fsdp_uneven "
        "test_fsdp_backward_prefetch test_checkpoint_wrapper test_distributed_checkpoint test_shard_utils test_utils "
        "test_wrap"
    ),
    "distributed/checkpoint": (
        "test_state_dict test_checkpoint test_file_system_checkpoint test_dtensor_resharding test_state_dict_utils "
        "test_dtensor_checkpoint test_fsdp_model_state test_fsdp_optim_state test_hsdp_checkpoint test_tp_checkpoint "
        "test_fsdp_tp_checkpoint_conversion test_format_utils test_save_load_api test_planner test_fsspec"
    ),
    "distributed/checkpoint/fsdp": "test_fsdp_dsd",
    "distributed/checkpoint/e2e": "test_e2e_save_and_load test_fine_tuning test_fsdp_ep test_pipeline",
    "distributed/optim": "test_zero_redundancy_optimizer test_apply_optimizer_in_backward test_named_optimizer",
    "distributed/algorithms": "test_join",
    "distributed/algorithms/ddp_comm_hooks": "test_ddp_hooks",
    "distributed/pipelining": "test_schedule test_schedule_multiproc test_stage test_backward",
    "dynamo": (
        "test_ctx_manager test_activation_checkpointing test_model_output test_autograd_function test_deviceguard"
    ),
    "export": "test_export test_hop test_passes",
}


def kind_of(file: str) -> str:
    """The kind of a file below `test`."""
    return ACCELERATOR if file.split("/")[0] in OF_ACCELERATOR else DEVICE_TYPES


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

    def files(self, names: Iterable[str] = (), kind: str | None = None) -> list[str]:
        """The files, relative to `test` and without ".py": those named, in any form, or all of FILES of a kind.

        Raises:
            ValueError: a named one is not there.
        """
        found = [name.removeprefix("./").removeprefix("test/").removesuffix(".py") for name in names]
        if missing := [name for name in found if not self.path(name).is_file()]:
            raise ValueError(f"{self.tests} has no {', '.join(missing)}")
        standard = [
            str(pathlib.PurePosixPath(folder, name)) for folder, names in FILES.items() for name in names.split()
        ]
        return found or [name for name in standard if self.path(name).is_file() and kind in (None, kind_of(name))]

    def path(self, name: str) -> pathlib.Path:
        return self.tests / f"{name}.py"
