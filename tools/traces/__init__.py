"""Whether other programs can read the traces of torch.profiler on tb: `nox -s check-traces`."""
