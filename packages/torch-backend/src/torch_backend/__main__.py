"""`python -m torch_backend`: prints the diagnosis; exit status 1 if tb cannot be used."""

import os
import sys

from torch_backend._doctor import doctor

try:
    usable = doctor()
    sys.stdout.flush()
except BrokenPipeError:  # the reader has gone, as `head` goes; Python flushes once more when it ends
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    sys.exit(141)
sys.exit(0 if usable else 1)
