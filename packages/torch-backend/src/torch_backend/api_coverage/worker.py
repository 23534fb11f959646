"""A worker process of a run. torch_backend.conformance.worker says how it answers."""

import functools

from torch_backend._worker_process import run_worker
from torch_backend.api_coverage.checks import CHECKS
from torch_backend.conformance.worker import serve

if __name__ == "__main__":
    run_worker(functools.partial(serve, CHECKS))
