"""Where the C headers are that drivers and components are compiled against."""

from __future__ import annotations

from pathlib import Path


def get_include() -> str:
    """The folder to give the compiler with -I, so that `#include "tb/driver.h"` works.

    Raises FileNotFoundError if the installation is incomplete.
    """
    package = Path(__file__).resolve().parent
    # The second is for editable installs, where nothing is copied.
    for folder in (package / "include", package.parent.parent / "shared" / "include"):
        if (folder / "tb" / "driver.h").is_file():
            return str(folder)
    raise FileNotFoundError(
        f"tb/driver.h is missing beside {package}. Reinstall it: pip install --force-reinstall tb-device"
    )
