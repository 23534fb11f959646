"""The device ABI as data: its slots and rules, its layout, its reference page. tools/checks/abi.py is the command."""


class AbiError(Exception):
    """A promise of the ABI that does not hold; the text says which and what to do."""
