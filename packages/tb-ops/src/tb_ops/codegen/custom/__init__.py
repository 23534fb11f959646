"""Reads and checks operators that a user declares in YAML (declaration), and writes them as C++ (emit, gradients)."""
