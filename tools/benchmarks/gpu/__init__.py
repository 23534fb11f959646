"""Benchmarks and checks of the CUDA driver on a machine with a GPU."""
