"""Conformance suite for a PrivateUse1 device: PyTorch's operator, module and optimizer databases, against the CPU.

`python -m torch_backend.conformance --device NAME` runs it. The CPU is the reference for everything: a call that
returns tensors there must return the same tensors on the device, and a call that raises there must raise the same type.
The databases are part of the torch wheel (`torch.testing._internal`), so the suite follows the installed torch.
"""
