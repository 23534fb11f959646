"""Settings of generated code besides Inductor's own. They are part of the keys of Inductor's cache on disk."""

import sys

from torch.utils._config_module import install_config_module

# Whether compiled functions become device graphs.
device_graphs: bool = False
# Where kernels run and what the devices lack, as target.py finds it.
target: str = ""
# Must be incremented when the code that this package generates changes.
code_version: int = 4

install_config_module(sys.modules[__name__])
