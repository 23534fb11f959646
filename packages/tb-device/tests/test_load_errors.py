"""A library that is no usable driver is refused with everything that is wrong, in one text."""

from __future__ import annotations

from pathlib import Path

import pytest
import tb_device
from conftest import BuildDriver


def refusal(path: Path) -> str:
    with pytest.raises(ImportError) as caught:
        tb_device.load_driver(path)
    assert isinstance(caught.value, tb_device.AbiMismatchError)
    assert caught.value.status == 34
    return str(caught.value)


def test_a_file_that_is_no_library_says_what_the_loader_said(tmp_path: Path) -> None:
    path = tmp_path / "nothing.so"
    path.write_text("no library")
    with pytest.raises(tb_device.NotFoundError, match=r"cannot load .*nothing\.so: .*(invalid ELF|too short)"):
        tb_device.load_driver(path)


def test_a_missing_file_says_its_path(tmp_path: Path) -> None:
    with pytest.raises(tb_device.NotFoundError, match=r"absent\.so.*Check the path"):
        tb_device.load_driver(tmp_path / "absent.so")


def test_a_library_without_the_entry_says_which_symbol_is_missing(build_driver: BuildDriver) -> None:
    text = refusal(build_driver("ENTRY=open_something"))
    assert "does not export tb_driver_open_v1" in text
    assert "TB_EXPORT" in text


def test_another_major_is_recognised_and_named(build_driver: BuildDriver) -> None:
    text = refusal(build_driver("ENTRY=tb_driver_open_v2"))
    assert "device ABI 2" in text
    assert "exports tb_driver_open_v2" in text
    assert "pip install -U tb-device" in text


def test_all_missing_required_functions_are_named_at_once(build_driver: BuildDriver) -> None:
    assert "required functions are missing: mem_alloc, mem_free" in refusal(build_driver("LACKS_ALLOC"))


def test_a_half_filled_group_names_what_it_has_and_lacks(build_driver: BuildDriver) -> None:
    text = refusal(build_driver("HALF_ASYNC"))
    assert "group ASYNC is half filled: it has device_synchronize, stream_default but lacks stream_create" in text
    assert "event_synchronize" in text


def test_a_group_bit_without_functions_is_refused(build_driver: BuildDriver) -> None:
    assert "groups declares PIN but its functions are NULL" in refusal(build_driver("MORE_GROUPS=TB_GROUP_PIN"))


def test_a_group_without_the_group_it_needs_is_refused(build_driver: BuildDriver) -> None:
    assert "group TIMING needs group ASYNC" in refusal(build_driver("WITH_TIMING"))


def test_several_defects_come_in_one_text(build_driver: BuildDriver) -> None:
    text = refusal(build_driver("LACKS_ALLOC", "HALF_ASYNC", "MORE_GROUPS=TB_GROUP_PIN"))
    for defect in ("required functions are missing", "group ASYNC is half filled", "declares PIN"):
        assert defect in text


def test_a_table_smaller_than_its_head_is_refused(build_driver: BuildDriver) -> None:
    assert "a table of 4 bytes" in refusal(build_driver("TINY_TABLE"))


def test_writing_past_the_given_table_is_refused(build_driver: BuildDriver) -> None:
    assert "wrote past the end of the table" in refusal(build_driver("OVERRUN"))


def test_a_wrong_major_inside_the_table_is_refused(build_driver: BuildDriver) -> None:
    assert "says it speaks device ABI 7.0 behind tb_driver_open_v1" in refusal(build_driver("MAJOR=7"))


def test_a_driver_without_self_is_refused(build_driver: BuildDriver) -> None:
    assert "returned no self" in refusal(build_driver("NO_SELF"))


def test_a_negative_device_count_is_refused(build_driver: BuildDriver) -> None:
    assert "device_count says -3" in refusal(build_driver("COUNT=-3"))


@pytest.mark.parametrize("alignment", [32, 96])
def test_an_alignment_that_is_no_power_of_two_from_64_is_refused(build_driver: BuildDriver, alignment: int) -> None:
    assert f"alignment {alignment}, which is not a power of two" in refusal(build_driver(f"ALIGNMENT={alignment}"))


def test_the_text_of_a_driver_that_refuses_to_open_is_reported(build_driver: BuildDriver) -> None:
    with pytest.raises(tb_device.UnavailableError, match="hardware is not plugged in") as caught:
        tb_device.load_driver(build_driver("OPEN_FAILS"))
    assert caught.value.native_code == 17


def test_a_table_that_ends_early_loads_and_the_rest_is_emulated(build_driver: BuildDriver) -> None:
    older = build_driver("TABLE_SIZE=offsetof(tb_driver_api,device_synchronize)")
    driver = tb_device.load_driver(older)
    assert driver.groups == ["CORE"]
    driver.synchronize(0)
    driver.close()
