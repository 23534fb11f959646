"""Which driver: argument, then TB_DRIVER, then entry points of the group tb_device.drivers, then the built-in ones.

An entry point names a function without arguments that returns the path of a driver library. Its module may also have a
function `score()`: the highest score is tried first, without one it is 0. A driver of a negative score comes after the
built-in ones, so it is used where it is named. The module must not import an extension.
"""

from __future__ import annotations

import importlib
import math
import os
import sys
import threading
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING, NamedTuple

from . import _core
from .exceptions import AlreadyExistsError, Error, NotFoundError, UnavailableError

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

ENTRY_POINT_GROUP = "tb_device.drivers"
VARIABLE = "TB_DRIVER"
_SEARCH_ORDER = dict(_core.builtin_drivers())
BUILTIN = tuple(_SEARCH_ORDER)
# Of those, in this order; the others are for tests and are opened by name.
AUTOMATIC = tuple(sorted((name for name, order in _SEARCH_ORDER.items() if order), key=_SEARCH_ORDER.__getitem__))

Options = Mapping[str, object]


class Candidate(NamedTuple):
    """A driver that could be the process's default.

    name: as written, or the entry point's. origin: "argument", "TB_DRIVER", "entry point" or "built in".
    path: of the library; "" for the built-in driver or when it is not known.
    chosen: it is the default driver. reason: why it is, or why not.
    """

    name: str
    origin: str
    path: str
    chosen: bool
    reason: str


_lock = threading.RLock()
_opened: list[Candidate] | None = None  # the candidates of the search that found the default driver, or of the last one


def _entry_points() -> list[EntryPoint]:
    from importlib.metadata import entry_points  # slow to import: email, csv, zipfile; only a search needs it

    return list(entry_points(group=ENTRY_POINT_GROUP))


def _in_order(points: list[EntryPoint]) -> tuple[list[EntryPoint], list[EntryPoint]]:
    """The entry points that come before the built-in drivers, and those that come after."""
    scores = {point: _score(point) for point in points}
    order = sorted(points, key=lambda point: (-scores[point], point.name))
    last = [point for point in order if -math.inf < scores[point] < 0]
    return [point for point in order if point not in last], last


def _score(point: EntryPoint) -> float:
    try:
        score = getattr(importlib.import_module(point.module), "score", None)
        return float(score()) if score is not None else 0.0
    except Exception:  # whatever is wrong in the vendor's module shows when its path is asked for
        return float("-inf")


def _path_of(point: EntryPoint) -> str:
    try:
        return str(os.fspath(point.load()()))
    except Exception as error:
        raise UnavailableError(
            f"the entry point {point.name} ({point.value}) gave no path: {type(error).__name__}: {error}. "
            "Reinstall or repair the package that registers it",
            driver=point.name,
        ) from error


def is_path(text: str) -> bool:
    """Whether a driver is named by its library's path: it has a slash."""
    return os.sep in text or (os.altsep is not None and os.altsep in text)


def _option_name(path: str) -> str:
    """libmychip.so.1 -> mychip: options come from TB_MYCHIP_..."""
    return os.path.basename(path).split(".")[0].removeprefix("lib")


def _texts(options: Options | None) -> dict[str, str]:
    return {key: str(value) for key, value in (options or {}).items()}


def locate(name: str) -> str:
    """The library of a driver: a path's own, an entry point's; "" for a built-in driver. Opens nothing.

    Raises UnavailableError when the entry point gives no path, NotFoundError for an unknown name.
    """
    if is_path(name):
        return os.path.abspath(os.path.expanduser(name))
    points = {point.name: point for point in _entry_points()}
    if name in points:
        return _path_of(points[name])
    if name in BUILTIN:
        return ""
    known = ", ".join(sorted({*points, *BUILTIN}))
    raise NotFoundError(
        f"there is no driver {name!r}. Known here: {known}. For a library file give its path with a slash, "
        f"such as ./{name}; a vendor's package adds its name when it is installed",
        driver=name,
        function="load",
    )


def _open(name: str, options: Options | None = None) -> _core.Driver:
    path = locate(name)
    if not path:
        return _core.open_builtin(name, _texts(options))
    return _core.load_library(path, _option_name(path) if is_path(name) else name, _texts(options))


def load_driver(driver: str | os.PathLike[str], options: Options | None = None) -> _core.Driver:
    """Opens a driver beside whatever is open; the process's default driver stays what it is (see use_driver).

    driver: a name ("cpu", or an entry point's), or the path of a library, which has a slash.
    options: the driver's own; what is not given comes from the environment, TB_<NAME>_<OPTION> in upper case, where
        NAME is the name, or for a path the file's without "lib" and ".so".
    Raises NotFoundError for an unknown name or an unloadable file, AbiMismatchError (an ImportError) with everything
    that is wrong for a library that is no usable driver, Error with the driver's own text when it refuses to open.
    """
    return _open(os.fspath(driver), options)


def open_driver(
    driver: str | os.PathLike[str], *, layers: str | Iterable[str] | None = None, **options: object
) -> _core.Driver:
    """Opens a driver beside the default one: tb_device.open("sim", capacity="1GiB", seed=3, layers="validate,leak").

    driver: as load_driver takes it. layers: names of layers to put around it, the outermost first; by default those of
    TB_LAYERS. options: the driver's own, as its documentation names them; True is "1" and False "0".
    Raises what load_driver raises.
    """
    given = {key: int(value) if isinstance(value, bool) else value for key, value in options.items()}
    if layers is not None:
        given["layers"] = layers if isinstance(layers, str) else ",".join(layers)
    return load_driver(driver, given)


def use_driver(driver: str | os.PathLike[str] | _core.Driver, options: Options | None = None) -> _core.Driver:
    """Makes a driver the process's default, which stays the same for ever. Call it before the device is first used.

    driver: an open Driver, or what load_driver takes. Raises AlreadyExistsError if there is a default already.
    """
    global _opened
    with _lock:
        present = _core.default_or_none()
        if present is not None:
            if present is driver:
                return present
            raise AlreadyExistsError(
                f"the process's driver is {present.name} already and cannot change. Call use_driver before the device "
                "is first used, or set TB_DRIVER",
                driver=present.name,
            )
        found = driver if isinstance(driver, _core.Driver) else _open(os.fspath(driver), options)
        _core.set_default(found)
        given = Candidate(found.name, "argument", found.path, True, "asked for by the program")
        _opened = [given, *(each._replace(reason="not searched: a driver was given") for each in _search()[0])]
        return found


def _elevated() -> bool:
    return sys.platform != "win32" and (os.getuid() != os.geteuid() or os.getgid() != os.getegid())


def _search() -> tuple[list[Candidate], int]:
    """All candidates in order, and how many of them are to be tried."""
    named: list[Candidate] = []
    asked = [name.strip() for name in os.environ.get(VARIABLE, "").split(",") if name.strip()]
    ignored = bool(asked) and _elevated()
    for name in asked:
        reason = f"{VARIABLE} is ignored under elevated privilege" if ignored else "not tried yet"
        named.append(Candidate(name, VARIABLE, name if is_path(name) else "", False, reason))
    binding = bool(asked) and not ignored
    reason = f"not searched: {VARIABLE} is set" if binding else "not tried yet"
    # Scores come from the vendors' modules: not imported when their order does not matter.
    points = _entry_points()
    first, last = (points, []) if binding else _in_order(points)
    found = [Candidate(point.name, "entry point", "", False, reason) for point in first]
    found += [Candidate(name, "built in", "", False, reason) for name in AUTOMATIC]
    found += [Candidate(point.name, "entry point", "", False, reason) for point in last]
    if binding:
        return named + found, len(named)
    return found + named, len(found)


def _try(candidate: Candidate) -> tuple[_core.Driver | None, str]:
    try:
        driver = _open(candidate.name)
        if driver.device_count > 0:
            return driver, ""
        driver.close()
    except Error as error:
        return None, str(error)
    return None, "it has no devices here"


def open_default() -> None:
    """Finds and opens the default driver, unless it is open. Raises UnavailableError with every candidate's reason."""
    global _opened
    with _lock:
        if _core.default_or_none() is not None:
            return
        candidates, count = _search()
        _opened = candidates
        for place, candidate in enumerate(candidates[:count]):
            driver, reason = _try(candidate)
            if driver is None:
                candidates[place] = candidate._replace(reason=reason)
                continue
            _core.set_default(driver)
            path = driver.path if candidate.origin != "built in" else ""
            candidates[place] = candidate._replace(path=path, chosen=True, reason="the first usable one in order")
            for later in range(place + 1, count):
                candidates[later] = candidates[later]._replace(reason=f"not needed: {candidate.name} came first")
            return
        reasons = "\n".join(f"  {each.name} ({each.origin}): {each.reason}" for each in candidates[:count])
        chosen = candidates[0].origin == VARIABLE
        remedy = f"Do what is said above, or unset {VARIABLE}" if chosen else "Run: tb-device doctor"
        raise UnavailableError(f"no usable driver. Tried:\n{reasons}\n{remedy}", function="driver")


def default_driver() -> _core.Driver:
    """The process's driver, found and opened at the first call. Raises UnavailableError when none is usable."""
    if not _core.is_open():
        _core.ensure_usable()
        open_default()
    driver = _core.default_or_none()
    assert driver is not None
    return driver


def drivers() -> list[Candidate]:
    """Every candidate in the order of the search, with what became of it. Opens nothing."""
    with _lock:
        return list(_opened) if _opened is not None else _search()[0]
