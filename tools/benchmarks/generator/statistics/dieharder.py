"""Runs Robert Brown's dieharder, which reads the raw words of a sequence from its standard input."""

from __future__ import annotations

import subprocess
import threading
from typing import IO

import tb_generator

RAW_INPUT = "200"  # dieharder's number for the generator that reads words from standard input
VERDICTS = ("PASSED", "WEAK", "FAILED")
WORDS = 1 << 20


def feed(pipe: IO[bytes], seed: int) -> None:
    """Writes the words of the sequence, in their order, until the reader closes the pipe."""
    generator = tb_generator.Generator(seed)
    buffer = bytearray(4 * WORDS)
    try:
        while True:
            # An element is two words. The second one's highest bit is inverted, since int64 starts at its lowest value.
            generator.integers(buffer, -(2**63), 2**63, dtype="int64", threads=1)
            pipe.write(buffer)
    except (BrokenPipeError, ValueError):  # ValueError: the pipe was closed on this side
        return


def run(seed: int, tests: list[int] | None = None) -> list[str]:
    """Runs all of dieharder's tests, or those with the numbers `tests`, and returns the failures.

    A weak result is repeated until it passes or fails. It is also a failure if there is no result, or no dieharder.
    """
    failed, results = [], 0
    for chosen in [["-d", str(test)] for test in tests or []] or [["-a"]]:
        command = ["dieharder", "-g", RAW_INPUT, "-Y", "1", "-k", "2", *chosen]
        try:
            process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        except FileNotFoundError:
            return ["dieharder is not installed. Install Debian's package: apt-get install dieharder"]
        assert process.stdin is not None
        assert process.stdout is not None
        feeder = threading.Thread(target=feed, args=(process.stdin, seed), daemon=True)
        feeder.start()
        lines = []
        for line in process.stdout:
            text = line.decode().rstrip()
            if any(verdict in text for verdict in VERDICTS):
                lines.append(text)
                print(text, flush=True)
        status = process.wait()
        feeder.join()
        results += len(lines)
        failed += [text for text in lines if "FAILED" in text]
        if status != 0:
            failed.append(f"dieharder ended with status {status}")
    return failed if results else [*failed, "dieharder gave no result"]
