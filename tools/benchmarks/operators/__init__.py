"""The benchmark: device tb against stock cpu, interleaved in one process."""
