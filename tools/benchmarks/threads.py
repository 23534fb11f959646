"""The two settings of threads at which operators are timed, as additions to the environment of a process.

Each setting has a process of its own, because a pool of threads keeps the size it was made with.
"""

ONE_THREAD = {"OMP_NUM_THREADS": "1", "MKL_NUM_THREADS": "1"}
SETTINGS: dict[str, dict[str, str]] = {"default": {}, "1": ONE_THREAD}
