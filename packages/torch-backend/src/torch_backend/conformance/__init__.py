"""Conformance suite for a PrivateUse1 device: PyTorch's own operator, module and optimizer databases, against the CPU.

`python -m torch_backend.conformance --device NAME` runs it. The CPU is the reference for everything: a call that gives
tensors there has to give the same tensors on the device, and a call that raises there has to raise the same type.
The databases ship in the torch wheel (`torch.testing._internal`), so what is checked follows the installed torch.
"""
