"""tools/abi.py finds what it promises to find, on copies of the headers with one thing broken each."""

from __future__ import annotations

import json
import pathlib
import shutil
from collections.abc import Callable

import abi
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
EDGE = "/* Takes a reserve back"


@pytest.fixture
def tree(tmp_path: pathlib.Path) -> pathlib.Path:
    """The headers, the frozen layout and the reference page in a folder of their own."""
    shutil.copytree(ROOT / "shared" / "include", tmp_path / "shared" / "include")
    (tmp_path / "docs").mkdir()
    for name in ("abi-layout.json", "abi-reference.md"):
        shutil.copy(ROOT / "docs" / name, tmp_path / "docs" / name)
    return tmp_path


def edit(tree: pathlib.Path, name: str, old: str, new: str) -> None:
    path = tree / "shared" / "include" / "tb" / name
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def test_the_tree_as_it_is_passes(tree: pathlib.Path) -> None:
    abi.run(tree, check=True)


def test_every_slot_is_read_with_its_comment_and_group() -> None:
    groups = abi.read_slots((ROOT / "shared" / "include" / "tb" / "driver_slots.inc").read_text())
    slots = {slot.name: slot for group in groups for slot in group.slots}
    assert (
        len(slots) == len(json.loads((ROOT / "docs" / "abi-layout.json").read_text())["structs"]["tb_driver_api"]) - 5
    )
    assert slots["mem_alloc"].signature == (
        "tb_status mem_alloc(tb_driver *self, int32_t device, uint64_t size, uint64_t flags, void **out)"
    )
    assert slots["close"].signature == "tb_status close(tb_driver *self)"
    assert "tb_status status" in slots["stream_host_call"].signature
    assert slots["mem_free"].comment.startswith("Gives memory back at once")
    assert (slots["device_reset"].need, slots["launch"].group) == ("OPTIONAL", "MODULE")


BREAKS: dict[str, tuple[str, str, str, str]] = {
    "two slots exchanged": (
        "driver_slots.inc",
        "TB_SLOT(ASYNC, REQUIRED, event_query, (tb_event *event), (event))\n"
        "TB_SLOT(ASYNC, REQUIRED, event_synchronize, (tb_event *event), (event))",
        "TB_SLOT(ASYNC, REQUIRED, event_synchronize, (tb_event *event), (event))\n"
        "TB_SLOT(ASYNC, REQUIRED, event_query, (tb_event *event), (event))",
        "frozen",
    ),
    "a slot put between": (
        "driver_slots.inc",
        EDGE,
        "TB_SLOT0(CLOSURE, OPTIONAL, closure_extra)\n" + EDGE,
        "frozen",
    ),
    "a field with another type": ("driver.h", "uint64_t total_memory;", "uint32_t total_memory;", "frozen"),
    "a slot that the page lacks": (
        "driver_slots.inc",
        "TB_SLOT(CLOSURE, REQUIRED, closure_cancel, (tb_stream *stream, void *storage), (stream, storage))",
        "TB_SLOT(CLOSURE, REQUIRED, closure_cancel, (tb_stream *stream, void *storage), (stream, storage))\n"
        "TB_SLOT0(CLOSURE, OPTIONAL, closure_extra)",
        "lacks slots",
    ),
    "a comment that the page lacks": ("driver_slots.inc", "NULL is a no-op", "NULL does nothing", "stale"),
    "a group without a bit": ("driver.h", "TB_GROUP_IPC = 1 << 12", "TB_GROUP_XYZ = 1 << 12", "IPC"),
    "a bit used twice": ("driver.h", "TB_GROUP_IPC = 1 << 12", "TB_GROUP_IPC = 1 << 11", "bits"),
    "C that a compiler warns about": ("driver.h", "} tb_pointer_info;", "} tb_pointer_info;;", "failed"),
    "a need that does not exist": ("driver_slots.inc", "CORE, REQUIRED, mem_free", "CORE, MAYBE, mem_free", "MAYBE"),
}


@pytest.mark.parametrize("name", BREAKS)
def test_check_finds(name: str, tree: pathlib.Path) -> None:
    file, old, new, text = BREAKS[name]
    edit(tree, file, old, new)
    with pytest.raises(abi.AbiError, match=text):
        abi.run(tree, check=True)


def test_writing_appends_a_new_slot_and_then_the_check_passes(tree: pathlib.Path) -> None:
    _, old, new, _ = BREAKS["a slot that the page lacks"]
    edit(tree, "driver_slots.inc", old, new)
    abi.run(tree, check=False)
    abi.run(tree, check=True)
    layout = json.loads((tree / "docs" / "abi-layout.json").read_text())
    assert layout["structs"]["tb_driver_api"][-1][0] == "closure_extra"


def test_writing_never_changes_what_is_frozen(tree: pathlib.Path) -> None:
    _, old, new, _ = BREAKS["two slots exchanged"]
    edit(tree, "driver_slots.inc", old, new)
    before = (tree / "docs" / "abi-layout.json").read_text()
    with pytest.raises(abi.AbiError, match="frozen"):
        abi.run(tree, check=False)
    assert (tree / "docs" / "abi-layout.json").read_text() == before


def test_the_command_returns_1_with_the_reason(
    tree: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    edit(tree, "driver_slots.inc", "NULL is a no-op", "NULL does nothing")
    monkeypatch.setattr(abi, "ROOT", tree)
    monkeypatch.setattr("sys.argv", ["abi.py", "--check"])
    main: Callable[[], int] = abi.main
    assert main() == 1
    assert "python tools/abi.py" in capsys.readouterr().err
