"""TB_WHEEL_CACHE: wheels that clones on one machine share, by the digest of their sources."""

from __future__ import annotations

import pathlib

import pytest
from building import wheels


def fill(monkeypatch: pytest.MonkeyPatch, clone: pathlib.Path, digest: str, content: str) -> tuple[str, bool]:
    """What a clone has as the wheel of these sources, and whether it built it. content: what a build makes."""
    monkeypatch.setattr(wheels, "WHEELHOUSE", clone / "wheelhouse")
    built: list[pathlib.Path] = []

    def build(folder: pathlib.Path) -> None:
        (folder / "tb_one.whl").write_text(content)
        built.append(folder)

    folder = clone / "wheelhouse" / "tb-one" / digest
    wheels.fill(folder, build)
    return (folder / "tb_one.whl").read_text(), bool(built)


def test_another_clone_takes_the_wheel_and_other_sources_are_built(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TB_WHEEL_CACHE", str(tmp_path / "cache"))
    assert fill(monkeypatch, tmp_path / "first", "abc", "1") == ("1", True)
    assert fill(monkeypatch, tmp_path / "second", "abc", "2") == ("1", False)
    assert fill(monkeypatch, tmp_path / "second", "def", "3") == ("3", True)
    assert {path.name for path in (tmp_path / "cache" / "tb-one").iterdir()} == {"abc", "def"}


def test_without_the_variable_each_clone_builds_and_nothing_is_shared(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TB_WHEEL_CACHE", raising=False)
    assert fill(monkeypatch, tmp_path / "first", "abc", "1") == ("1", True)
    assert fill(monkeypatch, tmp_path / "second", "abc", "2") == ("2", True)
    assert {path.name for path in tmp_path.iterdir()} == {"first", "second"}


def test_a_wheel_that_another_clone_shares_meanwhile_stays(
    tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache = tmp_path / "cache" / "tb-one"
    monkeypatch.setenv("TB_WHEEL_CACHE", str(cache.parent))
    monkeypatch.setattr(wheels, "WHEELHOUSE", tmp_path / "wheelhouse")

    def build(folder: pathlib.Path) -> None:
        (folder / "tb_one.whl").write_text("mine")
        (cache / "abc").mkdir(parents=True)
        (cache / "abc" / "tb_one.whl").write_text("theirs")

    folder = tmp_path / "wheelhouse" / "tb-one" / "abc"
    wheels.fill(folder, build)
    assert (folder / "tb_one.whl").read_text() == "mine"
    assert [path.read_text() for path in cache.rglob("*.whl")] == ["theirs"]


def test_a_build_that_fails_shares_nothing(tmp_path: pathlib.Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TB_WHEEL_CACHE", str(tmp_path / "cache"))
    monkeypatch.setattr(wheels, "WHEELHOUSE", tmp_path / "wheelhouse")

    def build(folder: pathlib.Path) -> None:
        (folder / "half.whl").write_text("")
        raise OSError("no space left on device")

    folder = tmp_path / "wheelhouse" / "tb-one" / "abc"
    with pytest.raises(OSError, match="no space left"):
        wheels.fill(folder, build)
    assert not folder.exists()
    assert not (tmp_path / "cache").exists()
