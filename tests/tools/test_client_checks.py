"""The runner of tools/clients: what passes, what fails, and the page that it writes."""

from __future__ import annotations

import json
import pathlib
import re
from typing import Any

import pytest
import torch
from clients.__main__ import ENDED, record
from clients.checks import Check, Checks, Ran, Result, difference, run
from clients.page import BEGIN, END, page
from clients.releases import Release, Seen, judge, look_apart, table
from clients.uses import USES
from clients.versions import CLIENTS, WITH_TORCHVISION
from fake_clients import INFER_DEVICE, Folder
from torch_backend import integrations


def outcome(function: Any, tolerance: float = 1e-4) -> tuple[str, str]:
    result = run("client", Check("check", function, tolerance))
    return result.outcome, result.reason


def test_equal_values_pass() -> None:
    assert outcome(lambda device: Ran(device, [1.0, {"a": torch.ones(2)}])) == ("passed", "")
    assert outcome(lambda device: Ran(torch.device(device, 0), "text")) == ("passed", "")


def test_a_client_on_the_cpu_unasked_fails() -> None:
    assert outcome(lambda _: Ran("cpu", 1)) == ("ran on the cpu unasked", "device cpu")


def test_a_client_that_ignores_the_cpu_fails() -> None:
    assert outcome(lambda _: Ran("tb:0", 1)) == ("failed", "asked for the cpu, it ran on tb:0")


def test_other_values_and_errors_fail() -> None:
    assert outcome(lambda device: Ran(device, [1, device])) == ("failed", "values[1]: cpu on the cpu, tb on tb")

    def raises(_: str) -> Ran:
        raise ValueError("first\nsecond")

    assert outcome(raises) == ("failed", "ValueError: first")


@pytest.mark.parametrize(
    ("expected", "got", "text"),
    [
        (1.0, 1.00001, None),
        (1.0, 1.01, "values: 1.0 on the cpu, 1.01 on tb"),
        ([1, 2], [1], "values: 2 entries on the cpu, 1 on tb"),
        ({"a": 1}, {"b": 1}, "values: other keys"),
        ([True], [False], "values[0]: True on the cpu, False on tb"),
        (torch.ones(2), torch.ones(3), "values: torch.float32[2] on the cpu, torch.float32[3] on tb"),
        (torch.ones(2), 1, "values: a tensor on the cpu, int on tb"),
        (torch.tensor([float("nan")]), torch.tensor([float("nan")]), None),
    ],
)
def test_differences_are_named(expected: Any, got: Any, text: str | None) -> None:
    assert difference(expected, got, 1e-4) == text


def test_tensors_that_differ_fail() -> None:
    assert "not close" in str(difference(torch.ones(2), torch.zeros(2), 1e-4))


def test_names_of_checks_are_unique() -> None:
    checks = Checks("client")
    checks.add("name", lambda device: Ran(device, 0))
    with pytest.raises(ValueError, match="two checks of client have the name 'name'"):
        checks.add("name", lambda device: Ran(device, 0))


def test_the_page_has_every_result() -> None:
    results = [
        {"client": "one", "check": "a", "outcome": "passed", "reason": ""},
        {"client": "one", "check": "b", "outcome": "failed", "reason": "x | y"},
    ]
    report = {"torch": "2.0", "versions": {"one": "1.2"}, "results": results}
    written = page(f"before\n{BEGIN}\nold\n{END}\nafter", report)
    assert "1 of 2 checks passed beside torch 2.0." in written
    assert "| one | 1.2 | 2 | 1 |" in written
    assert "| one | b | failed: x   y |" in written
    assert "old" not in written
    assert written.startswith("before\n")
    assert written.endswith("after")


def test_a_report_keeps_other_checks_but_no_process_that_ended_before(tmp_path: pathlib.Path) -> None:
    report = tmp_path / "report.json"
    client, other = "torch", "numpy"  # any installed distributions
    record(report, [Result(client, ENDED, "failed"), Result(other, ENDED, "failed"), Result(client, "a", "passed")])
    record(report, [Result(client, "b", "passed")])
    written = [(entry["client"], entry["check"]) for entry in json.loads(report.read_text())["results"]]
    assert written == [(client, "a"), (client, "b"), (other, ENDED)]


def test_what_is_installed_is_what_the_integrations_change() -> None:
    for package in integrations.CLIENTS:
        if package in CLIENTS:
            distribution, _, version = CLIENTS[package].partition("==")
            assert distribution == integrations.client_of(package).distribution
            assert re.fullmatch(r"\d+\.\d+\.\*", version)
    assert set(WITH_TORCHVISION) < set(CLIENTS)


def test_releases_of_every_client_are_used() -> None:
    assert set(USES) == set(integrations.CLIENTS) - {"fastai"}
    assert all(USES.values())


@pytest.mark.parametrize(
    ("seen", "alone", "outcome", "reason"),
    [
        (Seen(used=2), None, "found", ""),
        (Seen(), None, "nothing to find", ""),
        (Seen(used=1, wrong=["get(): cpu"]), None, "failed", "get(): cpu"),
        (Seen(used=1, left={"a.b": "does not exist"}), None, "failed", "a.b does not exist"),
        (Seen(used=1, warned=["torch_backend says"]), None, "failed", "torch_backend says"),
        (Seen(error="ImportError: a"), Seen(error="ImportError: a"), "cannot be imported", "ImportError: a"),
        (Seen(error="ValueError: a"), Seen(), "failed", "ValueError: a"),
    ],
)
def test_the_outcome_of_a_release(seen: Seen, alone: Seen | None, outcome: str, reason: str) -> None:
    assert judge("name", "1.0", seen, alone) == Release("name", "1.0", outcome, reason)


def test_the_table_of_releases_names_those_that_do_not_count() -> None:
    releases = [
        Release("one", "1.2", "found"),
        Release("one", "1.1", "cannot be imported", "x"),
        Release("b", "3", "found"),
    ]
    lines = table(releases, "2.0").splitlines()
    assert "| one | 1.1 to 1.2 | 1 of 2 | 1.1 (cannot be imported) |" in lines
    assert "| b | 3 to 3 | 1 of 1 |  |" in lines


def look_at(folder: pathlib.Path, chooser: str) -> Seen:
    """What a process of its own sees of a client that looks like peft."""
    Folder(folder).add_peft("1.0", chooser)
    (folder / "peft" / "__init__.py").write_text("import torch")
    return look_apart("peft", folder, with_us=True)


def test_a_release_that_finds_tb_is_seen_as_such(tmp_path: pathlib.Path) -> None:
    assert look_at(tmp_path, INFER_DEVICE) == Seen(used=1)


def test_a_release_that_differs_is_seen_with_its_place(tmp_path: pathlib.Path) -> None:
    seen = look_at(tmp_path, "NAME = 'c' 'pu'\ndef infer_device(): return globals()['NAME']")
    assert seen.wrong == ["infer_device(): cpu"]
    assert seen.left == {"peft.utils.other.infer_device": "does not refer to 'cpu'"}
    assert len(seen.warned) == 1
    assert judge("peft", "1.0", seen, None).outcome == "failed"
