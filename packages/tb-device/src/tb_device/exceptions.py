"""Exceptions of tb_device: one class for each status that a program may want to catch."""

from __future__ import annotations

from typing import ClassVar

from . import _core


class Error(RuntimeError):
    """A call to a driver, or to tb_device, that failed. str() says what was asked, what happened, and what to do.

    status: the tb_status number (tb/driver.h).
    driver, function: names, "" if none. device: -1 if none.
    native_code: the vendor's own error number, 0 if none.
    """

    STATUS: ClassVar[int] = 2  # what the class stands for; the base class also for every status without its own

    status: int
    driver: str
    function: str
    device: int
    native_code: int

    def __init__(
        self,
        text: str,
        *,
        status: int | None = None,
        driver: str = "",
        function: str = "",
        device: int = -1,
        native_code: int = 0,
    ) -> None:
        super().__init__(text)
        self.status = type(self).STATUS if status is None else status
        self.driver = driver
        self.function = function
        self.device = device
        self.native_code = native_code


class InvalidArgumentError(Error, ValueError):
    """Status 3: an argument that the call cannot take. Nothing was done."""

    STATUS = 3


class DeadlineExceededError(Error, TimeoutError):
    """Status 4: a wait that did not end in its time."""

    STATUS = 4


class NotFoundError(Error):
    """Status 5: no such driver, key, extension or address."""

    STATUS = 5


class AlreadyExistsError(Error):
    """Status 6: it exists already, such as another default driver."""

    STATUS = 6


class OutOfMemoryError(Error, MemoryError):
    """Status 8: the device, or the host for pinned memory, has too little memory. The driver stays usable."""

    STATUS = 8


class FailedPreconditionError(Error):
    """Status 9: not in this state, such as a forked child or a closed driver."""

    STATUS = 9


class OutOfRangeError(Error):
    """Status 11: no such device."""

    STATUS = 11


class UnsupportedError(Error, NotImplementedError):
    """Status 12: the driver does not offer the function."""

    STATUS = 12


class UnavailableError(Error):
    """Status 14: no usable driver, or no hardware."""

    STATUS = 14


class DeviceLostError(Error):
    """Status 33: the device needs a reset; its memory and streams are gone."""

    STATUS = 33


class AbiMismatchError(Error, ImportError):
    """Status 34: the library is no driver that this tb_device can use."""

    STATUS = 34


_classes: list[type[Error]] = [Error, *Error.__subclasses__()]
CLASS_OF_STATUS: dict[int, type[Error]] = {each.STATUS: each for each in _classes}


def exception(
    status: int, text: str = "", driver: str = "", function: str = "", device: int = -1, native_code: int = 0
) -> Error:
    """The exception for a failure of a driver or component, of the class that its status asks for.

    text: the driver's or component's own words; what was called and the status are put before it.
    """
    whole = _core.message(status, text, driver, function, device, native_code)
    return CLASS_OF_STATUS.get(status, Error)(
        whole, status=status, driver=driver, function=function, device=device, native_code=native_code
    )
