"""The parts of tools/gpu_report.py, each a program of its own: python -m gpu_parts.NAME --out FILE."""
