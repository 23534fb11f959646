"""Benchmarks, one folder for each thing that is measured; nox runs them with tools/ on PYTHONPATH."""
