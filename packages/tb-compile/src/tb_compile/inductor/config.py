"""What generated code depends on besides Inductor's own settings: part of the keys under which it is kept on disk."""

import sys

from torch.utils._config_module import install_config_module

# Compiled functions become device graphs.
device_graphs: bool = False
# To be raised when the code that this package generates changes.
code_version: int = 3

install_config_module(sys.modules[__name__])
