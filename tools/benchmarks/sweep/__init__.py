"""Single operators on device tb against stock cpu, in two processes that take turns: `nox -s bench -- --sweep`."""
