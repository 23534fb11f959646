"""`python -m torch_backend.api_coverage`: exit status 0 if the names ran; what a device refuses is a result."""

import sys

from tb_device import console

from torch_backend.api_coverage.cli import main

if __name__ == "__main__":
    sys.exit(console.run(main))
