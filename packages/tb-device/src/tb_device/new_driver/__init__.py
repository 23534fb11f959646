"""Writes the folder of a new driver: `tb-device new-driver mychip`.

The templates beside this file are themselves working drivers called mychip: `both`, and one of `c`, `cpp` (level 0) and
`kernels` (level 3), whose files come in the place of those in `both`. The name is replaced, and @LANGUAGE@ by the
suffix of the driver's source.
"""

from __future__ import annotations

import re
from pathlib import Path

from .. import discovery, levels
from ..exceptions import AlreadyExistsError, InvalidArgumentError

LANGUAGES = {"c": "c", "c++": "cpp"}
TEMPLATES = {(0, "c"): "c", (0, "c++"): "cpp", (3, "c"): "kernels"}
"""The folder of templates for a level and a language."""
LEVELS = tuple(sorted({level for level, _ in TEMPLATES}))
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


def write(name: str, language: str = "c", into: Path | None = None, level: int = 0) -> list[Path]:
    """Writes a driver's folder, `into`/`name`, and returns the files. Needs no driver and no compiler.

    language: "c" or "c++". into: by default the current folder; made if it is not there. level: of the driver, 0 or 3.
    Raises InvalidArgumentError for the name, the language or the level, AlreadyExistsError if the folder is there
    already.
    """
    check_name(name)
    if (level, language) not in TEMPLATES:
        known = ", ".join(f"level {each} in {of}" for each, of in TEMPLATES)
        raise InvalidArgumentError(
            f"no template of level {level} in {language!r}: there are {known}", function="new-driver"
        )
    folder = (into or Path()) / name
    try:
        folder.mkdir(parents=True)
    except FileExistsError as error:
        raise AlreadyExistsError(
            f"{folder} is there already and stays as it is: take another name, another folder (--into), or remove it",
            function="new-driver",
        ) from error
    templates = {}
    for top in (_TEMPLATES / "both", _TEMPLATES / TEMPLATES[level, language]):
        for template in sorted(path for path in top.rglob("*") if path.is_file() and path.parent.name != "__pycache__"):
            templates[str(template.relative_to(top))] = template
    written = []
    for place, template in templates.items():
        target = folder / place.replace(_NAME, name)
        target.parent.mkdir(parents=True, exist_ok=True)
        text = template.read_text(encoding="utf-8")
        target.write_text(text.replace(_NAME, name).replace("@LANGUAGE@", LANGUAGES[language]), encoding="utf-8")
        if text.startswith("#!"):
            target.chmod(0o755)
        written.append(target)
    return written


def next_commands(name: str, level: int = 0) -> list[str]:
    """What to run in the new folder: build, prove, look."""
    library = f"./build/lib{name}.so"
    return [
        "meson setup build && meson compile -C build",
        f"tb-device contract --driver {library} --level {level}" + (" --expect tb-contract.toml" if level else ""),
        f"tb-device explain --driver {library}",
    ]


def report(name: str, written: list[Path], level: int = 0) -> str:
    """What the command prints: the files, the next commands, and what the next level needs."""
    folder = min((path.parent for path in written), key=lambda parent: len(parent.parts))
    lines = [f"Wrote {folder}:"]
    lines += [f"  {path.relative_to(folder)}" for path in sorted(written)]
    lines += ["", "Next (meson and ninja: pip install meson ninja):", f"  cd {folder}"]
    lines += [f"  {command}" for command in next_commands(name, level)]
    offered = ["CORE"] if level == 0 else ["CORE", "ASYNC", "PIN", "TIMING", "HOSTCALL", "MODULE"]
    lines += ["", levels.checklist(offered), "", "[name]: optional in its group. What each does: tb/driver_slots.inc"]
    return "\n".join(lines)
