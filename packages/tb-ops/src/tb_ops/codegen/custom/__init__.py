"""Operators that a user declares in YAML: read and checked (declaration), written as C++ (emit, gradients)."""
