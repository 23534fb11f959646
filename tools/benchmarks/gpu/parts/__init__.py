"""The parts of the report about a GPU, each a program of its own: python -m benchmarks.gpu.parts.NAME --out FILE."""
