"""Wrappers for a vendor's operators in two phases, from a table: functions, arguments, shapes, types."""
