"""Benchmarks of training steps that are captured as graphs, compiled, or lazy."""
