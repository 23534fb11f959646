"""Distributed training on tb: tests, the programs that their ranks run, and what starts and stops ranks."""
