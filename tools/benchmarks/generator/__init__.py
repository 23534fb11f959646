"""tb-generator against PyTorch's CPU generator and NumPy's, in one run."""
