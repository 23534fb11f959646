"""Plugins that every run of pytest uses: see PYTEST_ARGUMENTS in tools/building/testing.py."""
