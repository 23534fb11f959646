"""tools/checks/environment.py, run on copies of the tree with one variable too many or too few."""

from __future__ import annotations

import pathlib
import shutil

import pytest
from checks import environment

SOURCE = "packages/tb-ops/src/tb_ops/planted.py"


@pytest.fixture
def tree(tmp_path: pathlib.Path) -> pathlib.Path:
    """A copy of the page and of all product sources, which passes the check."""
    (tmp_path / environment.PAGE).parent.mkdir()
    shutil.copy(environment.ROOT / environment.PAGE, tmp_path / environment.PAGE)
    for pattern in environment.SOURCES:
        for folder in environment.ROOT.glob(pattern):
            shutil.copytree(folder, tmp_path / folder.relative_to(environment.ROOT), symlinks=True, dirs_exist_ok=True)
    assert environment.check(tmp_path) == []
    return tmp_path


def plant(tree: pathlib.Path, text: str, file: str = SOURCE) -> list[str]:
    (tree / file).parent.mkdir(parents=True, exist_ok=True)
    (tree / file).write_text(text)
    return environment.check(tree)


READS = {
    "python get": (SOURCE, 'import os\n\nasked = os.environ.get("TB_PLANTED", "")\n'),
    "python subscript": (SOURCE, 'import os\n\nasked = os.environ["TB_PLANTED"]\n'),
    "python constant": (SOURCE, 'import os\n\nNAME = "TB_PLANTED"\nasked = os.environ.get(NAME)\n'),
    "getenv": ("packages/tb-stream/src/planted.cpp", 'const char *asked = std::getenv("TB_PLANTED");\n'),
    "secure_getenv": ("packages/tb-device/layers/planted.h", 'auto asked = secure_getenv("TB_PLANTED");\n'),
    "a constant in C++": (
        "packages/tb-ops/src/planted.cpp",
        'constexpr const char *variable = "TB_PLANTED";\nauto asked = std::getenv(variable);\n',
    ),
    "a list": ("packages/tb-device/contract/planted.cpp", 'for (auto name : {"TB_PLANTED"})\n  std::getenv(name);\n'),
}


@pytest.mark.parametrize("kind", READS)
def test_a_variable_that_the_page_lacks_is_found(kind: str, tree: pathlib.Path) -> None:
    file, text = READS[kind]
    [problem] = plant(tree, text, file)
    assert problem.startswith(f"{file}:")
    assert "TB_PLANTED is read here" in problem


def test_a_drivers_option_that_the_page_lacks_is_found(tree: pathlib.Path) -> None:
    file = "packages/tb-device/drivers/cpu/memory/planted.cpp"
    [problem] = plant(tree, 'auto asked = host->option("planted");\n', file)
    assert "TB_CPU_PLANTED is read here" in problem


def test_a_row_that_no_code_reads_is_found(tree: pathlib.Path) -> None:
    page = tree / environment.PAGE
    page.write_text(page.read_text().replace("| `TB_LOG` |", "| `TB_PLANTED` | |\n| `TB_LOG` |"))
    assert environment.check(tree) == [f"{environment.PAGE}: no product code reads TB_PLANTED; remove its row"]


def test_a_read_without_a_name_is_found(tree: pathlib.Path) -> None:
    [problem] = plant(tree, "import os\n\n\ndef read(name: str) -> str:\n    return os.environ[name]\n")
    assert "cannot tell which variable 'name' is" in problem


def test_reads_of_tests_and_templates_do_not_count(tree: pathlib.Path) -> None:
    text = 'import os\n\nasked = os.environ["TB_PLANTED"]\n'
    assert plant(tree, text, "packages/tb-ops/src/tb_ops/_testing/planted.py") == []
    assert plant(tree, text, "packages/tb-device/src/tb_device/new_driver/planted.py") == []


def test_tables_of_other_software_are_not_compared(tree: pathlib.Path) -> None:
    page = tree / environment.PAGE
    page.write_text(page.read_text() + "| `SOMEBODY_ELSES` | a library | |\n")
    assert environment.check(tree) == []
