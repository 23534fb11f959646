"""Runs a module as the ranks of one group: each a fork of this process, which has imported what all of them need.

`python -m distributed.forked_ranks FOLDER RANKS MODULE [ARGUMENTS]` writes what rank N prints to FOLDER/output.N, and
the ranks' exit statuses, as those of subprocess, to FOLDER/statuses.
"""

from __future__ import annotations

import gc
import json
import os
import pathlib
import runpy
import sys

import torch
import torch.distributed.tensor


def _fork(folder: pathlib.Path, count: int) -> bool:
    """Returns in a rank whether this is one. The process that starts them waits for all, and writes their statuses."""
    gc.freeze()  # A rank that ends looks through its own objects only.
    processes = []
    for rank in range(count):
        process = os.fork()
        if not process:
            output = os.open(folder / f"output.{rank}", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o644)
            os.dup2(output, 1)
            os.dup2(output, 2)
            os.close(output)
            os.environ.update({"RANK": str(rank), "LOCAL_RANK": str(rank)})
            del os.environ["TORCH_DEVICE_BACKEND_AUTOLOAD"]  # off until here
            return True
        processes.append(process)
    statuses = [os.waitstatus_to_exitcode(os.waitpid(process, 0)[1]) for process in processes]
    (folder / "statuses").write_text(json.dumps(statuses))
    return False


if __name__ == "__main__":
    folder, count, module, *arguments = sys.argv[1:]
    if _fork(pathlib.Path(folder), int(count)):
        torch._import_device_backends()  # type: ignore[no-untyped-call]
        sys.argv = [module, *arguments]
        runpy.run_module(module, run_name="__main__", alter_sys=True)
