"""
Programs: straight-line graphs of operator calls, run without Python. Use tb_compile instead.
"""
from __future__ import annotations
import collections.abc
import torch
import typing
__all__: list[str] = ['Builder', 'GraphedCallable', 'HostKernel', 'Program', 'StepGraph', 'Value', 'current_stream_id', 'lazy_counts', 'lazy_default_device', 'lazy_devices', 'lazy_force_fallback', 'lazy_seed', 'register_delegate', 'register_lazy_backend']
class Value:
    """
    An input of a program that is being built, or the result of an instruction.
    """
class Program:
    """
    A finished program. Runs on the current streams; threads may share it.
    """
    def run(self, inputs: list[torch.Tensor | int | float]) -> list[typing.Any]:
        """
        Runs all instructions and returns the outputs. Empties `inputs`, so that their memory is freed after its last use. An operator's exception has the instruction and the user's line in its text.
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
        The number of runs.
        """
    @property
    def written_inputs(self) -> list[int]:
        """
        Numbers of the inputs that an instruction writes to.
        """
class Builder:
    """
    Builds one program, call by call.
    """
    def __init__(self, name: str) -> None:
        ...
    def call(self, operator: str, arguments: list[typing.Any], keywords: dict[str, typing.Any], source: str = '') -> list[Value]:
        """
        Adds a call, such as of 'aten::add.Tensor'; arguments and lists in them may be Values. `source` is for messages. KeyError: no such operator. TypeError: the operator does not take these arguments. NotImplementedError: a program cannot hold a value.
        """
    def element(self, list: Value, index: int) -> Value:
        """
        An element of a list that a call returned.
        """
    def finish(self, outputs: list[typing.Any]) -> Program:
        """
        The program, whose outputs are Values, numbers, tensors or None. The builder cannot be used afterwards.
        """
    def input(self, is_number: bool = False) -> Value:
        """
        The next input, which may be a number.
        """
class StepGraph:
    """
    A captured step, and the conditions under which a launch replaces a call.
    """
    def __init__(self, replay: collections.abc.Callable[[], typing.Any], arguments: list[torch.Tensor], leaves: list[torch.Tensor], before: list[torch.Tensor | None], after: list[torch.Tensor | None], entries: list[tuple[dict[str, typing.Any], str, typing.Any]], lists: list[tuple[list[typing.Any], int]], results: list[torch.Tensor]) -> None:
        ...
    def fits(self) -> bool:
        """
        Whether launch() may follow prepare(), for arguments of the right form: a gradient may be another tensor.
        """
    def launch(self, arguments: tuple[torch.Tensor, ...]) -> list[torch.Tensor]:
        """
        Launches the graph with these arguments on the current stream; returns copies of the results.
        """
    def prepare(self) -> None:
        """
        Copies gradients that are other tensors to where the graph reads them.
        """
    def relaunch(self, arguments: tuple[typing.Any, ...], stream: int) -> list[torch.Tensor] | None:
        """
        launch(), if nothing has changed since the capture: forms of arguments, addresses of tensors, gradients, numbers and modes; and if the current stream has this number. Otherwise None, and nothing is launched.
        """
class HostKernel:
    """
    A kernel compiled for the host. Its calls are queued on a device's current stream.
    """
    def __call__(self, *arguments: torch.Tensor | int | float) -> None:
        """
        Queues a call: tensors for pointers, numbers for the others, and at last the device's number.
        """
    def __init__(self, entry: int, name: str, types: collections.abc.Sequence[str]) -> None:
        """
        entry: the address of extern "C" void (void **). types: of the arguments, 'pointer', 'integer', 'float'. ValueError: another type.
        """
class GraphedCallable:
    """
    A function of a list of tensors and numbers as a device graph. Not thread-safe.
    """
    def __init__(self, written: collections.abc.Sequence[int]) -> None:
        """
        written: numbers of the inputs that the function writes to.
        """
    def begin(self, inputs: list[typing.Any]) -> list[typing.Any] | None:
        """
        None: call the function with the inputs. A list: the current stream captures; call the function with this list, and end() or fail() afterwards.
        """
    def end(self, results: list[typing.Any], inputs: list[typing.Any]) -> list[typing.Any]:
        """
        Ends the capture of a call, launches it for `inputs`, and returns its results. Empties both lists.
        """
    def fail(self, reason: str) -> None:
        """
        Drops the capture. After some failures there are no more.
        """
    def launch(self, inputs: list[typing.Any]) -> list[typing.Any] | None:
        """
        Launches the graph, returns its results and empties `inputs`. None: the function must be called, see begin().
        """
    @property
    def captures(self) -> int:
        """
        The number of captures.
        """
    @property
    def launches(self) -> int:
        """
        The number of calls that were a launch.
        """
    @property
    def refusal(self) -> str:
        """
        Why there is no graph; empty while there may be one.
        """
def _connect() -> None:
    """
    Imports the tables of tb-device, tb-stream and tb-ops. ImportError: one is missing or does not match.
    """
def current_stream_id() -> int:
    """
    The number of this thread's current stream of its current device.
    """
def lazy_counts() -> dict[str, int]:
    ...
def lazy_default_device(ordinal: int) -> None:
    """
    Sets the device of lazy tensors without a number.
    """
def lazy_devices() -> list[str]:
    ...
def lazy_force_fallback(names: collections.abc.Sequence[str]) -> None:
    """
    The operators of these names run eagerly from now on. ValueError: one cannot.
    """
def lazy_seed(seed: int) -> None:
    ...
def register_delegate() -> None:
    """
    Registers TorchScript's backend under the name of the PrivateUse1 device, once a process.
    """
def register_lazy_backend() -> None:
    """
    Registers the lazy backend, once a process. RuntimeError: PyTorch's own is registered already.
    """
