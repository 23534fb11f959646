"""The progress of a run on a terminal or in a log: a bar, the failures so far, the time that is left."""

from __future__ import annotations

import sys
import time

BAR = 30  # characters
LINE_SECONDS = 15.0  # between two lines where the output is no terminal
TERMINAL_SECONDS = 0.5


class Progress:
    """Tests are counted as they end. A file that is not listed yet is taken to have as many as one that is."""

    def __init__(self, tests: int, files_to_list: int) -> None:
        """tests: those that are known to run; files_to_list: those of which nobody knows how many they have."""
        self._start = self._shown = time.monotonic()
        self._tests, self._done, self._failed = tests, 0, 0
        self._files_to_list, self._files_listed = files_to_list, 0
        self._on_terminal = sys.stdout.isatty()

    @property
    def seconds(self) -> float:
        """Since the run began."""
        return time.monotonic() - self._start

    def list_file(self, tests: int) -> None:
        """A file is listed, and so many of its tests run."""
        self._tests += tests
        self._files_to_list -= 1
        self._files_listed += 1

    def count(self, failure: str | None) -> None:
        """A test has ended; failure: its failure in one line."""
        self._done += 1
        if failure is not None:
            self._failed += 1
            print(("\r\033[K" if self._on_terminal else "") + f"FAILED {failure[:400]}", flush=True)
        if time.monotonic() - self._shown >= (TERMINAL_SECONDS if self._on_terminal else LINE_SECONDS):
            self._shown = time.monotonic()
            line = self.line()
            print(f"\r\033[K{line}" if self._on_terminal else line, end="" if self._on_terminal else "\n", flush=True)

    def line(self) -> str:
        expected = self._tests
        if self._files_listed:
            expected += self._files_to_list * self._tests // self._files_listed
        share = self._done / max(expected, self._done, 1)
        bar = "#" * round(BAR * share)
        left = (1 / share - 1) * self.seconds if share else 0.0
        return (
            f"[{bar:.<{BAR}}] {self._done} of {'some ' if self._files_to_list else ''}{expected} tests, "
            f"{self._failed} failed, {left / 60:.0f} min left"
        )
