"""The table of a vendor's two-phase operators becomes C++, and a mistake in a table is refused with its place."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tb_ops.codegen import schema
from tb_ops.codegen.aclnn import emit, table

TABLE = Path(__file__).resolve().parents[1] / "src" / "backends" / "aclnn" / "operators.yaml"
ADD = """\
types:
  floating: [Half, Float]
groups:
  - types: floating
    operators:
      add.out: Add(self, other, alpha, out)
      zero_: {aclnn: InplaceZero(self), computed: self.scalar_type()}
"""


@pytest.fixture
def read(tmp_path):
    def from_text(text: str) -> table.Table:
        path = tmp_path / "operators.yaml"
        path.write_text(text)
        return table.read(path, schema.installed())

    return from_text


def test_the_text_that_the_mistakes_below_start_from_is_right(read):
    [text] = emit.file_texts(read(ADD), 1)
    assert 'registrar.add("add.out", {&function<"Add">()}, &op_add_out);' in text
    assert "InPlace{self}" in text


MISTAKES = {
    "an operator that there is not": ("add.out:", "ad.out:", "this PyTorch has no such operator"),
    "a set of types that there is not": ("types: floating", "types: reals", "no set of types is called 'reals'"),
    "an argument that there is not": ("other, alpha", "others, alpha", "'others' is no argument of it: alpha"),
    "no call": ("Add(self, other, alpha, out)", "Add self, other", "is not NAME(ARGUMENT, ...)"),
    "an unknown word": ("aclnn: InplaceZero(self)", "acl: InplaceZero(self)", "unknown: acl; known: aclnn"),
    "an unknown result": ("self.scalar_type()}", 'self.scalar_type(), result: "int"}', "none of computed, bool, given"),
    "no type to compute in": (", computed: self.scalar_type()", "", "the type that is computed in must be said"),
    "no shape": ("add.out: Add(self, other, alpha, out)", "abs.out: Abs(self, out)", "say its shape or its outputs"),
    "twice": (
        "      zero_",
        "  - types: floating\n    operators:\n      add.out: Add(self, other, alpha, out)\n      zero_",
        "add.out: listed twice",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES)
def test_a_mistake_is_refused_with_its_place(read, mistake):
    old, new, error = MISTAKES[mistake]
    assert ADD.count(old) >= 1
    with pytest.raises(table.TableError, match=re.escape(error)) as caught:
        read(ADD.replace(old, new, 1))
    assert str(caught.value).startswith("operators.yaml: ")


def test_a_call_is_split_at_commas_outside_of_brackets():
    call = table.parse_call("here", "F(given a, ints broadcast({&b, &c}), int8 0)")
    assert call.function == "F"
    assert [(a.kind, a.text) for a in call.arguments] == [
        ("given", "a"),
        ("ints", "broadcast({&b, &c})"),
        ("int8", "0"),
    ]


def test_every_operator_of_the_table_is_written_to_one_file():
    read = table.read(TABLE, schema.installed())
    assert len(read.entries) >= 100
    texts = emit.file_texts(read, 3)
    for entry in read.entries:
        assert sum(text.count(f'registrar.add("{entry.name}",') for text in texts) == 1
    assert "void register_table(Registrar &registrar) {" in texts[0]
    assert "void register_table(Registrar &registrar) {" not in "".join(texts[1:])


def test_the_command_reports_a_mistake_and_writes_nothing(tmp_path):
    source = tmp_path / "operators.yaml"
    source.write_text(ADD.replace("add.out:", "ad.out:"))
    command = [sys.executable, "-m", "tb_ops.codegen", "aclnn", str(source), str(tmp_path / "out.cpp")]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert "operators.yaml: ad.out: this PyTorch has no such operator: take it out" in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out.cpp").exists()
