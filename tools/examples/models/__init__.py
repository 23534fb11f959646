"""Families of models that people train, one in each file, for the tests and the benchmark."""
