"""How autocast's rules differ between versions of torch: `python -m tb_amp.drift [TORCH...]`.

Each TORCH is a folder with a torch (site-packages, an unpacked wheel) or a header autocast_mode.h. The report compares
each with the next one. With one TORCH it compares the rules that tb-amp was built with to it; without any, to the
installed torch. The exit status is 1 if a header has a list that tb-amp does not know, or if tb-amp was compared and
differs.
"""

import argparse
import itertools
import pathlib
import re
import sys
from collections.abc import Sequence

Rules = dict[str, list[str]]  # operators by policy

HEADER = pathlib.Path("ATen/autocast_mode.h")
LISTS = {
    "AT_FORALL_LOWER_PRECISION_FP": "lower_precision_fp",
    "AT_FORALL_FP32": "fp32",
    "AT_FORALL_FP32_SET_OPT_DTYPE": "fp32_set_opt_dtype",
    "AT_FORALL_DIFFERENT_REDISPATCH_SIGNATURE": "fp32_append_dtype",
    "AT_FORALL_PROMOTE": "promote",
}
# Operators with a rule that is in no list; a torch that has such an operator has a header of its name.
BESIDE_THE_LISTS = {"fp32": ["linalg_matrix_sqrth"]}
_NO_OPERATORS = {"AT_FORALL_DEPRECATED_AUTOCAST_BACKENDS"}  # names of devices


def read_header(text: str) -> Rules:
    """The lists in the text of an autocast_mode.h by policy; unknown lists are under their macros' names.

    ValueError: the text has no lists.
    """
    found: Rules = {}
    for macro, body in re.findall(r"#define (AT_FORALL_\w+)\(_\)(.*)", text.replace("\\\n", " ")):
        if macro not in _NO_OPERATORS:
            written_out = re.findall(r'"([\w.]+)"', body)  # with signatures
            plain = re.findall(r"_\(\s*(\w+)(?:,\s*(\w+))?\s*\)", body)
            names = written_out or [f"{name}.{overload}" if overload else name for name, overload in plain]
            found[LISTS.get(macro, macro)] = names
    if not found:
        raise ValueError("there is no #define AT_FORALL_...(_): this is no ATen/autocast_mode.h of torch 2.5 or later")
    return found


def read_torch(header: pathlib.Path) -> Rules:
    """The rules of the torch that has this autocast_mode.h. ValueError: as read_header."""
    rules = read_header(header.read_text())
    for policy, names in BESIDE_THE_LISTS.items():
        rules[policy] += [name for name in names if (header.parent / "ops" / f"{name}.h").exists()]
    return rules


def unknown_lists(rules: Rules) -> list[str]:
    """The lists that tb-amp's source does not expand, so that their operators would have no rule."""
    return [policy for policy in rules if policy not in LISTS.values()]


def compare(before: Rules, after: Rules) -> list[tuple[str, str, str]]:
    """(operator, policy before, policy after) for each operator whose policy differs; "" is no rule. By name."""
    old = {name: policy for policy, names in before.items() for name in names}
    new = {name: policy for policy, names in after.items() for name in names}
    return [
        (name, old.get(name, ""), new.get(name, ""))
        for name in sorted(old | new)
        if old.get(name, "") != new.get(name, "")
    ]


def _find(place: pathlib.Path) -> tuple[str, Rules]:
    """The name of a torch or header for the report, and its rules."""
    if place.is_file():
        return str(place), read_torch(place)
    for inside in ("torch/include", "include", "."):
        if (place / inside / HEADER).is_file():
            return place.name, read_torch(place / inside / HEADER)
    raise FileNotFoundError(
        f"{place}: no {HEADER} under torch/include or include. Name a header, or the folder of a torch"
    )


def _report(before: tuple[str, Rules], after: tuple[str, Rules]) -> list[str]:
    changes = compare(before[1], after[1])
    total = sum(map(len, after[1].values()))
    lines = [f"{before[0]} to {after[0]}: {len(changes)} of {total} rules differ", ""]
    if changes:
        lines += ["| operator | policy before | policy after |", "| --- | --- | --- |"]
        lines += [f"| {name} | {old or 'none'} | {new or 'none'} |" for name, old, new in changes] + [""]
    return lines


def main(arguments: Sequence[str] | None = None) -> int:
    """Prints the report as Markdown; returns the exit status."""
    parser = argparse.ArgumentParser(prog="python -m tb_amp.drift", description=__doc__)
    parser.add_argument("torch", nargs="*", type=pathlib.Path, help="folder of a torch, or a header")
    places: list[pathlib.Path] = parser.parse_args(arguments).torch

    versions = []
    if len(places) < 2:
        from . import _build, _core

        built = {policy: names for policy, names in _core.rules().items() if policy in LISTS.values()}
        versions.append((f"tb-amp {_build.VERSION}", built))
    if not places:
        import torch

        places = [pathlib.Path(torch.__file__).parent]
    versions += map(_find, places)

    lines = [line for before, after in itertools.pairwise(versions) for line in _report(before, after)]
    unknown = [
        f"{name} has {macro}, which tb-amp does not expand"
        for name, rules in versions
        for macro in unknown_lists(rules)
    ]
    print("\n".join(lines + unknown))
    ours_differs = versions[0][0].startswith("tb-amp") and compare(versions[0][1], versions[1][1])
    return 1 if unknown or ours_differs else 0


if __name__ == "__main__":
    sys.exit(main())
