"""tools/checks/rules.py, run on copies of the tree that are broken in one place each."""

from __future__ import annotations

import pathlib
import shutil

import pytest
from checks import rules

FOLDERS = ["shared/include/tb", "packages/tb-device/contract", "packages/tb-device/tests"]
READER = "packages/tb-device/src/tb_device/contract/rules.py"


@pytest.fixture
def tree(tmp_path: pathlib.Path) -> pathlib.Path:
    for folder in FOLDERS:
        shutil.copytree(rules.ROOT / folder, tmp_path / folder)
    (tmp_path / READER).parent.mkdir(parents=True)
    shutil.copy(rules.ROOT / READER, tmp_path / READER)
    return tmp_path


def edit(tree: pathlib.Path, file: str, old: str, new: str) -> None:
    path = tree / file
    text = path.read_text()
    assert old in text, f"{file} has no {old!r}: the test wants another line to break"
    path.write_text(text.replace(old, new))


CASES = "packages/tb-device/contract/cases/core/memory.cpp"
LOADING = "packages/tb-device/contract/cases/core/abi.cpp"
MUTANTS = "packages/tb-device/contract/cases/core/memory.mutants.cpp"
SLOTS = "shared/include/tb/driver_slots.inc"

# Mistakes: the file, the text that is replaced, its replacement, and the message of the check.
BREAKS = {
    "a rule that no case proves any more": (LOADING, '"V5"', '"V2"', "cites V5: build_id is not empty"),
    "a new rule without a case": (SLOTS, "mem_free.2 NULL", "mem_free.3 New. mem_free.2 NULL", "cites mem_free.3: New"),
    "a rule that there is not": (CASES, '"mem_alloc.2"', '"mem_alloc.2 mem_alloc.77"', "MEM-02 cites mem_alloc.77"),
    "an id used twice": (CASES, "TB_CASE(MEM, 02", "TB_CASE(MEM, 01", "the id MEM-01 is in"),
    "a case without a rule": (CASES, '"mem_alloc.2"', '""', "MEM-02 cites no rule"),
    "a mutant without its case": (MUTANTS, '"MEM-08"', '"MEM-88"', "to be caught by MEM-88"),
    "a mutant of another rule": (
        MUTANTS,
        '"mem_free.2", "MEM-08"',
        '"E1", "MEM-08"',
        "breaks E1, which MEM-08 does not",
    ),
}


@pytest.mark.parametrize("name", BREAKS)
def test_check_finds(name: str, tree: pathlib.Path) -> None:
    file, old, new, said = BREAKS[name]
    before = rules.check(tree)
    edit(tree, file, old, new)
    found = set(rules.check(tree)) - set(before)
    assert any(said in problem for problem in found), found


def test_the_tree_has_a_proof_of_every_rule() -> None:
    assert rules.check(rules.ROOT) == []


def test_sentences_are_read_whole() -> None:
    sentences = rules.read_rules(rules.ROOT)
    assert sentences["mem_free.2"] == "NULL is a no-op."
    assert sentences["E1"] == "Out-parameters are untouched unless the status is TB_OK."
    assert sentences["graph_destroy.1"] == "Executables made from it stay valid."
