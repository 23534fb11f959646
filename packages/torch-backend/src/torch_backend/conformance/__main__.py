"""`python -m torch_backend.conformance`: exit status 0 when everything that had to run ran and nothing failed."""

import sys

from torch_backend.conformance.cli import main

if __name__ == "__main__":
    sys.exit(main())
