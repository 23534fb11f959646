"""The report of rules that differ between versions of torch."""

import pathlib

import pytest
import tb_amp
import torch
from tb_amp import drift

HEADER = pathlib.Path(torch.__file__).parent / "include" / drift.HEADER


def test_the_installed_torch_has_the_rules_that_tb_amp_was_built_with(capsys: pytest.CaptureFixture[str]) -> None:
    assert drift.main([]) == 0
    rules = drift.read_torch(HEADER)
    assert not drift.unknown_lists(rules)
    assert set(rules) == set(drift.LISTS.values())
    assert rules == {policy: names for policy, names in tb_amp.rules().items() if policy != "banned"}
    total = sum(map(len, rules.values()))
    assert f"0 of {total} rules differ" in capsys.readouterr().out


def test_added_removed_and_moved_rules_are_reported(tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = HEADER.read_text()
    for old, new in [
        ("  _(bmm)  ", "  _(bmm)  \\\n  _(brand_new, out)  "),
        ("  _(cosh)  ", "  "),
        ("  _(cross)  ", "  "),
        ("  _(dist)  ", "  _(dist)  \\\n  _(cross)  "),
    ]:
        assert old in text
        text = text.replace(old, new)
    changed = tmp_path / "9.9.0" / "torch" / "include" / drift.HEADER
    changed.parent.mkdir(parents=True)
    changed.write_text(text)
    for name in (name for names in drift.BESIDE_THE_LISTS.values() for name in names):
        if (HEADER.parent / "ops" / f"{name}.h").exists():
            (changed.parent / "ops").mkdir(exist_ok=True)
            (changed.parent / "ops" / f"{name}.h").write_text("")
    assert drift.main([str(HEADER), str(tmp_path / "9.9.0")]) == 0
    report = capsys.readouterr().out
    assert "to 9.9.0: 3 of" in report
    assert report.splitlines()[4:7] == [
        "| brand_new.out | none | lower_precision_fp |",
        "| cosh | fp32 | none |",
        "| cross | promote | fp32 |",
    ]
    assert drift.main([str(changed)]) == 1, "it is not what tb-amp was built with"


def test_a_rule_beside_the_lists_is_found_by_the_operator_s_header(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    for version in ("9.8.0", "9.9.0"):
        header = tmp_path / version / "include" / drift.HEADER
        (header.parent / "ops").mkdir(parents=True)
        header.write_text(HEADER.read_text())
    (header.parent / "ops" / "linalg_matrix_sqrth.h").write_text("")
    assert drift.main([str(tmp_path / "9.8.0"), str(tmp_path / "9.9.0")]) == 0
    assert "| linalg_matrix_sqrth | none | fp32 |" in capsys.readouterr().out


def test_a_list_that_tb_amp_does_not_expand_is_a_failure(
    tmp_path: pathlib.Path, capsys: pytest.CaptureFixture[str]
) -> None:
    header = tmp_path / "autocast_mode.h"
    header.write_text(HEADER.read_text() + "#define AT_FORALL_FP8(_) \\\n  _(mm_in_fp8) \\\n  _(other)\n")
    assert drift.main([str(HEADER), str(header)]) == 1
    assert "AT_FORALL_FP8, which tb-amp does not expand" in capsys.readouterr().out


def test_what_is_no_torch_is_refused(tmp_path: pathlib.Path) -> None:
    with pytest.raises(FileNotFoundError, match="Name a header, or the folder of a torch"):
        drift.main([str(tmp_path)])
    with pytest.raises(ValueError, match=r"no ATen/autocast_mode\.h of torch"):
        drift.read_header("#pragma once\n")
