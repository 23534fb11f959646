"""Measures tb-allocator on recorded and generated traces, on a device without memory."""
