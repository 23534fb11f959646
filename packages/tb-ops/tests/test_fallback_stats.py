"""The Python side of the fallback statistics, without a device: wrong arguments, and the line of user code."""

import subprocess
import sys

import pytest
import tb_ops
from tb_ops import _origin, coverage


def test_the_line_of_user_code_is_the_caller_s():
    place, stack = _origin.find()
    assert place == f"{__file__}:{test_the_line_of_user_code_is_the_caller_s.__code__.co_firstlineno + 1} in " + (
        test_the_line_of_user_code_is_the_caller_s.__name__
    )
    assert stack[0] == place
    assert len(stack) <= 64


def test_a_negative_budget_is_refused():
    with pytest.raises(ValueError, match=r"fallback_budget\(-1\)"), tb_ops.fallback_budget(-1):
        pass


def test_budgets_work_before_a_device_is_open():
    with tb_ops.fallback_budget(0), tb_ops.fallback_budget(3):
        pass


def test_forcing_an_unknown_operator_lists_similar_names():
    expected = r"aten::ad.Tensor.*Did you mean aten::add\.Tensor"
    with pytest.raises(ValueError, match=expected), tb_ops.force_fallback("aten::ad.Tensor"):
        pass


def test_empty_statistics_have_a_report():
    code = "import tb_ops; print(tb_ops.fallback_report())"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.startswith("No operator ran on the CPU in the ")


def test_the_coverage_listing_needs_a_device_and_says_which_package_makes_it(monkeypatch, capsys):
    monkeypatch.delattr(coverage.torch, "tb", raising=False)
    assert coverage.main([]) == 1
    assert "pip install torch-backend" in capsys.readouterr().err
