"""Distributed training on tb against gloo on the CPU, in the same processes."""
