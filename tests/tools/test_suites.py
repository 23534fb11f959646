"""The runner of tools/suites: what becomes of a suite's tests, the table, and the page."""

from __future__ import annotations

import hashlib
import json
import os
import pathlib
import tarfile
import textwrap
from typing import Any

import pytest
from building.source_archives import SourceArchive, SourceUnavailable
from suites.__main__ import SUITE_KINDS, main, results_of, summary, verdict_of
from suites.page import page
from suites.plugin import NOT_ON_DEVICE, name_of
from suites.suite import Suite, load
from suites.unpacked import renamed
from torch_backend.pytorch_tests.expectations import Expectation
from torch_backend.pytorch_tests.expectations import load as load_expectations
from torch_backend.pytorch_tests.report import Report
from torch_backend.pytorch_tests.result import FAILED, PASSED, SKIPPED, XFAILED, Result, TestName

TESTS = """
    import os, signal, time, unittest
    import numpy, pytest, torch

    DEVICE = torch.empty(0).device.type

    def test_passes():
        assert (torch.ones(2) + 1).tolist() == [2, 2]

    def test_draws_what_the_cpu_draws():
        torch.manual_seed(7)
        drawn = torch.rand(3), torch.nn.Linear(2, 3).weight
        torch.manual_seed(7)
        on_cpu = torch.rand(3, device="cpu"), torch.nn.Linear(2, 3, device="cpu").weight
        assert [x.device.type for x in drawn] == [DEVICE] * 2
        assert [x.tolist() for x in drawn] == [x.tolist() for x in on_cpu]

    def test_takes_arrays():
        tensor = torch.from_numpy(numpy.ones(2))
        assert tensor.device.type == DEVICE
        assert tensor.numpy().sum() == numpy.asarray(tensor).sum() == 2

    def test_is_elsewhere():
        assert torch.ones(2, device="cpu").tolist() == [1, 1]

    def test_skips():
        pytest.skip("why")

    @pytest.mark.xfail
    def test_is_expected_to_fail():
        assert torch.ones(2).sum() == 3

    def test_fails_on_both():
        assert torch.ones(2).sum() == 3

    class TestClass(unittest.TestCase):
        def test_fails_on_the_device(self):
            self.assertEqual(DEVICE, "cpu")

    @pytest.mark.parametrize("device", ["cpu", "tb"])
    @pytest.mark.parametrize("size", [1, 2])
    def test_of_devices(size, device):
        if device == "cpu" or DEVICE == "tb":
            assert torch.ones(size, device=device).sum() != 2

    def test_crashes():
        os.kill(os.getpid(), signal.SIGSEGV if DEVICE == "tb" else signal.SIGCONT)

    def test_hangs():
        time.sleep(60 if DEVICE == "tb" else 0)

    def test_is_last():
        assert torch.arange(3).sum() == 3
"""


def run(folder: pathlib.Path) -> list[Result]:
    source = folder / "source" / "tests"
    source.mkdir(parents=True)
    (source / "test_one.py").write_text(textwrap.dedent(TESTS))
    (source / "test_missing.py").write_text("import no_such_module_at_all")
    suite = Suite("fake", "", "", "fake==1.0", [], ["tests"], default_device=True, numpy=True, limit=8.0)
    return results_of(suite, source.parent, folder, "tb", "")


def test_each_test_has_its_result_whatever_ends_the_process(tmp_path: pathlib.Path) -> None:
    found = {str(result.name).split("/")[1]: result for result in run(tmp_path)}
    outcomes = {name: (result.outcome, result.cpu) for name, result in found.items()}
    assert outcomes == {
        "test_missing (import)": (FAILED, FAILED),
        "test_one test_passes": (PASSED, None),
        "test_one test_draws_what_the_cpu_draws": (PASSED, None),
        "test_one test_takes_arrays": (PASSED, None),
        "test_one test_is_elsewhere": (SKIPPED, None),
        "test_one test_skips": (SKIPPED, None),
        "test_one test_is_expected_to_fail": (XFAILED, None),
        "test_one test_fails_on_both": (FAILED, FAILED),
        "test_one TestClass.test_fails_on_the_device": (FAILED, PASSED),
        "test_one test_of_devices[1]": (PASSED, None),
        "test_one test_of_devices[2]": (FAILED, FAILED),
        "test_one test_crashes": (FAILED, PASSED),
        "test_one test_hangs": (FAILED, PASSED),
        "test_one test_is_last": (PASSED, None),
    }
    assert found["test_one test_is_elsewhere"].text == NOT_ON_DEVICE
    assert found["test_one test_skips"].text == "why"
    assert found["test_one test_crashes"].text == "crash: SIGSEGV"
    assert found["test_one test_hangs"].text.startswith("hang: no result after")
    assert found["test_one test_passes"].fallbacks == []


def test_the_word_cuda_is_renamed_and_no_part_of_a_word() -> None:
    text = 'x.cuda() if torch.cuda.is_available() else x.is_cuda; f("cuda:0", cuda=True)'
    assert renamed(text, "tb") == 'x.tb() if torch.tb.is_available() else x.is_cuda; f("tb:0", cuda=True)'


@pytest.mark.parametrize(
    ("nodeid", "name"),
    [
        ("a/test_a.py::test_b", ("a/test_a", "test_b")),
        ("test_a.py::TestA::test_b[tb]", ("test_a", "TestA.test_b")),
        ("test_a.py::test_b[tb:0-x-1]", ("test_a", "test_b[x-1]")),
        ("test_a.py::test_b[tbx-cpu]", ("test_a", "test_b[tbx-cpu]")),
    ],
)
def test_a_name_has_no_device(nodeid: str, name: tuple[str, str]) -> None:
    assert name_of(nodeid, "tb") == name


def test_the_table_and_the_expected_failures_are_valid() -> None:
    suites, absent = load()
    assert suites
    assert absent
    for suite in suites.values():
        if suite.expected.exists():
            assert load_expectations([suite.expected], "cpu", suite.version, SUITE_KINDS)
    files = {path.stem for path in pathlib.Path(suite.expected).parent.glob("*.toml")}
    assert files <= set(suites)


def test_a_suite_without_a_device_or_with_an_unknown_key_is_refused(tmp_path: pathlib.Path) -> None:
    entry = '[one]\narchive = ""\nsha256 = ""\nrequirement = "one==1"\nneeds = []\ntests = ["tests"]\n'
    table = tmp_path / "suites.toml"
    table.write_text(entry)
    with pytest.raises(ValueError, match="gives its tests no device"):
        load(table)
    table.write_text(entry + "colour = 1\n")
    with pytest.raises(ValueError, match="colour"):
        load(table)
    table.write_text(entry + 'variables = { TEST_DEVICE = "{device}" }\n')
    assert load(table)[0]["one"].variables_for("tb") == {"TEST_DEVICE": "tb"}


def report_of(expectations: list[Expectation], results: list[Result]) -> Report:
    report = Report(expectations)
    for result in results:
        report.add(result)
    return report


def test_an_entry_whose_tests_pass_or_are_not_there_fails_a_run() -> None:
    suite = Suite("fake", "", "", "fake==1.0", [], ["tests"])
    passed = Result(_name("test_a"), PASSED, fallbacks=["aten::sort"])
    failed = Result(_name("test_b"), FAILED, "Error: x", cpu=PASSED)
    entry = Expectation("library", "a reason", "f", "test_b")
    report = report_of([entry], [passed, failed])
    assert verdict_of(report, whole=True) == []
    numbers = summary(suite, report, [])
    assert (numbers["executed"], numbers["passed"], numbers["expected"]) == (2, 1, 1)
    assert "a reason" in page({"driver": "cpu", "torch": "2", "suites": {"fake": numbers}}, {"other": "nothing"})
    assert len(verdict_of(report_of([Expectation("library", "r", "f", "test_a")], [passed]), whole=True)) == 1
    stale = report_of([Expectation("library", "r", "f", "test_c")], [passed])
    assert verdict_of(stale, whole=False) == []
    assert verdict_of(stale, whole=True) == ["the entry f test_c expects a failure, and no test fails by it"]
    assert "no test ran on the device" in verdict_of(report_of([], []), whole=True)[0]


def _name(test: str) -> TestName:
    return TestName("f", test)


def test_the_last_results_are_judged_by_the_entries(tmp_path: pathlib.Path) -> None:
    suite = load()[0]["einops"]
    (entry,) = load_expectations([suite.expected], "cpu", suite.version, SUITE_KINDS)
    name = TestName(entry.file, entry.test)
    (tmp_path / "einops").mkdir()

    def judged(result: Result) -> tuple[int, dict[str, Any]]:
        (tmp_path / "einops" / "results.jsonl").write_text(json.dumps(result.to_json()) + "\n")
        report = tmp_path / "report.json"
        status = main(["einops", "--source", "none", "--json", str(report), "--judge"])
        return status, json.loads(report.read_text())["suites"]["einops"]

    status, found = judged(Result(name, FAILED, f"Error: {entry.error}", cpu=PASSED))
    assert (status, found["ok"], found["expected"]) == (0, True, 1)
    status, found = judged(Result(name, FAILED, "another error", cpu=PASSED))
    assert (status, found["ok"], found["failed"]) == (1, False, 1)
    status, found = judged(Result(name, PASSED))
    assert (status, found["passed"]) == (1, 1)
    assert "expects a failure" in found["verdict"][0]


def test_an_archive_with_another_digest_is_removed(tmp_path: pathlib.Path) -> None:
    (tmp_path / "one-1.0").mkdir()
    (tmp_path / "one-1.0" / "file").write_text("text")
    path = tmp_path / "archives" / "one-1.0.tar.gz"
    path.parent.mkdir()
    with tarfile.open(path, "w:gz") as archive:
        archive.add(tmp_path / "one-1.0", "one-1.0")
    digest = hashlib.sha256(path.read_bytes()).hexdigest()
    unpacked = SourceArchive(path.name, digest, "one==1.0").fetch(path.parent)
    assert (unpacked / "file").read_text() == "text"
    with pytest.raises(SourceUnavailable, match="has the digest"):
        SourceArchive(path.name, "0" * 64, "one==1.0").fetch(path.parent)
    assert not path.exists()


def test_a_name_that_is_no_suite_is_refused(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit):
        main(["nothing", "--source", os.curdir, "--json", "report.json"])
    assert "einops" in capsys.readouterr().err
