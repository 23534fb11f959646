"""The modules of the Python reference: a user's name -> (the name in the sources, submodules on the same page)."""

MODULES: dict[str, tuple[str, list[str]]] = {
    "torch.tb": ("torch_backend.device_module", ["torch.tb.amp"]),
    "torch.tb.amp": ("torch_backend.device_module.amp", []),
    "tb_device": ("tb_device", []),
    "tb_stream": ("tb_stream", []),
    "tb_allocator": ("tb_allocator", []),
    "tb_generator": ("tb_generator", []),
    "tb_amp": ("tb_amp", []),
    "tb_ops": ("tb_ops", []),
    "tb_compile": ("tb_compile", []),
}
