"""Writes the folder of a new driver: `tb-device new-driver mychip`.

The templates beside this file are themselves a working driver called mychip: `both`, and either `c` or `cpp`. Its name
is replaced, and @LANGUAGE@ by the suffix of its source.
"""

from __future__ import annotations

import re
from pathlib import Path

from .. import discovery, levels
from ..exceptions import AlreadyExistsError, InvalidArgumentError

LANGUAGES = {"c": "c", "c++": "cpp"}
LONGEST = 24  # tb_driver_info.name has 32 bytes

_TEMPLATES = Path(__file__).parent
_NAME = "mychip"


def check_name(name: str) -> None:
    """Raises InvalidArgumentError (a ValueError) for a name that no driver can have."""
    if not re.fullmatch(rf"[A-Za-z][A-Za-z0-9_]{{0,{LONGEST - 1}}}", name):
        raise InvalidArgumentError(
            f"{name!r} cannot be the name of a driver: take a letter, then up to {LONGEST - 1} letters, digits and "
            "underscores, such as mychip",
            function="new-driver",
        )
    if name in discovery.BUILTIN:
        raise InvalidArgumentError(
            f"{name!r} is the name of a driver that is built in: take another name", function="new-driver"
        )


def write(name: str, language: str = "c", into: Path | None = None) -> list[Path]:
    """Writes a driver's folder, `into`/`name`, and returns the files. Needs no driver and no compiler.

    language: "c" or "c++". into: by default the current folder; made if it is not there.
    Raises InvalidArgumentError for the name or the language, AlreadyExistsError if the folder is there already.
    """
    check_name(name)
    if language not in LANGUAGES:
        raise InvalidArgumentError(
            f"no template in {language!r}: take one of {', '.join(LANGUAGES)}", function="new-driver"
        )
    folder = (into or Path()) / name
    try:
        folder.mkdir(parents=True)
    except FileExistsError as error:
        raise AlreadyExistsError(
            f"{folder} is there already and stays as it is: take another name, another folder (--into), or remove it",
            function="new-driver",
        ) from error
    suffix = LANGUAGES[language]
    written = []
    for top in (_TEMPLATES / "both", _TEMPLATES / suffix):
        for template in sorted(path for path in top.rglob("*") if path.is_file() and path.parent.name != "__pycache__"):
            target = folder / str(template.relative_to(top)).replace(_NAME, name)
            target.parent.mkdir(parents=True, exist_ok=True)
            text = template.read_text(encoding="utf-8")
            target.write_text(text.replace(_NAME, name).replace("@LANGUAGE@", suffix), encoding="utf-8")
            written.append(target)
    return written


def next_commands(name: str) -> list[str]:
    """What to run in the new folder: build, prove, look."""
    library = f"./build/lib{name}.so"
    return [
        "meson setup build && meson compile -C build",
        f"tb-device contract --driver {library} --level 0",
        f"tb-device explain --driver {library}",
    ]


def report(name: str, written: list[Path]) -> str:
    """What the command prints: the files, the next commands, and what the next level needs."""
    folder = min((path.parent for path in written), key=lambda parent: len(parent.parts))
    lines = [f"Wrote {folder}:"]
    lines += [f"  {path.relative_to(folder)}" for path in sorted(written)]
    lines += ["", "Next (meson and ninja: pip install meson ninja):", f"  cd {folder}"]
    lines += [f"  {command}" for command in next_commands(name)]
    lines += ["", levels.checklist(["CORE"]), "", "[name]: optional in its group. What each does: tb/driver_slots.inc"]
    return "\n".join(lines)
