"""The matrix of docs/status.md agrees with the drivers."""

from __future__ import annotations

import pytest
from checks import status


def test_the_matrix_is_what_the_drivers_offer(capsys: pytest.CaptureFixture[str]) -> None:
    assert status.main(["--check"]) == 0, capsys.readouterr().out


def test_another_matrix_is_noticed(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    row = {"feature": "streams", "seen_as": "torch.Stream('tb')", "state": "native"}
    monkeypatch.setattr(status, "explained", lambda driver: {"level": 4, "features": [row]})
    assert status.main(["--check"]) == 1
    assert "is not what the drivers offer" in capsys.readouterr().out


def test_the_matrix_has_a_row_for_each_feature_and_a_column_for_each_driver() -> None:
    row = {"feature": "streams", "seen_as": "torch.Stream('tb')"}
    states = {"cpu": "native", "cuda": "not available"}
    table = status.matrix({name: {"level": 4, "features": [{**row, "state": s}]} for name, s in states.items()})
    assert table.splitlines() == [
        "| feature | in PyTorch | cpu | cuda, simulated |",
        "| --- | --- | --- | --- |",
        "| level of the contract kit | | 4 | 4 |",
        "| streams | `torch.Stream('tb')` | native | - |",
    ]


def test_a_page_without_markers_is_refused() -> None:
    with pytest.raises(SystemExit, match="are not there"):
        status.with_matrix("# Status\n", "| |")
