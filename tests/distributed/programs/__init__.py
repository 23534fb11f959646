"""What ranks run, each as python -m distributed.programs.NAME. See cases.py."""
