"""Compares what two versions of PyTorch offer to a backend: `nox -s check-drift`."""
