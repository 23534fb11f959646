"""The installed PyTorch passes the checks of schema_check.py, and the checks find planted mistakes."""

from importlib.metadata import version
from pathlib import Path

import pytest
import schema_check
from tb_ops.codegen import schema


def installed_folder() -> Path:
    return schema.native_directory().parents[3]


def test_the_installed_pytorchs_schema_passes_every_check():
    facts = schema_check.check_alone(installed_folder(), version("torch"))
    assert len(facts["groups"]) > 250
    assert facts["kernels"] > 600
    assert facts["operators"] > 2500


def test_no_version_at_all_is_a_failure(capsys):
    assert schema_check.main([]) == 1
    assert "no version was checked" in capsys.readouterr().err


def test_a_folder_without_a_schema_is_a_failure(tmp_path, capsys):
    assert schema_check.main([str(tmp_path)]) == 1
    assert "failed for" in capsys.readouterr().err


def test_an_operator_that_a_version_lacks_must_be_listed_with_those_that_have_it(monkeypatch):
    with pytest.raises(AssertionError, match=r"2\.11\.0 has no such operator: \['new'\]"):
        schema_check.check_names({"new", "old"}, {"old"}, "2.11.0")
    monkeypatch.setattr(schema_check, "ONLY_IN", {"new": {"2.13"}})
    schema_check.check_names({"new", "old"}, {"old"}, "2.11.0")
    schema_check.check_names({"new", "old"}, {"new", "old"}, "2.13.1")
    with pytest.raises(AssertionError, match="listed as absent"):
        schema_check.check_names({"new", "old"}, {"new", "old"}, "2.11.0")


@pytest.mark.parametrize("text", ["f(", "f)", "f(]", "{ f(}"])
def test_brackets_that_do_not_match_are_seen(text):
    with pytest.raises(AssertionError):
        schema_check.check_balance(text)


def test_brackets_in_strings_and_comments_do_not_count():
    schema_check.check_balance('f("(", g) // }\n')


def test_the_table_shows_what_changed():
    old = {"version": "1.0", "operators": 2, "groups": ["a"], "kernels": 2, "by hand": {"c": "c()", "d": "d()"}}
    new = {"version": "1.1", "operators": 2, "groups": ["b"], "kernels": 2, "by hand": {"c": "c()", "d": "d(int x)"}}
    assert schema_check.table([old, new]).splitlines()[-1] == "| 1.1 | 2 | 1 | 2 | b | a | d |"
