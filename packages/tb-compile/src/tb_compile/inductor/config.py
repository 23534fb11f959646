"""Settings of generated code besides Inductor's own. They are part of the keys of Inductor's cache on disk."""

import sys

from torch.utils._config_module import install_config_module

# Whether compiled functions become device graphs.
device_graphs: bool = False
# Must be incremented when the code that this package generates changes.
code_version: int = 3

install_config_module(sys.modules[__name__])
