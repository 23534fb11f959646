"""`python -m torch_backend`: prints the diagnosis; exit status 1 if tb cannot be used."""

import sys

from torch_backend._doctor import doctor

sys.exit(0 if doctor() else 1)
