"""Test suites of other libraries, unmodified, on tb: `nox -s suites`."""
