"""The demo: a byte-level language model trained on device tb, and the same model on stock cpu beside it."""
