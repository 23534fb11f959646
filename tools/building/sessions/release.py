"""The files of a release, checked and tried as a stranger would install them."""

from __future__ import annotations

import argparse
import functools
from collections.abc import Callable

import nox

from building import release as steps
from building.testing import PACKAGES, run_all
from building.torch_versions import MINORS


@nox.session
def release(session: nox.Session) -> None:
    """Wheels and source archives in build/release/dist, checked and tried beside each torch. `-- --torch MINOR...`

    Every wheel is installed without a network and without build tools, and runs the examples of its README.
    """
    parser = argparse.ArgumentParser(prog="nox -s release --", description=release.__doc__)
    parser.add_argument("--torch", nargs="+", choices=MINORS, default=MINORS, help="for these versions only")
    minors = [minor for minor in MINORS if minor in parser.parse_args(session.posargs).torch]
    steps.write_files(session, minors)
    steps.download_third_party(session)
    driver = steps.build_driver(session)
    tasks: dict[str, Callable[[], None]] = {
        "files": functools.partial(steps.check_files, minors),
        "metadata": functools.partial(steps.check_metadata, session),
    }
    tasks |= {
        f"README of {name}": functools.partial(steps.try_readme, session, package, minors[0])
        for name, package in PACKAGES.items()
    }
    tasks |= {f"torch {minor}": functools.partial(steps.try_torch, session, minor, driver) for minor in minors}
    for version in steps.versions_out_of_range():
        tasks[f"torch {version}"] = functools.partial(steps.try_other_torch, session, version, minors)
    run_all(session, tasks)
