"""Checks on the files of a release: nothing here builds or installs. `nox -s release` runs them."""
