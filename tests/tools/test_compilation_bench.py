"""What bench-build reads from a build folder and from sources."""

from __future__ import annotations

import json
import pathlib

from benchmarks.compilation import Build, included, logged, read_command, read_seconds

COMMAND = "ccache c++ -I. -include pre.h -std=c++20 -MD -MQ a.o -MF a.o.d -o a.o -c ../a.cpp"


def test_seconds_come_from_ninjas_log(tmp_path: pathlib.Path) -> None:
    log = tmp_path / ".ninja_log"
    log.write_text("# ninja log v7\n0\t1500\t7\ta.o\t1f\n1500\t1700\t9\tlib.so\t2f\n")
    assert dict(logged(log)) == {"a.o": 1.5, "lib.so": 0.2}


def test_headers_are_counted_by_files_that_include_them_outside_of_tests(tmp_path: pathlib.Path) -> None:
    (tmp_path / "tests").mkdir()
    for name, text in {
        "a.cpp": "#include <c10/a.h>\n#include <c10/a.h>\n#include <ATen/ATen.h>\n#include <vector>\n",
        "b.h": '#include "c/b.h"\n#include <c10/a.h>\n  #include <c10/indented.h>\n',
        "tests/c.cpp": "#include <c10/a.h>\n",
    }.items():
        (tmp_path / name).write_text(text)
    assert included(tmp_path) == {"c10/a.h": 2, "ATen/ATen.h": 1}


def test_a_header_is_read_with_the_arguments_of_a_unit(tmp_path: pathlib.Path) -> None:
    units = [
        {"command": "c++ -c other.cpp -o libx.a.p/x.o", "output": "libx.a.p/x.o"},
        {"command": COMMAND, "output": "_core.abi3.so.p/a.o"},
    ]
    (tmp_path / "compile_commands.json").write_text(json.dumps(units))
    build = Build("tb-one", tmp_path, {})
    command = read_command(build)
    assert command == ["c++", "-I.", "-include", "pre.h", "-std=c++20", "-fsyntax-only"]
    (tmp_path / "pre.h").write_text("#pragma once\n")
    assert read_seconds(build, command, "functional", 1) > read_seconds(build, command, None, 1) > 0
