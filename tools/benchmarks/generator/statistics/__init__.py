"""Tests of the distributions of tb-generator's numbers with many samples, and dieharder on the words."""
