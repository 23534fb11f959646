"""Generates kernels from schemas: reads the installed PyTorch's native_functions.yaml, writes C++ for PrivateUse1."""
