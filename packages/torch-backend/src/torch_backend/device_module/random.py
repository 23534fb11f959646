"""torch.tb: random numbers, with the names of torch.cuda. Seeds set before the first use take effect at that use."""

from collections.abc import Iterable

import torch

from torch_backend import _state
from torch_backend.device_module.devices import Device, current_device, device_count, device_index


def default_generators() -> tuple[torch.Generator, ...]:
    """The default generator of each device."""
    _state.initialize()
    return tuple(_generator(number) for number in range(device_count()))


def _generator(number: int) -> torch.Generator:
    from torch_backend import _core

    return _core.default_generator(number)


def get_rng_state(device: Device = "tb") -> torch.Tensor:
    """The state of a device's generator: a CPU uint8 tensor of 16 bytes (seed, offset)."""
    return _generator(device_index(device)).get_state()


def get_rng_state_all() -> list[torch.Tensor]:
    """The state of every device's generator."""
    return [generator.get_state() for generator in default_generators()]


def set_rng_state(new_state: torch.Tensor, device: Device = "tb") -> None:
    """Restores what get_rng_state() returned. ValueError, TypeError: `new_state` is not such a state."""
    _generator(device_index(device)).set_state(new_state)


def set_rng_state_all(new_states: Iterable[torch.Tensor]) -> None:
    """Restores what get_rng_state_all() returned. ValueError, TypeError: an element is not such a state."""
    for number, state in enumerate(new_states):
        set_rng_state(state, number)


def _get_rng_state_offset(device: Device = "tb") -> int:
    """How far a device's generator is in its sequence; follows torch.cuda. DTensor calls it."""
    return _generator(device_index(device)).get_offset()


def _set_rng_state_offset(offset: int, device: Device = "tb") -> None:
    """Sets what _get_rng_state_offset() returns, and keeps the seed."""
    _generator(device_index(device)).set_offset(offset)


def manual_seed(seed: int) -> None:
    """Seeds the current device's generator. Does not need a device and does not initialize tb."""
    seed = int(seed)
    _state.call_when_initialized(lambda: _seed(current_device(), seed))


def manual_seed_all(seed: int) -> None:
    """Seeds every device's generator. Does not need a device and does not initialize tb. torch.manual_seed calls it."""
    seed = int(seed)
    _state.call_when_initialized(lambda: _seed_all(seed), replaces_earlier=True)


def _seed(number: int, seed: int) -> None:
    _generator(number).manual_seed(seed)


def _seed_all(seed: int) -> None:
    for number in range(device_count()):
        _seed(number, seed)


def seed() -> None:
    """Seeds the current device's generator with a random number. Does not need a device."""
    _state.call_when_initialized(_seed_randomly)


def seed_all() -> None:
    """Seeds every device's generator with one random number. Does not need a device."""
    _state.call_when_initialized(lambda: _seed_all(_seed_randomly()), replaces_earlier=True)


def _seed_randomly() -> int:
    return _generator(current_device()).seed()


def initial_seed() -> int:
    """The seed of the current device's generator."""
    return _generator(device_index()).initial_seed()
