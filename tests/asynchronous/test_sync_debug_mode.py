"""torch.tb.set_sync_debug_mode: operators that wait for the device are told of, or refused."""

from __future__ import annotations

import pytest
import torch
import torch_backend.device_module as tb


def test_operators_that_wait_are_told_with_their_line() -> None:
    x = torch.ones(3, device="tb")
    x.sum().item()
    assert tb.get_sync_debug_mode() == 0
    tb.set_sync_debug_mode("warn")
    try:
        with pytest.warns(UserWarning, match=r"_local_scalar_dense.* at .*test_waiting.py:\d+ .*waits for the device"):
            assert x.sum().item() == 3
        tb.synchronize()  # says itself that it waits
        tb.set_sync_debug_mode(2)
        assert tb.get_sync_debug_mode() == 2
        with pytest.raises(RuntimeError, match=r"aten::nonzero at .*test_waiting.py:\d+ .*waits"):
            x.nonzero()
        x + x
    finally:
        tb.set_sync_debug_mode("default")
    assert x.nonzero().shape == (3, 1)
    with pytest.raises(ValueError, match="not one of default, warn, error"):
        tb.set_sync_debug_mode("loud")
