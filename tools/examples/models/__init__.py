"""The families of models that people train, each in a file of its own, for the tests and the benchmark."""
