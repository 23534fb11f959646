"""Runs the programs that stdin names, one a line, each in a process of its own, and prints what each did as JSON.

The processes are forked from this one, which has imported torch, because the import takes longer than most programs.
They end as any process does, with the functions that are registered for its exit.
"""

from __future__ import annotations

import contextlib
import gc
import json
import os
import signal
import sys
import tempfile
from collections.abc import Callable

import torch  # with torch_backend, unless TORCH_DEVICE_BACKEND_AUTOLOAD=0
import torch._inductor.compile_fx
import torch.distributed.tensor
import torch.export
import torch.nested._internal.ops  # noqa: F401
from process.cpu_programs import programs

SECONDS = 120


def become(program: Callable[[], None], output: int, errors: int) -> None:
    """Runs the program in this process, whose exit follows."""
    os.setpgrp()
    signal.alarm(SECONDS)
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(output, 1)
    os.dup2(errors, 2)
    program()


def report(process: int, output: int, errors: int) -> dict[str, object]:
    """Waits for a process, and ends those that it left."""
    _, status = os.waitpid(process, 0)
    with contextlib.suppress(ProcessLookupError):
        os.killpg(process, signal.SIGKILL)
    texts = []
    for file in (output, errors):
        os.lseek(file, 0, os.SEEK_SET)
        with open(file, "rb", closefd=False) as stream:
            texts.append(stream.read().decode(errors="surrogateescape"))
    return {"status": os.waitstatus_to_exitcode(status), "stdout": texts[0], "stderr": texts[1]}


def main() -> None:
    """Serves until the end of stdin."""
    known = programs()
    gc.freeze()  # a process then ends sooner: it does not visit and copy the objects that it has from this one
    print(json.dumps({"torch_backend": "torch_backend" in sys.modules}), flush=True)
    while name := sys.stdin.readline().strip():
        with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
            process = os.fork()
            if process == 0:
                become(known[name], output.fileno(), errors.fileno())
                return
            print(json.dumps(report(process, output.fileno(), errors.fileno())), flush=True)


if __name__ == "__main__":
    main()
