"""tb-device explain: a driver's features, its level, and what would change them, from its table."""

from __future__ import annotations

import json

import pytest
import tb_device
from conftest import BuildDriver
from tb_device import _core, cli, explain, levels

GROUPS = list(dict.fromkeys(group for group, *_ in _core.slots()))
FUNCTIONS = {name for *_, name, _ in _core.slots()}


def state(report: dict[str, object], feature: str) -> dict[str, object]:
    rows = report["features"]
    assert isinstance(rows, list)
    [row] = [each for each in rows if each["feature"] == feature]
    assert isinstance(row, dict)
    return row


def test_each_group_has_one_level() -> None:
    placed = [one for level in levels.LEVELS for choice in level.needs for one in choice]
    placed += [one for level in levels.LEVELS for one in level.also]
    assert sorted(placed) == sorted([*GROUPS, levels.GRAPH_EXTENSION])


def test_each_group_belongs_to_a_feature_and_each_need_exists() -> None:
    needed = {one for feature in explain.FEATURES for choice in feature.needs for one in choice}
    known = {*GROUPS, *FUNCTIONS, levels.GRAPH_EXTENSION, explain.HOST_ACCESSIBLE, explain.PRIORITIES}
    assert needed <= known
    assert {*GROUPS, levels.GRAPH_EXTENSION} <= needed


def test_each_optional_function_of_core_belongs_to_a_feature() -> None:
    optional = {name for group, need, name, _ in _core.slots() if (group, need) == ("CORE", "OPTIONAL")}
    needed = {one for feature in explain.FEATURES for choice in feature.needs for one in choice}
    assert optional - needed == {"get_extension"}  # the extensions are listed instead


@pytest.mark.parametrize(
    ("offered", "level"),
    [
        ([], -1),
        (["CORE"], 0),
        (["CORE", "ASYNC"], 1),
        (["CORE", "ASYNC", "MODULE"], 1),
        (["CORE", "ASYNC", "PIN", "TIMING", "VMM", "SOA"], 1),
        (["CORE", "ASYNC", "PIN", "TIMING", "HOSTCALL"], 2),
        (["CORE", "ASYNC", "PIN", "TIMING", "HOSTCALL", "MODULE"], 3),  # runs kernels, without VMM and SOA
        (["CORE", "ASYNC", "PIN", "TIMING", "HOSTCALL", "VMM", "MODULE", "IPC"], 3),
        ([*GROUPS, levels.GRAPH_EXTENSION], 4),
    ],
)
def test_a_level_needs_all_levels_below(offered: list[str], level: int) -> None:
    assert levels.level_of(offered) == level


def test_the_checklist_has_every_function_of_the_next_level() -> None:
    text = levels.checklist(["CORE"])
    assert text.startswith("Level 1 ")
    assert all(name in text for name, _ in levels.functions_of("ASYNC"))
    assert "mem_alloc_host" not in text
    text = levels.checklist(["CORE", "ASYNC"])
    assert "At any time:\n  PTR: mem_get_info\n  SOA: mem_alloc_async" in text
    assert "[mem_register_host]" in text  # optional in its group
    assert levels.checklist([*GROUPS, levels.GRAPH_EXTENSION]).startswith("Nothing is missing")
    assert "tb/graph.h" in levels.checklist(GROUPS)


def test_a_driver_of_level_0_is_emulated_and_says_by_what_it_would_change(build_driver: BuildDriver) -> None:
    driver = tb_device.load_driver(build_driver(name="plain"))
    report = explain.examine(driver)
    assert report["level"] == 0
    assert report["groups"] == ["CORE"]
    assert (state(report, "allocation")["state"], state(report, "allocation")["changed_by"]) == ("native", [])
    assert (state(report, "streams")["state"], state(report, "streams")["changed_by"]) == (explain.EMULATED, ["ASYNC"])
    assert state(report, "non_blocking copies")["changed_by"] == ["ASYNC", "PIN"]
    assert state(report, "event timing")["state"] == explain.MISSING
    assert state(report, "kernels on the host's memory")["state"] == explain.ON_CPU
    assert report["next"]["level"] == 1
    assert [step["name"] for step in report["next"]["steps"]] == ["ASYNC"]
    driver.close()


def test_the_cpu_driver_s_features_are_native_where_its_table_has_the_functions() -> None:
    driver = tb_device.load_driver("cpu")
    report = explain.examine(driver)
    for feature in ("streams", "pinned memory", "expandable segments", "kernels on the host's memory", "memory_info"):
        assert state(report, feature)["state"] == explain.NATIVE, feature
    shared = state(report, "tensors shared between processes")  # offered, but torch-backend does not use it yet
    assert (shared["offered"], shared["state"], shared["changed_by"]) == (True, explain.EMULATED, [explain.UNUSED])
    peers = state(report, "peer copies")
    assert (peers["offered"], peers["state"], peers["changed_by"]) == (True, explain.NOT_NEEDED, [])
    driver.close()


def non_blocking_copies(*offered: str) -> dict[str, object]:
    [feature] = [feature for feature in explain.FEATURES if feature.name == "non_blocking copies"]
    return explain.state_of(feature, offered)


def test_non_blocking_copies_are_limited_to_dense_tensors_of_one_dtype_without_host_kernels() -> None:
    by_driver = non_blocking_copies("CORE", "ASYNC", "PIN")
    assert by_driver["state"] == explain.NATIVE
    assert "dense and have the same dtype and strides" in str(by_driver["how"])
    by_host_kernels = non_blocking_copies("CORE", "ASYNC", "PIN", "CLOSURE", explain.HOST_ACCESSIBLE)
    assert by_host_kernels["state"] == explain.NATIVE
    assert "dense" not in str(by_host_kernels["how"])
    assert non_blocking_copies("CORE", "ASYNC")["state"] == explain.EMULATED


def test_the_command_prints_a_table_or_json(build_driver: BuildDriver, capsys: pytest.CaptureFixture[str]) -> None:
    library = str(build_driver(name="plain"))
    assert cli.main(["explain", "--driver", library, "--json"]) == 0
    report = json.loads(capsys.readouterr().out)
    assert report["path"] == library
    assert cli.main(["explain", "--driver", library]) == 0
    text = capsys.readouterr().out
    for row in report["features"]:
        assert row["feature"] in text
        assert f"{row['state']}: {row['how']}" in text or (row["state"] == explain.NATIVE and not row["how"])
    assert "Level 1 " in text


def test_a_missing_driver_is_reported_on_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["explain", "--driver", "absent"]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert "there is no driver 'absent'" in captured.err
