"""What of PyTorch works on a device: every public name, by runs beside the CPU.

`python -m torch_backend.api_coverage` runs the samples of PyTorch's own databases for each function, method, module and
optimizer that has some, and a short program for the others, and writes for each name whether it ran natively, by a
fallback to the CPU, or not. The checks, the worker processes and the comparison are those of torch_backend.conformance.
"""
