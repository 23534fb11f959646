"""Random steps that write to arguments and state, while others move what they read, leave what plain steps leave."""

from __future__ import annotations

import pytest
from compile import captured_state_programs


@pytest.mark.usefixtures("one_thread")
@pytest.mark.parametrize("first", range(0, 60, 15))
def test_random_steps_leave_what_plain_steps_leave(first: int) -> None:
    found = map(captured_state_programs.differing, range(first, first + 15))
    assert [problem for problem in found if problem] == []
