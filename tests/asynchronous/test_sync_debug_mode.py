"""torch.tb.set_sync_debug_mode: operators that wait for the device are reported, or refused."""

from __future__ import annotations

import re
import warnings
from collections.abc import Iterator

import pytest
import torch
import torch_backend.device_module as tb

OF_ITEM = r"_local_scalar_dense.* at .*test_sync_debug_mode.py:\d+ .*waits for the device"
OF_NONZERO = r"aten::nonzero at .*test_sync_debug_mode.py:\d+ .*waits"


@pytest.fixture(autouse=True)
def default_mode() -> Iterator[None]:
    x = ones()
    x.sum().item()  # the first call of a kernel waits
    x + x
    x.nonzero()
    yield
    tb.set_sync_debug_mode("default")


def ones() -> torch.Tensor:
    return torch.ones(3, device="tb")


def warned(recorded: list[warnings.WarningMessage]) -> list[str]:
    return [str(warning.message) for warning in recorded if "waits for the device" in str(warning.message)]


def test_by_default_nothing_is_reported() -> None:
    assert tb.get_sync_debug_mode() == 0
    with warnings.catch_warnings(record=True) as recorded:
        warnings.simplefilter("always")
        assert ones().sum().item() == 3
        assert ones().nonzero().shape == (3, 1)
    assert warned(recorded) == []


def test_warn_reports_the_line_of_an_operator_that_waits_and_runs_it() -> None:
    tb.set_sync_debug_mode("warn")
    with pytest.warns(UserWarning, match=OF_ITEM):
        assert ones().sum().item() == 3


def test_warn_is_silent_where_the_program_asks_to_wait() -> None:
    tb.set_sync_debug_mode("warn")
    with warnings.catch_warnings(record=True) as recorded:
        warnings.simplefilter("always")
        tb.synchronize()
    assert warned(recorded) == []


def test_warn_is_silent_where_nothing_waits() -> None:
    tb.set_sync_debug_mode("warn")
    with warnings.catch_warnings(record=True) as recorded:
        warnings.simplefilter("always")
        ones() + ones()
    assert warned(recorded) == []


def test_error_refuses_an_operator_that_waits_with_its_line() -> None:
    x = ones()
    tb.set_sync_debug_mode("error")
    with pytest.raises(RuntimeError, match=OF_NONZERO):
        x.nonzero()


def test_error_lets_operators_run_that_do_not_wait() -> None:
    tb.set_sync_debug_mode("error")
    y = ones() + ones()
    tb.set_sync_debug_mode("default")
    assert y.tolist() == [2.0, 2.0, 2.0]


def test_error_lets_the_program_wait() -> None:
    tb.set_sync_debug_mode("error")
    tb.synchronize()


@pytest.mark.parametrize(("mode", "number"), [("default", 0), ("warn", 1), ("error", 2), (0, 0), (1, 1), (2, 2)])
def test_a_mode_has_a_name_and_a_number(mode: str | int, number: int) -> None:
    tb.set_sync_debug_mode(mode)
    assert tb.get_sync_debug_mode() == number


def test_back_in_the_default_mode_operators_wait_again() -> None:
    tb.set_sync_debug_mode("error")
    tb.set_sync_debug_mode("default")
    assert ones().nonzero().shape == (3, 1)


def test_another_mode_is_refused_and_changes_nothing() -> None:
    tb.set_sync_debug_mode("warn")
    with pytest.raises(ValueError, match=re.escape("not one of default, warn, error")):
        tb.set_sync_debug_mode("loud")
    assert tb.get_sync_debug_mode() == 1
