"""Compares what two versions of PyTorch offer to a backend: `nox -s drift -- 2.13 2.15`."""
