"""Every way to make a process group serves tensors on tb and on the CPU."""

from __future__ import annotations

from typing import Any

import pytest

from distributed.conftest import CaseRuns, Chosen, cases_of
from distributed.programs.groups import WAYS

ALONE = {"new_group of one", "local group", "mesh of one"}


def only(name: str, ranks: int = 2) -> pytest.MarkDecorator:
    """The parameter of a test of one case."""
    return pytest.mark.parametrize("case", [pytest.param(Chosen("groups", ranks, name), id=f"{name}-{ranks}")])


def check(found: dict[str, Any], ranks: int, only_tb: bool = False) -> None:
    assert found["tb"] == float(ranks), found
    assert "No backend type" in found["cpu"] if only_tb else found["cpu"] == float(ranks), found
    assert found["barrier"] is None, found
    assert found["barrier(device_ids)"] is None, found
    assert found["objects"] == list(range(ranks)), found


@pytest.mark.parametrize("case", [Chosen("groups", 2, name) for name in WAYS], ids=lambda case: case.name)
def test_all_groups_of_a_way_to_begin_serve_tb_and_the_cpu(case_runs: CaseRuns, case: Chosen) -> None:
    for rank, groups in enumerate(case_runs(case)):
        assert {"default", "new_group", "mesh"} <= set(groups)
        assert ("split_group" in groups) == ("device_id" in case.name)
        assert ("new_group of one" in groups) == (rank == 1)
        for name, found in groups.items():
            # A group that a program asks for tb alone serves tb alone, and so do those that come of it.
            only_tb = case.name in ("init(tb:tbccl)", "init(TB:GLOO)") and name != "new_group(gloo)"
            check(found, 1 if name in ALONE else 2, only_tb)


@only("lists_of_new_groups")
def test_a_list_of_devices_of_a_new_group_serves_those_devices(case_runs: CaseRuns, case: Chosen) -> None:
    for groups in case_runs(case):
        for name, found in groups.items():
            if name != "cpu:tbccl":
                check(found, 2, only_tb=name in ("tb:gloo", "tb:tbccl"))
        assert groups["cpu:tbccl"]["cpu"] == 2.0
        assert "No backend type" in groups["cpu:tbccl"]["tb"]


@only("fake_groups")
def test_groups_that_move_nothing_serve_tb(case_runs: CaseRuns, case: Chosen) -> None:
    for groups in case_runs(case):
        assert list(groups) == ["fake", "cpu:fake,tb:fake", "tb:fake"]
        assert all(found == [[1.0] * 3, [8, 3], 8, [2, 2]] for found in groups.values())


@only("names_and_devices")
def test_groups_tell_their_backends(case_runs: CaseRuns, case: Chosen) -> None:
    for found in case_runs(case):
        assert found["backend"] == "tbccl"
        assert found["config"] == "cpu:gloo,tb:tbccl"
        assert found["devices"] == ["cpu", "tb"]
        assert found["pg of tb"] == "tbccl"
        assert found["default for tb"] == "tbccl"
        assert found["available"]


@pytest.mark.parametrize("case", cases_of("untouched"))
def test_a_mesh_gives_each_rank_its_device(case_runs: CaseRuns, case: Chosen) -> None:
    assert case_runs(case) == [[0, 0], [1, 1]]


@only("sequence_numbers")
def test_sequence_numbers_count_calls_on_all_ranks(case_runs: CaseRuns, case: Chosen) -> None:
    first, second = case_runs(case)
    assert first == second
    assert first[1] == first[0] + 3


@only("detailed_debugging")
def test_detailed_debugging_works_and_names_calls_that_do_not_match(case_runs: CaseRuns, case: Chosen) -> None:
    for found in case_runs(case):
        check(found, 2)
        assert "mismatch" in found["mismatch"].lower()
        assert "ALLREDUCE" in found["mismatch"]


@only("monitored_barrier")
def test_a_monitored_barrier_works_where_the_backend_is_gloo(case_runs: CaseRuns, case: Chosen) -> None:
    assert case_runs(case) == [None, None]


@only("made_and_destroyed")
def test_groups_that_are_destroyed_leave_no_threads(case_runs: CaseRuns, case: Chosen) -> None:
    for before, after in case_runs(case):
        assert after <= before
