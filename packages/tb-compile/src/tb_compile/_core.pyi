"""
Programs: straight-line graphs of operator calls, run without Python. Use tb_compile instead.
"""
from __future__ import annotations
import collections.abc
import torch
import typing
__all__: list[str] = ['Builder', 'GraphedCallable', 'HostKernel', 'Program', 'StepGraph', 'Value', 'current_stream_id', 'lazy_counts', 'lazy_default_device', 'lazy_devices', 'lazy_seed', 'register_delegate', 'register_lazy_backend']
class Value:
    """
    What an input or an instruction of a program that is being built gives.
    """
class Program:
    """
    A finished program. Runs on the current streams; threads may share it.
    """
    def run(self, inputs: list[torch.Tensor | int | float]) -> list[typing.Any]:
        """
        Runs all instructions and returns the outputs. Empties `inputs`, so that their memory is free after its last use. Raises what an operator raises, with the instruction and the user's line in the text.
        """
    @property
    def instructions(self) -> list[str]:
        """
        Names of the instructions in their order.
        """
    @property
    def name(self) -> str:
        ...
    @property
    def runs(self) -> int:
        """
        How often it ran.
        """
    @property
    def written_inputs(self) -> list[int]:
        """
        Numbers of the inputs that are written to.
        """
class Builder:
    """
    Builds one program, call by call.
    """
    def __init__(self, name: str) -> None:
        ...
    def call(self, operator: str, arguments: list[typing.Any], keywords: dict[str, typing.Any], source: str = '') -> list[Value]:
        """
        One call, such as of 'aten::add.Tensor'; Values may stand in arguments and in lists. `source` is for messages. KeyError: no such operator. TypeError: arguments that it does not take. NotImplementedError: a value that a program cannot hold.
        """
    def element(self, list: Value, index: int) -> Value:
        """
        An element of a list that a call gave.
        """
    def finish(self, outputs: list[typing.Any]) -> Program:
        """
        The program, whose outputs are Values, numbers, tensors or None. The builder is of no use afterwards.
        """
    def input(self, is_number: bool = False) -> Value:
        """
        The next input, which may be a number.
        """
class StepGraph:
    """
    A captured step: when a launch of it may take a call's place.
    """
    def __init__(self, replay: collections.abc.Callable[[], typing.Any], arguments: list[torch.Tensor], leaves: list[torch.Tensor], before: list[torch.Tensor | None], after: list[torch.Tensor | None], entries: list[tuple[dict[str, typing.Any], str, typing.Any]], lists: list[tuple[list[typing.Any], int]], results: list[torch.Tensor]) -> None:
        ...
    def launch(self, arguments: tuple[torch.Tensor, ...]) -> list[torch.Tensor]:
        """
        Copies of the results of one launch with these arguments, on the current stream.
        """
    def relaunch(self, arguments: tuple[typing.Any, ...], stream: int) -> list[torch.Tensor] | None:
        """
        launch(), if arguments have the same forms, tensors lie where they lay, gradients, numbers and modes are the same, and the current stream is the one of this number. None: nothing has happened.
        """
class HostKernel:
    """
    Code compiled for the host, whose calls are queued on a device's current stream.
    """
    def __call__(self, *arguments: torch.Tensor | int | float) -> None:
        """
        Tensors where pointers are, numbers elsewhere; the last is the device's number.
        """
    def __init__(self, entry: int, name: str, types: collections.abc.Sequence[str]) -> None:
        """
        entry: the address of extern "C" void (void **). types: of the arguments, 'pointer', 'integer', 'float'. ValueError: another type.
        """
class GraphedCallable:
    """
    A function of a list of tensors and numbers as a device graph; one thread at a time.
    """
    def __init__(self, written: collections.abc.Sequence[int]) -> None:
        """
        written: numbers of the inputs that the function writes to.
        """
    def begin(self, inputs: list[typing.Any]) -> list[typing.Any] | None:
        """
        None: call the function with the inputs. A list: call it with that, and end() or fail() afterwards; the current stream captures.
        """
    def end(self, results: list[typing.Any], inputs: list[typing.Any]) -> list[typing.Any]:
        """
        Ends the capture of a call, launches it for `inputs`, and gives its results. Both lists are empty then.
        """
    def fail(self, reason: str) -> None:
        """
        Gives the capture up; for good after some failures.
        """
    def launch(self, inputs: list[typing.Any]) -> list[typing.Any] | None:
        """
        One launch: its results, and `inputs` is empty. None: the function has to be called, as begin() says.
        """
    @property
    def captures(self) -> int:
        """
        How often a graph was captured.
        """
    @property
    def launches(self) -> int:
        """
        Calls that were a launch.
        """
    @property
    def refusal(self) -> str:
        """
        Why there is no graph; empty while there may be one.
        """
def _connect() -> None:
    """
    Takes the tables of tb-device and tb-stream. ImportError: one is missing or does not match.
    """
def current_stream_id() -> int:
    """
    Of this thread's current stream of its current device.
    """
def lazy_counts() -> dict[str, int]:
    ...
def lazy_default_device(ordinal: int) -> None:
    """
    The device that lazy tensors without a number are on.
    """
def lazy_devices() -> list[str]:
    ...
def lazy_seed(seed: int) -> None:
    ...
def register_delegate() -> None:
    """
    Registers TorchScript's backend under the name of the PrivateUse1 device, once a process.
    """
def register_lazy_backend() -> None:
    """
    Registers the lazy backend, once a process. RuntimeError: PyTorch's own is there already.
    """
