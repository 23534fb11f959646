"""Checks of other packages, unmodified, on device tb against the CPU. Run them with `nox -s clients`."""
