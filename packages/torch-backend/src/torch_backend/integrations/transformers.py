"""transformers: the Trainer's device, bf16 and random numbers, pipelines, the offloaded cache, captured models, and the
streams of continuous batching."""

from __future__ import annotations

import functools
import inspect
from typing import Any

from torch_backend.integrations.client import Client, Function, Shape
from torch_backend.integrations.device import load_random_state, save_random_state, tb_is_current

transformers = Client("transformers", "transformers")
CLIENTS = {"transformers": transformers}


@transformers.mend(
    "transformers.training_args",
    "TrainingArguments._setup_devices",
    Shape(["self"], ["use_cpu", "distributed_state", "_n_gpu"]),
)
def _setup_devices(original: Function) -> Function:
    @functools.wraps(original)
    def setup_devices(self: Any) -> Any:
        device = original(self)
        state = self.distributed_state
        if device.type == "cpu" and not self.use_cpu and state is not None and state.device.type == "tb":
            self._n_gpu = 1  # as for all accelerators but CUDA: one device for each process
            return state.device
        return device

    return setup_devices


@transformers.mend("transformers.utils.import_utils", "is_torch_bf16_gpu_available", Shape([]))
@transformers.mend("transformers.utils", "is_torch_bf16_gpu_available", Shape([]))
@transformers.mend("transformers.training_args", "is_torch_bf16_gpu_available", Shape([]))
def _bf16_available(original: Function) -> Function:
    @functools.wraps(original)
    def is_torch_bf16_gpu_available(*args: Any, **kwargs: Any) -> Any:
        import torch

        return original(*args, **kwargs) or (tb_is_current() and torch.tb.is_bf16_supported())  # type: ignore[attr-defined]

    return is_torch_bf16_gpu_available


@transformers.mend(
    "transformers.trainer",
    "Trainer._save_rng_state",
    Shape(["self", "output_dir"], ["get_rng_state"]),
)
def _save_rng_state(original: Function) -> Function:
    @functools.wraps(original)
    def save_rng_state(self: Any, output_dir: str, *args: Any, **kwargs: Any) -> None:
        original(self, output_dir, *args, **kwargs)
        save_random_state(output_dir, self.args.process_index)

    return save_rng_state


@transformers.mend(
    "transformers.trainer",
    "Trainer._load_rng_state",
    Shape(["self", "checkpoint"], ["set_rng_state"]),
)
def _load_rng_state(original: Function) -> Function:
    @functools.wraps(original)
    def load_rng_state(self: Any, checkpoint: str | None, *args: Any, **kwargs: Any) -> None:
        original(self, checkpoint, *args, **kwargs)
        if checkpoint is not None:
            load_random_state(checkpoint, self.args.process_index)

    return load_rng_state


@transformers.mend(
    "transformers.pipelines.base",
    "Pipeline.__init__",
    Shape(None, ["model", "device"], ["hf_device_map"]),
)
def _pipeline(original: Function) -> Function:
    @functools.wraps(original)
    def __init__(self: Any, *args: Any, **kwargs: Any) -> None:
        import torch

        bound = inspect.signature(original).bind(self, *args, **kwargs)
        device, placed = bound.arguments.get("device"), getattr(bound.arguments["model"], "hf_device_map", None)
        if device is None and placed is not None:
            device = next(iter(placed.values()))
        is_index = device is None or (isinstance(device, int) and device >= 0)
        if not is_index or torch.cuda.is_available() or not tb_is_current():
            original(self, *args, **kwargs)
            return
        tb = torch.device("tb", device or 0)
        if placed is None:
            bound.arguments["device"] = tb
            original(*bound.args, **bound.kwargs)
        else:  # the original accepts no device for a model that is placed, and does not move it
            original(self, *args, **kwargs)
            self.device = tb

    return __init__


@transformers.mend(
    "transformers.cache_utils",
    "Cache.update",
    Shape(
        ["self", "key_states", "value_states", "layer_idx"],
        ["offloading", "prefetch_stream", "default_stream", "prefetch", "offload", "only_non_sliding"],
    ),
)
def _offloaded_cache(original: Function) -> Function:
    @functools.wraps(original)
    def update(self: Any, key_states: Any, value_states: Any, layer_idx: int, *args: Any, **kwargs: Any) -> Any:
        if not self.offloading or key_states.device.type != "tb":
            return original(self, key_states, value_states, layer_idx, *args, **kwargs)
        import torch

        stream = torch.accelerator.current_stream(key_states.device)
        stream.wait_stream(self.prefetch_stream)
        self.offloading = False  # the original would wait for CUDA's streams
        try:
            updated = original(self, key_states, value_states, layer_idx, *args, **kwargs)
        finally:
            self.offloading = True
        self.prefetch_stream.wait_stream(stream)
        self.prefetch(layer_idx + 1, self.only_non_sliding)
        self.offload(layer_idx, self.only_non_sliding)
        return updated

    return update


@transformers.mend("transformers.utils.import_utils", "is_cuda_stream_capturing", Shape([]))
def _stream_capturing(original: Function) -> Function:
    """A model looks at the values of its attention mask, which waits for them, unless the stream captures."""

    @functools.wraps(original)
    def is_cuda_stream_capturing(*args: Any, **kwargs: Any) -> Any:
        import torch

        return original(*args, **kwargs) or torch.tb.is_current_stream_capturing()  # type: ignore[attr-defined]

    return is_cuda_stream_capturing


@transformers.mend(
    "transformers.generation.continuous_batching.input_outputs",
    "ContinuousBatchingIOs.prepare_batch_tensors",
    Shape(None, ["input_ids", "write_index_storage", "read_index_storage"]),
)
def _continuous_batching(original: Function) -> Function:
    """The inputs are filled on the current stream and read on the compute stream, with no wait between them."""

    @functools.wraps(original)
    def prepare_batch_tensors(self: Any, *args: Any, **kwargs: Any) -> Any:
        prepared = original(self, *args, **kwargs)
        if self.device.type == "tb" and self.compute_stream is not None:
            import torch

            self.compute_stream.wait_stream(torch.accelerator.current_stream(self.device))
        return prepared

    return prepare_batch_tensors
