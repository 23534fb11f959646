"""Runs programs in forks of a process that has imported torch: the import takes two seconds, a fork some milliseconds.

A program runs as `python -c` would run it, from its first statement to the end of the interpreter: it has a module
`__main__` of its own, its standard output and error, its folder and its environment. What cannot be had by a fork
runs in a new interpreter: a program that does not import torch at its top, or torch_backend before or beside it, and
one whose environment differs in more than TORCH_DEVICE_BACKEND_AUTOLOAD and variables named TB_, which nothing reads
before tb is imported. Tests of what an import does call run_new_interpreter.
"""

from __future__ import annotations

import contextlib
import functools
import gc
import json
import os
import re
import signal
import socket
import subprocess
import sys
import tempfile
import types
from collections.abc import Mapping
from typing import Any

AUTOLOAD = "TORCH_DEVICE_BACKEND_AUTOLOAD"
# The imports at the top of a program, up to that of torch.
IMPORTS_TORCH = re.compile(
    r"\s*((import|from) (?!.*\btorch_backend).*\n)*import (?!.*\btorch_backend)[^\n;]*\btorch\b(?!\.)"
)


def _compared(env: Mapping[str, str]) -> dict[str, str]:
    """What must be equal in the server and in the program."""
    free = ("TB_", "PYTEST_", AUTOLOAD)
    return {name: value for name, value in env.items() if not name.startswith(free)}


@functools.cache
def _server() -> tuple[socket.socket, dict[str, str]]:
    """The end of this process, and the environment of the server; it ends when this process does."""
    env = _compared(os.environ)
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    command = [sys.executable, "-m", __spec__.name, str(there.fileno())]
    subprocess.Popen(command, env=env | {AUTOLOAD: "0"}, pass_fds=[there.fileno()], stdin=subprocess.DEVNULL)
    there.close()
    return here, env


def run_new_interpreter(
    code: str, env: Mapping[str, str], *, cwd: str | None = None, timeout: float = 120
) -> subprocess.CompletedProcess[str]:
    """`python -c CODE` with captured output."""
    command = [sys.executable, "-c", code]
    return subprocess.run(command, env=env, cwd=cwd, capture_output=True, text=True, timeout=timeout, check=False)


def run_program(
    code: str, env: Mapping[str, str], *, cwd: str | None = None, timeout: float = 120
) -> subprocess.CompletedProcess[str]:
    """As run_new_interpreter, by a fork if that does. TimeoutExpired: it ran for `timeout` seconds and is ended."""
    if not IMPORTS_TORCH.match(code) or _compared(env) != _server()[1]:
        return run_new_interpreter(code, env, cwd=cwd, timeout=timeout)
    here, there = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)  # a message stays one: number, then status
    with here, tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as error:
        request = json.dumps({"code": code, "env": dict(env), "cwd": cwd or os.getcwd()}).encode()
        with there:
            socket.send_fds(_server()[0], [request], [there.fileno(), output.fileno(), error.fileno()])
        process = int(here.recv(64) or 0)
        assert process, "the server of forks ended"
        here.settimeout(timeout)
        try:
            status = int(here.recv(64))
        except TimeoutError:
            os.kill(process, signal.SIGKILL)
            raise subprocess.TimeoutExpired("a program", timeout) from None
        texts = []
        for file in output, error:
            file.seek(0)
            texts.append(file.read().decode())
        return subprocess.CompletedProcess(code, status, *texts)


def _serve(channel: socket.socket) -> dict[str, Any]:
    """Serves requests until the channel is closed; returns in the fork that is to run a program: the request."""
    import torch

    gc.freeze()  # A fork that ends looks through its own objects only, which saves half a second.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # the forks that wait are not waited for
    while True:
        message, files, _, _ = socket.recv_fds(channel, 1 << 20, 3)
        if not message:
            os._exit(0)
        if not os.fork():
            break
        for file in files:
            os.close(file)
    channel.close()
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    reply = socket.socket(fileno=files[0])
    program = os.fork()
    if program:
        with contextlib.suppress(BrokenPipeError):  # the test gave up
            reply.send(str(program).encode())
            reply.send(str(os.waitstatus_to_exitcode(os.waitpid(program, 0)[1])).encode())
        os._exit(0)
    reply.close()
    os.dup2(files[1], 1)
    os.dup2(files[2], 2)
    for file in files[1:]:
        os.close(file)
    request: dict[str, Any] = json.loads(message)
    os.chdir(request["cwd"])
    os.environ.clear()
    os.environ.update(request["env"])
    if torch._is_device_backend_autoload_enabled():
        torch._import_device_backends()  # type: ignore[no-untyped-call]
    return request


if __name__ == "__main__":
    code = _serve(socket.socket(fileno=int(sys.argv[1])))["code"]
    sys.argv, sys.path[0] = ["-c"], ""
    sys.modules["__main__"] = main = types.ModuleType("__main__")
    failed = False
    try:
        exec(compile(code, "<string>", "exec"), main.__dict__)
    except Exception as raised:
        failed = True
        of_program = raised.__traceback__ and raised.__traceback__.tb_next
        sys.excepthook(type(raised), raised.with_traceback(of_program), of_program)
    if failed:
        sys.exit(1)
