"""Finds the headers against which a library of custom operators is compiled."""

from __future__ import annotations

import os


def get_include() -> str:
    """The folder to give the compiler with -I, so that `#include "tb/operator.h"` works; tb_device's is needed too.

    Raises FileNotFoundError if the installation is incomplete.
    """
    package = os.path.dirname(os.path.realpath(__file__))
    # The second is for editable installs, where nothing is copied.
    for parts in (("include",), ("..",)):
        folder = os.path.normpath(os.path.join(package, *parts))
        if os.path.isfile(os.path.join(folder, "tb", "operator.h")):
            return folder
    raise FileNotFoundError(
        f"tb/operator.h is missing beside {package}. Reinstall it: pip install --force-reinstall tb-ops"
    )
