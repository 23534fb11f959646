"""`python -m torch_backend.pytorch_tests`: exit status 0 if tests ran and no failure is unexplained."""

import sys

from tb_device import console

from torch_backend.pytorch_tests.cli import main

if __name__ == "__main__":
    sys.exit(console.run(main))
