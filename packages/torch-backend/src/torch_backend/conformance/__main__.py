"""`python -m torch_backend.conformance`: exit status 0 if every case that had to run ran and none failed."""

import sys

from tb_device import console

from torch_backend.conformance.cli import main

if __name__ == "__main__":
    sys.exit(console.run(main))
