"""Kernels of tb that are wrong on purpose, and whether a judge of devices finds each: `python -m broken_kernels`."""
