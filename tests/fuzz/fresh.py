"""Cases in processes of their own, in which the first use of tb comes from C++."""

from __future__ import annotations

import faulthandler
import os
import random
import sys
from collections.abc import Iterable

from process.first_uses import FIRST_USES

from .generate import generate
from .report import Run

SECONDS = 120  # a case takes less than one


def run_in_new_processes(seed: int, indices: Iterable[int], run: Run, *, keep_going: bool) -> int:
    """Runs these cases of a seed, prints what failed and how many, and returns 1 if one did, else 0."""
    count = failed = 0
    for index in indices:
        count += 1
        status = _status(seed, index, run)
        if status != 0:
            failed += 1
            print(f"case {index} of seed {seed} ended its process with status {status}", flush=True)
            if not keep_going:
                break
    print(f"{count} cases, each in a process whose first use of tb comes from C++: {failed} failed")
    return 1 if failed or not count else 0


def _status(seed: int, index: int, run: Run) -> int:
    """The exit status of a new process that runs a case; negative for a signal. This process does not use tb."""
    child = os.fork()
    if child == 0:
        faulthandler.dump_traceback_later(SECONDS, exit=True)
        _use_and_run(seed, index, run)
        sys.stdout.flush()
        os._exit(bool(run.failed))
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _use_and_run(seed: int, index: int, run: Run) -> None:
    first = random.Random(f"{seed}/{index}").choice(FIRST_USES)
    try:
        twos = first()
        if str(twos.device) != "tb:0" or twos.tolist() != [2.0, 2.0, 2.0]:
            raise ValueError(f"it gave {twos}")
    except Exception as error:
        run.failed.append(first.__name__)
        print(f"the first use by {first.__name__}: {error!r}")
        return
    run.add(generate(seed, index))
