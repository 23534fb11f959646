"""The check of rooms reports errors in a small tree, and the repository passes it."""

from __future__ import annotations

import pathlib
from collections.abc import Callable

import pytest
from checks import rooms

TABLE = """
[small]
root = "src"
order = ["low", ["left", "right"], "high", "top", "."]
"""
FILES = {
    "low/base.h": "",
    "high/new.h": "",
    "low/base.cpp": '#include "low/base.h"\n',
    "left/one.h": '#include "low/base.h"\n#include <vector>\n',
    "right/two.h": '#include "low/base.h"\n#include "left/one.h"\n',
    "top/all.cpp": '#include "left/one.h"\n#include "right/two.h"\n',
    "module.cpp": '#include "low/base.h"\n',
}

Check = Callable[..., list[str]]


@pytest.fixture
def problems(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> Check:
    """Writes the tree with changes, and returns what the check prints after the graph."""

    def run(changed: dict[str, str] | None = None, table: str = TABLE) -> list[str]:
        for name, text in {**FILES, **(changed or {})}.items():
            path = tmp_path / "src" / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        (tmp_path / "rooms.toml").write_text(table)
        status = rooms.main([], tmp_path, tmp_path / "rooms.toml")
        printed = capsys.readouterr()
        found = [line for line in printed.out.splitlines() if line.startswith("small: ")]
        assert status == (1 if found else 2 if printed.err else 0)
        return found or printed.err.splitlines()

    return run


def test_includes_of_lower_rooms_pass(problems: Check) -> None:
    assert problems() == []


def test_an_upward_include_is_refused(problems: Check) -> None:
    found = problems({"low/base.h": '#include "high/new.h"\n', "high/new.h": ""})
    assert found == ["small: low/base.h includes high/new.h: low is below high"]


def test_an_upward_include_of_the_folder_of_the_file_itself_is_found(problems: Check) -> None:
    found = problems({"low/base.h": '#include "../high/new.h"\n', "high/new.h": ""})
    assert found == ["small: low/base.h includes high/new.h: low is below high"]


def test_a_cycle_of_headers_in_one_room_is_refused(problems: Check) -> None:
    found = problems({"left/one.h": '#include "left/more.h"\n', "left/more.h": '#include "left/one.h"\n'})
    assert found == ["small: these headers include each other: left/more.h -> left/one.h -> left/more.h"]


def test_a_source_may_include_a_header_that_includes_its_own(problems: Check) -> None:
    assert problems({"left/one.cpp": '#include "left/more.h"\n', "left/more.h": '#include "left/one.h"\n'}) == []


def test_a_cycle_of_rooms_of_one_level_is_refused(problems: Check) -> None:
    found = problems({"left/other.h": '#include "right/three.h"\n', "right/three.h": ""})
    assert found == ["small: these rooms include each other: left -> right -> left"]


def test_the_26th_file_of_a_folder_is_refused(problems: Check) -> None:
    many = {f"low/part_{i}.cpp": "" for i in range(23)}
    assert problems(many) == []
    assert problems({**many, "low/one_more.cpp": ""}) == [
        "small: low has 26 files side by side, more than 25: divide it, or give a reason in rooms.toml"
    ]
    reasoned = TABLE + '[small.large]\nlow = "one file for each format"\n'
    assert problems({}, reasoned) == []


def test_an_exception_that_is_not_needed_is_refused(problems: Check) -> None:
    found = problems({}, TABLE + '[small.large]\nlow = "no reason"\n')
    assert found == ["small: rooms.toml: low needs no exception"]


def test_a_file_outside_of_all_rooms_is_refused(problems: Check) -> None:
    without_root = TABLE.replace(', "."', "")
    assert problems({}, without_root) == ["small: module.cpp is in no room"]
    assert problems({"new/file.cpp": ""}, without_root.replace("order", 'ignore = ["new"]\norder')) == [
        "small: module.cpp is in no room"
    ]


def test_a_room_that_stands_alone_includes_no_other(problems: Check) -> None:
    assert problems({}, TABLE + 'alone = ["left"]\n') == ["small: left/one.h includes low/base.h: left stands alone"]


def test_a_room_without_a_folder_and_an_unknown_key_are_refused(problems: Check) -> None:
    assert problems({}, TABLE.replace('"low"', '"low", "gone"')) == [
        "rooms.toml: small has no folder 'gone': take it out of `order`"
    ]
    assert problems({}, TABLE + "odd = 1\n") == ["rooms.toml: small has the unknown key 'odd'"]


def test_every_package_of_the_table_passes(capsys: pytest.CaptureFixture[str]) -> None:
    assert rooms.main([]) == 0, capsys.readouterr().out
