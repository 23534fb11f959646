"""Where the C headers are that drivers and components are compiled against."""

from __future__ import annotations

import os


def get_include() -> str:
    """The folder to give the compiler with -I, so that `#include "tb/driver.h"` works.

    Raises FileNotFoundError if the installation is incomplete.
    """
    package = os.path.dirname(os.path.realpath(__file__))
    # The second is for editable installs, where nothing is copied.
    for parts in (("include",), ("..", "..", "shared", "include")):
        folder = os.path.normpath(os.path.join(package, *parts))
        if os.path.isfile(os.path.join(folder, "tb", "driver.h")):
            return folder
    raise FileNotFoundError(
        f"tb/driver.h is missing beside {package}. Reinstall it: pip install --force-reinstall tb-device"
    )
