"""tools/checks/abi.py finds each kind of error, on copies of the headers with one error each."""

from __future__ import annotations

import json
import pathlib
import shutil
from collections.abc import Callable

import pytest
from checks import abi
from checks.device_abi import AbiError
from checks.device_abi.callers import find_callers
from checks.device_abi.headers import read_header
from checks.device_abi.slots import read_rules, read_slots

ROOT = pathlib.Path(__file__).resolve().parents[2]
LAYOUT = ROOT / "shared" / "abi" / "v1.json"
SLOTS = (ROOT / "shared" / "include" / "tb" / "driver_slots.inc").read_text()
EDGE = "/* closure_cancel.1"
QUERY = SLOTS[SLOTS.index("/* event_query.1") : SLOTS.index("/* event_synchronize.1")]
COMPONENT = (ROOT / "shared" / "include" / "tb" / "component.h").read_text()
IS_OPEN, DEVICE_COUNT = (
    next(line for line in COMPONENT.splitlines(keepends=True) if name in line)
    for name in ("(*is_open)", "(*device_count)")
)
CANCEL = "TB_SLOT(CLOSURE, REQUIRED, closure_cancel, (tb_stream *stream, void *storage), (stream, storage))\n"
SYNCHRONIZE = SLOTS[SLOTS.index("/* event_synchronize.1") : SLOTS.index("/* ---- PIN")]


@pytest.fixture
def tree(tmp_path: pathlib.Path) -> pathlib.Path:
    """A folder with copies of the headers, the frozen layout and the reference pages, and a link to the packages."""
    shutil.copytree(ROOT / "shared" / "include", tmp_path / "shared" / "include")
    (tmp_path / "docs").mkdir()
    for page in ("abi-reference.md", "component-reference.md"):
        shutil.copy(ROOT / "docs" / page, tmp_path / "docs" / page)
    shutil.copytree(ROOT / "shared" / "component", tmp_path / "shared" / "component")
    (tmp_path / "packages").symlink_to(ROOT / "packages")
    shutil.copytree(ROOT / "shared" / "abi", tmp_path / "shared" / "abi")
    return tmp_path


def edit(tree: pathlib.Path, name: str, old: str, new: str) -> None:
    path = tree / "shared" / "include" / "tb" / name
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def test_the_tree_as_it_is_passes(tree: pathlib.Path) -> None:
    abi.run(tree, check=True)


def test_every_slot_is_read_with_its_comment_and_group() -> None:
    groups = read_slots(SLOTS)
    slots = {slot.name: slot for group in groups for slot in group.slots}
    assert len(slots) == len(json.loads(LAYOUT.read_text())["structs"]["tb_driver_api"]) - 5
    assert slots["mem_alloc"].signature == (
        "tb_status mem_alloc(tb_driver *self, int32_t device, uint64_t size, uint64_t flags, void **out)"
    )
    assert slots["close"].signature == "tb_status close(tb_driver *self)"
    assert "tb_status status" in slots["stream_host_call"].signature
    assert slots["mem_free"].rules == [
        ("mem_free.1", "Gives memory back at once and waits for nothing: queued work on it is the caller's fault."),
        ("mem_free.2", "NULL is a no-op."),
    ]
    assert slots["mem_copy"].preface == "kind: tb_copy_kind."
    assert slots["device_query"].rules[-1] == ("device_query.absent", "TB_NOT_FOUND.")
    assert slots["stream_host_call"].types == "tb_stream *, void (*)(void *user, tb_status status), void *"
    assert (slots["device_reset"].need, slots["launch"].group) == ("OPTIONAL", "MODULE")


def test_the_rules_for_every_function_are_read_whole() -> None:
    rules = dict(read_rules((ROOT / "shared" / "include" / "tb" / "driver.h").read_text()))
    assert {rule[0] for rule in rules} == {"E", "T", "V"}
    assert rules["E1"] == "Out-parameters are untouched unless the status is TB_OK."
    assert rules["E7"].endswith("a NULL out-parameter TB_INVALID_ARGUMENT.")


def test_the_page_has_each_rule_as_an_item_of_a_list() -> None:
    page = (ROOT / "docs" / "abi-reference.md").read_text().splitlines()
    groups = read_slots(SLOTS)
    graph = read_slots((ROOT / "shared" / "include" / "tb" / "graph_slots.inc").read_text(), abi.GRAPH)
    rules = [rule for group in [*groups, *graph] for slot in group.slots for rule in slot.rules]
    rules += read_rules((ROOT / "shared" / "include" / "tb" / "driver.h").read_text())
    assert len(rules) > 150
    assert not [rule for rule, text in rules if f"- `{rule}` {text}" not in page]


BREAKS: dict[str, tuple[str, str, str, str]] = {
    "two slots exchanged": ("driver_slots.inc", QUERY + SYNCHRONIZE, SYNCHRONIZE + QUERY, "frozen"),
    "a slot put between": (
        "driver_slots.inc",
        EDGE,
        "/* closure_extra.1 Does what is new. */\nTB_SLOT0(CLOSURE, OPTIONAL, closure_extra)\n" + EDGE,
        "frozen",
    ),
    "a field with another type": ("driver.h", "uint64_t total_memory;", "uint32_t total_memory;", "frozen"),
    "a field of the same size with another type": ("driver.h", "int32_t numa_node;", "uint32_t numa_node;", "frozen"),
    "a field put between": ("driver.h", "  int32_t numa_node;", "  int32_t odd;\n  int32_t numa_node;", "frozen"),
    "another name for a field that is not reserved": ("driver.h", "int32_t numa_node;", "int32_t odd;", "frozen"),
    "a reserved field with another type": (
        "driver.h",
        "  uint32_t reserved;\n  uint8_t bytes[120];",
        "  int32_t flags;\n  uint8_t bytes[120];",
        "frozen",
    ),
    "a parameter with another type": (
        "driver_slots.inc",
        "device_activate, (int32_t device)",
        "device_activate, (uint32_t device)",
        "frozen",
    ),
    "a status with another number": ("driver.h", "TB_DATA_LOSS = 15", "TB_DATA_LOSS = 16", "TB_DATA_LOSS was 15"),
    "a constant that is gone": ("component.h", "TB_FILL_BERNOULLI = 4,", "", "TB_FILL_BERNOULLI was 4"),
    "another entry symbol": ("driver.h", '"tb_driver_open_v1"', '"tb_driver_open"', "TB_DRIVER_ENTRY was"),
    "a table between components with fields exchanged": (
        "component.h",
        IS_OPEN + DEVICE_COUNT,
        DEVICE_COUNT + IS_OPEN,
        "tb_device_table: entry 2",
    ),
    "a slot of the extension that is gone": (
        "graph_slots.inc",
        "TB_SLOT(GRAPH, REQUIRED, graph_destroy, (tb_graph *graph), (graph))",
        "",
        "tb_graph_api",
    ),
    "a new constant that the layout lacks": (
        "driver.h",
        "TB_DATA_LOSS = 15,",
        "TB_DATA_LOSS = 15, TB_NEW = 16,",
        "lacks",
    ),
    "a rule without a number": ("driver_slots.inc", "mem_free.2 NULL", "NULL", "stale"),
    "a slot without rules": ("driver_slots.inc", "device_activate.absent A no-op.", "", "stale"),
    "a rule numbered twice": ("driver_slots.inc", "mem_free.2 NULL", "mem_free.1 NULL", "rules of mem_free"),
    "a slot that the page lacks": (
        "driver_slots.inc",
        CANCEL,
        CANCEL + "/* closure_extra.1 Does what is new. */\nTB_SLOT0(CLOSURE, OPTIONAL, closure_extra)\n",
        "lacks what the headers have",
    ),
    "a slot of an earlier group that the page lacks": (
        "driver_slots.inc",
        CANCEL,
        CANCEL + "/* ---- ASYNC: streams and events. ---- */\n"
        "/* stream_extra.1 Does what is new. */\nTB_SLOT0(ASYNC, OPTIONAL, stream_extra)\n",
        "lacks what the headers have",
    ),
    "a slot below another group's heading": (
        "driver_slots.inc",
        CANCEL,
        CANCEL + "/* stream_extra.1 Does what is new. */\nTB_SLOT0(ASYNC, OPTIONAL, stream_extra)\n",
        r"stands outside its group's section: write /\* ---- ASYNC",
    ),
    "a new slot that drivers would have to have": (
        "driver_slots.inc",
        CANCEL,
        CANCEL + "/* closure_extra.1 Does what is new. */\nTB_SLOT0(CLOSURE, REQUIRED, closure_extra)\n",
        "closure_extra is REQUIRED in group CLOSURE",
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
    with pytest.raises(AbiError, match=text):
        abi.run(tree, check=True)


@pytest.mark.parametrize(
    ("name", "slot"),
    [
        ("a slot that the page lacks", "closure_extra"),
        ("a slot of an earlier group that the page lacks", "stream_extra"),
    ],
)
def test_writing_appends_a_new_slot_and_then_the_check_passes(name: str, slot: str, tree: pathlib.Path) -> None:
    _, old, new, _ = BREAKS[name]
    edit(tree, "driver_slots.inc", old, new)
    abi.run(tree, check=False)
    abi.run(tree, check=True)
    layout = json.loads((tree / "shared" / "abi" / "v1.json").read_text())
    assert layout["structs"]["tb_driver_api"][-1][0] == slot


def test_a_reserved_field_may_get_a_name(tree: pathlib.Path) -> None:
    edit(tree, "driver.h", "  uint32_t reserved;\n  uint8_t bytes[120];", "  uint32_t flags;\n  uint8_t bytes[120];")
    abi.run(tree, check=False)
    abi.run(tree, check=True)
    layout = json.loads((tree / "shared" / "abi" / "v1.json").read_text())
    assert [field[0] for field in layout["structs"]["tb_ipc_handle"]] == ["struct_size", "flags", "bytes"]


def test_writing_never_changes_what_is_frozen(tree: pathlib.Path) -> None:
    _, old, new, _ = BREAKS["two slots exchanged"]
    edit(tree, "driver_slots.inc", old, new)
    before = (tree / "shared" / "abi" / "v1.json").read_text()
    with pytest.raises(AbiError, match="frozen"):
        abi.run(tree, check=False)
    assert (tree / "shared" / "abi" / "v1.json").read_text() == before


def test_the_command_returns_1_with_the_reason(
    tree: pathlib.Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    edit(tree, "driver_slots.inc", "NULL is a no-op", "NULL does nothing")
    monkeypatch.setattr(abi, "ROOT", tree)
    monkeypatch.setattr("sys.argv", ["abi.py", "--check"])
    main: Callable[[], int] = abi.main
    assert main() == 1
    assert "python tools/checks/abi.py" in capsys.readouterr().err


def test_each_function_names_the_components_that_call_it(tmp_path: pathlib.Path) -> None:
    caller = tmp_path / "packages" / "tb-caller" / "src" / "caller.cpp"
    caller.parent.mkdir(parents=True)
    caller.write_text(
        "tb_stream_table streams{}; // streams.priority_of is only mentioned\n"
        "int main() { api.mem_set = nullptr; return driver.api->mem_free(driver.self, 0, p) + streams.current(0); }\n"
    )
    (caller.parents[1] / "tests").mkdir()
    (caller.parents[1] / "tests" / "test.cpp").write_text("int f() { return api->mem_alloc(self, 0, 1, 0, &p); }\n")
    callers = find_callers(tmp_path, {"tb_driver_api": "", "tb_stream_table": "tb-stream"})
    assert callers[("tb_driver_api", "mem_free")] == ["tb-caller"]
    assert callers[("tb_stream_table", "current")] == ["tb-caller"]
    assert not {("tb_driver_api", "mem_set"), ("tb_driver_api", "mem_alloc")} & set(callers)
    assert ("tb_stream_table", "priority_of") not in callers


def test_a_member_knows_its_version_and_its_comment() -> None:
    [_, section] = read_header(
        "/* head */\n/* ---- tb-x, C API 1.1 ---- */\n\n/* The table. */\ntypedef struct tb_x_table {\n"
        "  uint32_t struct_size;\n  /* Makes. */\n  int (*make)(int a, int b);\n"
        "  int (*ask)(void); /* what it is */\n  /* ---- since 1.1 ---- */\n  int (*more)(void);\n} tb_x_table;\n"
    )
    assert section.title == "tb-x, C API 1.1"
    [table] = section.declarations
    assert (table.name, table.comment) == ("tb_x_table", "The table.")
    assert [(m.name, m.since, m.comment) for m in table.members[1:]] == [
        ("make", "1.0", "Makes."),
        ("ask", "1.0", "what it is"),
        ("more", "1.1", ""),
    ]
