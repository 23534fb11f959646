"""
The contract kit's cases and mutants, compiled; tb_device.contract runs them in child processes.
"""
from __future__ import annotations
import collections.abc
import typing
__all__: list[str] = ['Session', 'Target', 'cases', 'default_options', 'groups', 'mutants', 'run_child']
class Target:
    """
    What is under test.
    """
    def __init__(self, name: str, entry: int, library: str, image: str, mutant: str, layers: str, seed: int, child_command: collections.abc.Sequence[str]) -> None:
        ...
class Session:
    """
    An open driver; RuntimeError with its text when it does not open.
    """
    def __init__(self, target: Target, options: collections.abc.Mapping[str, str]) -> None:
        ...
    def about(self) -> dict[str, typing.Any]:
        """
        name, version, abi, build_id, groups as the driver tells them.
        """
    def close(self) -> None:
        """
        The end of the driver; RuntimeError when it refuses.
        """
    def run(self, id: str) -> dict[str, typing.Any]:
        """
        outcome, text, where, statements, checks, seconds of one case, run without Python's lock.
        """
def cases() -> list[dict[str, typing.Any]]:
    """
    All cases in their order.
    """
def default_options(driver: str) -> dict[str, str]:
    """
    What a built-in driver is opened with unless asked otherwise: several small devices.
    """
def groups() -> dict[str, int]:
    """
    The groups and the level of each.
    """
def mutants() -> list[dict[str, typing.Any]]:
    """
    All mutants by name.
    """
def run_child(target: Target, options: collections.abc.Mapping[str, str], name: str) -> int:
    """
    The second process of a case; returns its exit code.
    """
