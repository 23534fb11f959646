"""The child process of the kit: opens the driver once and runs the cases that the parent names.

    python -m tb_device.contract.worker --requests FD --answers FD

Both pipes carry a JSON object a line. First comes the target; the answer is what the driver says of itself, or
{"problem": text}. Then {"run": id} is answered by the case's result, {"close": true} by {} or a problem. What the
driver prints goes to stdout and stderr, which the parent keeps. With --child NAME it is the second process of a case
instead (contract/child.h).
"""

from __future__ import annotations

import argparse
import faulthandler
import json
import os
import signal
import sys
from collections.abc import Sequence
from typing import Any

from .. import _contract, _core
from .target import WORKER

STACKS = signal.SIGUSR1  # asks for the stacks of all threads on stderr


def _target(words: dict[str, Any]) -> _contract.Target:
    return _contract.Target(
        name=words["driver"],
        entry=0 if words["library"] else _core.builtin_entry(words["driver"]),
        library=words["library"],
        image=words["image"],
        mutant=words["mutant"],
        layers=words["layers"],
        seed=int(words["seed"]),
        child_command=list(WORKER),
    )


def _serve(requests: int, answers: int) -> None:
    with os.fdopen(requests) as asked, os.fdopen(answers, "w", buffering=1) as answered:

        def answer_with(answer: dict[str, Any]) -> None:
            answered.write(json.dumps(answer) + "\n")

        words = json.loads(asked.readline())
        try:
            session = _contract.Session(_target(words), words["options"])
        except Exception as error:
            return answer_with({"problem": str(error)})
        answer_with(session.about())
        for line in asked:
            request = json.loads(line)
            if "run" in request:
                answer_with(session.run(request["run"]))
                continue
            try:
                session.close()
            except RuntimeError as error:
                return answer_with({"problem": str(error)})
            return answer_with({})


def main(arguments: Sequence[str] | None = None) -> int:
    """Serves the parent, or is the second process of a case; returns the exit code."""
    parser = argparse.ArgumentParser(prog="tb_device.contract.worker")
    parser.add_argument("--requests", type=int)
    parser.add_argument("--answers", type=int)
    parser.add_argument("--child")
    for name in ("driver", "library", "seed", "mutant", "layers", "image"):
        parser.add_argument(f"--{name}", default="")
    parser.add_argument("--option", action="append", default=[])
    chosen = parser.parse_args(arguments)
    faulthandler.enable()
    faulthandler.register(STACKS, all_threads=True)
    if chosen.child:
        options = dict(each.split("=", 1) for each in chosen.option)
        return _contract.run_child(_target(vars(chosen)), options, chosen.child)
    _serve(chosen.requests, chosen.answers)
    return 0


if __name__ == "__main__":
    sys.stdout.flush()
    # Without the interpreter's end: what a driver's threads still do is the cases' business, not the exit's.
    os._exit(main())
