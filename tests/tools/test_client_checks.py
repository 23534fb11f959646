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
from clients.versions import CLIENTS, WITH_TORCHVISION
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


def test_the_installed_versions_are_those_that_the_integrations_know() -> None:
    for package in integrations.CLIENTS:
        if package in CLIENTS:
            known = integrations.client_of(package)
            distribution, _, version = CLIENTS[package].partition("==")
            assert distribution == known.distribution
            assert re.fullmatch(r"\d+\.\d+\.\*", version)
            assert known.known[1] == version.removesuffix(".*")
    assert set(WITH_TORCHVISION) < set(CLIENTS)
