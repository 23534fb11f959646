"""
Programs: straight-line graphs of operator calls, run without Python. Use tb_compile instead.
"""
from __future__ import annotations
import collections.abc
import torch
import typing
__all__: list[str] = ['Builder', 'GeneratedKernel', 'GraphedCallable', 'HostKernel', 'Observation', 'Program', 'StepArguments', 'StepCapture', 'StepGradients', 'StepGraph', 'Value', 'Watch', 'current_stream_id', 'lazy_counts', 'lazy_default_device', 'lazy_devices', 'lazy_force_fallback', 'lazy_seed', 'note_code', 'register_delegate', 'register_lazy_backend', 'renew_accumulators', 'shared_memory', 'storage_address']
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
class Observation:
    """
    What the operators of a step use. Thread-safe.
    """
    def __enter__(self) -> None:
        """
        Begins to take notes.
        """
    def __exit__(self, *args: typing.Any) -> None:
        """
        Takes no more notes.
        """
    def __init__(self) -> None:
        """
        Of the calls on the current stream of the current device, without a capture.
        """
    def alive(self) -> list[tuple[int, int]]:
        """
        The storages that were made in the capture and are in use: the address of each StorageImpl and the number of its owners.
        """
    def generators(self) -> list[tuple[int, int]]:
        """
        Generators that were passed to operators: the address of each, and whether it is one of tb.
        """
    def has_made(self, tensor: torch.Tensor) -> bool:
        """
        Whether the tensor's memory was allocated in the capture.
        """
    def has_used(self, tensor: torch.Tensor) -> bool:
        """
        Whether memory that existed before was used.
        """
    def has_written(self, tensor: torch.Tensor) -> bool:
        """
        Whether the tensor's memory was written to.
        """
    def host_tensors(self) -> list[torch.Tensor]:
        """
        Tensors of the host that existed before.
        """
    def leaves(self) -> list[torch.Tensor]:
        """
        Tensors of tb that want a gradient and are no results of operators.
        """
    def release_tensors(self) -> None:
        """
        Forgets tensors and generators, but no memory.
        """
    def used(self, like: torch.Tensor) -> list[int]:
        """
        The storages of tb that existed before and that a tensor of this one's type showed first: the address of each StorageImpl.
        """
    def written_host_tensors(self) -> list[torch.Tensor]:
        """
        Those of them that were written to.
        """
    def written_tensors(self) -> list[torch.Tensor]:
        """
        Tensors of tb that existed before and were written to.
        """
class Watch:
    """
    Objects of the host that must not change. Borrows them: keep them as long as it.
    """
    def __init__(self) -> None:
        ...
    def add_attribute(self, owner: typing.Any, attribute: typing.Any, value: typing.Any | None, name: str) -> None:
        """
        What an attribute refers to.
        """
    def add_dict(self, dict: dict[typing.Any, typing.Any], keys: list[typing.Any], values: list[typing.Any], names: list[str], whole: bool, name: str) -> None:
        """
        Entries of a dictionary. whole: no key may come or go.
        """
    def add_items(self, container: typing.Any, name: str) -> None:
        """
        The items of a list, or the number of items of another container.
        """
    def add_tensor(self, tensor: torch.Tensor, name: str) -> None:
        """
        Where a tensor of tb is, its form, whether it wants a gradient, and the number of its hooks.
        """
    def add_values(self, tensor: torch.Tensor, name: str) -> None:
        """
        The values of a tensor of the host.
        """
    def difference(self) -> str:
        """
        The name of something that is not what it was; "" if there is nothing.
        """
class StepArguments:
    """
    The tensors of a call, and where a graph reads them.
    """
    def __init__(self, given: collections.abc.Sequence[torch.Tensor], bound: collections.abc.Sequence[bool]) -> None:
        """
        bound: for each, whether the graph reads it where the caller has it.
        """
    def is_bound(self, index: int) -> bool:
        """
        Whether the graph reads the caller's memory.
        """
    def of_caller(self, tensor: torch.Tensor, given: collections.abc.Sequence[torch.Tensor]) -> torch.Tensor | None:
        """
        If a tensor shows the graph's memory of an argument: the same view of the caller's tensor.
        """
    def own(self, index: int) -> torch.Tensor:
        """
        The tensor in the graph's memory.
        """
    def restore(self) -> None:
        """
        The tensors show their own memory again.
        """
    def set_written(self, written: collections.abc.Sequence[bool]) -> None:
        """
        Which of them the step writes to.
        """
    def store(self, given: collections.abc.Sequence[torch.Tensor]) -> None:
        """
        Copies what was written to the caller's tensors.
        """
    def substitute(self) -> None:
        """
        The tensors show the graph's memory until restore().
        """
class StepCapture:
    """
    A capture of the current stream that runs what it captures: at its end, or before the host needs a result.
    """
    def __init__(self, find_place: collections.abc.Callable[[], str]) -> None:
        """
        Begins the capture. find_place: called where it is interrupted.
        """
    def complete(self) -> None:
        """
        Ends the capture and runs its work, unless that has happened.
        """
    def interrupt(self, reason: str) -> None:
        """
        Ends the capture early, for this reason.
        """
    def launch(self) -> None:
        """
        Queues the captured work on the current stream.
        """
    @property
    def interruption(self) -> str:
        """
        Why; "" if it has not.
        """
    @property
    def is_interrupted(self) -> bool:
        """
        Whether the capture has ended early.
        """
    @property
    def observation(self) -> Observation:
        """
        What the captured operators use.
        """
    @property
    def open_events(self) -> int:
        """
        The number of events that were recorded inside and are still in use.
        """
    @property
    def place(self) -> str:
        """
        The line of Python of the interruption.
        """
class StepGradients:
    """
    The gradients that a step finds and leaves.
    """
    def __init__(self) -> None:
        ...
    def finish(self, observation: Observation, looks: bool) -> bool:
        """
        After the call. looks: whether code of the step looks at gradients. False: it used a tensor that take() did not get.
        """
    def keep_in_place(self, observation: Observation) -> None:
        """
        At the end of the call: copies gradients that replaced others to where the next launch reads them.
        """
    def take(self, leaves: list[torch.Tensor]) -> None:
        """
        Before the call: notes the gradients of these tensors, which the caller keeps.
        """
    def tensors(self) -> list[torch.Tensor]:
        """
        The tensors that have a gradient before or after the call.
        """
class StepGraph:
    """
    A captured step, and the conditions under which a launch replaces a call.
    """
    def __init__(self, capture: StepCapture, arguments: StepArguments, watch: Watch, gradients: StepGradients, results: collections.abc.Sequence[torch.Tensor], written: collections.abc.Sequence[torch.Tensor]) -> None:
        """
        results: without autograd. written: tensors that existed before and that the step writes to.
        """
    def difference(self, arguments: collections.abc.Sequence[torch.Tensor]) -> str:
        """
        What differs from the captured call, if a launch cannot replace one with these arguments; otherwise "".
        """
    def launch(self, arguments: collections.abc.Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """
        Launches the graph with these arguments; returns its results.
        """
    def relaunch(self, arguments: tuple[typing.Any, ...], stream: int) -> list[torch.Tensor] | None:
        """
        launch(), if the arguments are tensors, nothing differs, and the current stream has this number. Otherwise None, and nothing is launched.
        """
    def results(self, arguments: collections.abc.Sequence[torch.Tensor]) -> list[torch.Tensor]:
        """
        The results of the captured call.
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
class GeneratedKernel:
    """
    A kernel in source, compiled for a device. Its calls are queued on the current stream.
    """
    def __call__(self, *arguments: torch.Tensor | int | float) -> None:
        """
        Queues a call: tensors for pointers, numbers for the others, the number of items, and the device's number.
        """
    def __init__(self, name: str, text: str, arguments: str, types: collections.abc.Sequence[str], synchronizing: bool) -> None:
        """
        name: of its function in the namespace tb::kernels of `text`. arguments: its struct. types: of the struct's fields, 'pointer', 'integer', 'float', pointers first. synchronizing: a block computes an item. ValueError: another type, or too many.
        """
    def load(self, device: int) -> None:
        """
        Compiles and loads it. RuntimeError with its name and the compiler's messages.
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
def note_code(codes: dict[typing.Any, dict[str, typing.Any]], next: typing.Any, frame: typing.Any, event: str, argument: typing.Any) -> None:
    """
    For sys.setprofile: adds the code of a frame that begins, with its globals, and calls `next` unless it is None.
    """
def register_delegate() -> None:
    """
    Registers TorchScript's backend under the name of the PrivateUse1 device, once a process.
    """
def register_lazy_backend() -> None:
    """
    Registers the lazy backend, once a process. RuntimeError: PyTorch's own is registered already.
    """
def renew_accumulators(leaves: list[torch.Tensor]) -> int:
    """
    Lets autograd accumulate gradients on the current stream that it accumulated on another one. Returns how many, or -1 if somebody has hooked into that.
    """
def shared_memory(tensors: collections.abc.Sequence[torch.Tensor]) -> list[int]:
    """
    How tensors share memory: for each, the number of the first one that it shares it with, and how many bytes it is behind that.
    """
def storage_address(tensor: torch.Tensor) -> int:
    """
    The address of a tensor's StorageImpl; 0 without one.
    """
