"""python -m fuzz: random operator programs on tb against stock cpu.

Case number i of a seed is the same program on every machine with this torch. A case that differs is shrunk and
printed as a Python script. The process ends at once, with the stacks of all threads, when a case crashes or hangs; the
file name in the stack is the case, and `--only N --show` prints it.
"""

from __future__ import annotations

import argparse
import os
import pathlib
import sys
import time

os.environ.update(OMP_NUM_THREADS="1", MKL_NUM_THREADS="1")  # must be set before torch starts its thread pools


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m fuzz", description=__doc__)
    parser.add_argument("--cases", type=int, default=500, help="how many (%(default)s)")
    parser.add_argument("--seed", type=int, default=0, help="of the whole run (%(default)s)")
    parser.add_argument("--only", type=int, metavar="N", help="case N alone")
    parser.add_argument("--show", action="store_true", help="print the programs instead of running them")
    parser.add_argument("--repeat", type=int, default=1, help="runs of each case; races need several (%(default)s)")
    parser.add_argument("--keep-going", action="store_true", help="go on after a case that differs")
    parser.add_argument("--no-shrink", action="store_true", help="print differing cases as they are")
    parser.add_argument("--fresh", action="store_true", help="each in a new process, which uses tb from C++ first")
    parser.add_argument("--page", type=pathlib.Path, metavar="FILE", help="write docs/results/fuzz.md there")
    chosen = parser.parse_args()
    if chosen.cases < 1 or chosen.repeat < 1:
        parser.error("--cases and --repeat take at least 1: a run without programs shows nothing")
    if chosen.fresh and (chosen.show or chosen.page):
        parser.error("--fresh has no --show and no --page: the same programs are shown without it")
    return chosen


def main() -> int:
    """Runs the cases; returns 1 if one differs or is invalid."""
    chosen = arguments()
    import faulthandler

    import torch
    from benchmarks import pages
    from benchmarks.page import write

    from .fresh import run_in_new_processes
    from .generate import generate
    from .report import Run

    faulthandler.enable()
    torch.set_num_threads(1)
    run = Run(repeat=chosen.repeat, shrinking=not chosen.no_shrink)
    indices = range(chosen.cases) if chosen.only is None else [chosen.only]
    if chosen.fresh:
        return run_in_new_processes(chosen.seed, indices, run, keep_going=chosen.keep_going)
    begin = time.monotonic()
    for index in indices:
        faulthandler.dump_traceback_later(300, exit=True)
        case = generate(chosen.seed, index)
        if chosen.show:
            print(run.script(case))
            continue
        run.add(case)
        if run.failed and not chosen.keep_going:
            break
    faulthandler.cancel_dump_traceback_later()
    if not chosen.show:
        seconds = time.monotonic() - begin
        print(f"{run.summary()}, {seconds:.1f} s", flush=True)
        if chosen.page:
            write(chosen.page, pages.fuzz(run.summary(), chosen.seed, seconds))
    return 1 if run.failed else 0


if __name__ == "__main__":
    sys.exit(main())
