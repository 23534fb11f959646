"""Generates wrappers for a vendor's two-phase operators from a table of functions, arguments, shapes and types."""
