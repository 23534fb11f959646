"""How processes end: `ending pending|in_init|without_destroy`."""

from __future__ import annotations

import datetime
import os
import sys

import torch
import torch.distributed as dist


def main() -> None:
    way = sys.argv[1]
    if way == "in_init" and os.environ["RANK"] == "1":
        os._exit(3)
    dist.init_process_group("tbccl", timeout=datetime.timedelta(seconds=4 if way == "in_init" else 60))
    x = torch.ones(1000, device="tb")
    x * 2  # a kernel's first call waits for the stream
    for _ in range(5):
        dist.all_reduce(x)
    if way == "pending":
        # Nobody sends it. Two streams have work behind it.
        work = dist.irecv(x, 1 - dist.get_rank())
        assert work is not None
        work.wait()
        x * 2
        dist.all_reduce(torch.ones(3, device="tb"), async_op=True)
    print("the program's end", flush=True)


if __name__ == "__main__":
    main()
