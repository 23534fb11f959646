from __future__ import annotations
import collections.abc
import torch
import typing
__all__: list[str] = ['Image', 'KernelCompiler', 'aclnn_executors', 'aclnn_library', 'add_image_pack', 'add_kernel_library', 'architecture', 'backends', 'checked_operators', 'close_budget', 'cuda_operators', 'fallback_mode', 'fallback_seconds', 'fallbacks', 'force_fallback', 'forced_fallbacks', 'generated_kernels_obstacle', 'host_accessible', 'image', 'image_parameter', 'initialize', 'kernel_defines', 'kernel_images', 'lacks', 'launch_image', 'launch_image_elements', 'layout_cached_operators', 'missing_compiler', 'native', 'open_budget', 'own_added_backends', 'release_fallback', 'reset_fallbacks', 'serve_by_image', 'serve_defined', 'set_added_backends', 'set_fallback_mode', 'set_kernel_folder', 'set_sync_debug_mode', 'sync_debug_mode', 'synchronous_operators', 'used_kernels', 'vendor_kernels']
class KernelCompiler:
    """
    A compiler of device kernels.
    """
    @staticmethod
    def named(name: str, architecture: str, shim: str) -> KernelCompiler:
        """
        "nvrtc", "host", or a command that gets `-o IMAGE SOURCE`, with a shim's file ("": CUDA's).
        """
    @staticmethod
    def of_device(device: int, architecture: str) -> KernelCompiler:
        """
        The one that serves the device; after initialize(). RuntimeError if none is known.
        """
    def begin_pack(self, folder: str, architecture: str) -> None:
        """
        Makes a pack's folder for the architecture. RuntimeError if it has images that another shim made.
        """
    def compile_into(self, folder: str, architecture: str, kernel: tuple[str, str, str, int, bool], defines: str) -> int:
        """
        Compiles a kernel into a pack that begin_pack() made, unless the pack has it, and returns the image's bytes. RuntimeError with the compiler's messages. Any thread may call this.
        """
class Image:
    """
    A kernel in an image of the driver's module_load (tb/image_kernel.h).
    """
def _connect() -> None:
    ...
def _record_call_sites(offsets: tuple[int, int, int, int, int], namer: collections.abc.Callable[[list[tuple[int, int]]], str]) -> None:
    """
    Launches record their place in Python from now on; namer(frames) names it when one has failed.
    """
def _set_origin_finder(finder: collections.abc.Callable[[], tuple[str, list[str]]]) -> None:
    """
    finder() -> (place, stack) says where Python is, on the thread that asks.
    """
def _set_warning_reporter(reporter: collections.abc.Callable[[list[tuple[str, bool, list[tuple[int, int]], int]], int], tuple[BaseException | None, list[int]]]) -> None:
    """
    reporter(warnings, dropped) hands the warnings of kernels to Python, as tb_ops._late_warnings.report does.
    """
def aclnn_executors() -> tuple[int, int, int, int, int]:
    """
    Calls that used an executor again, those that found none, executors dropped for want of room, kept now, room.
    """
def aclnn_library() -> tuple[str, str, int, list[str]]:
    """
    The library of operators in two phases ("": none), why there is none, how many operators of PyTorch it runs, and those whose function it lacks.
    """
def add_image_pack(folder: str) -> None:
    """
    Names a pack of images; before initialize(), which reads it.
    """
def add_kernel_library(path: str) -> None:
    """
    Names a library of a vendor's kernels (tb/kernels.h), which initialize() opens.
    """
def architecture(device: int) -> str:
    """
    The device's architecture; after initialize().
    """
def backends() -> list[tuple[str, bool, str, str, str]]:
    """
    (name, whether it serves the open driver, what its operators are, which drivers it serves, where it is from) of every set of operators, in the order in which they register. Empty before initialize().
    """
def checked_operators() -> list[tuple[str, str]]:
    """
    (operator, when) of native operators that check on the host and wait for that; in all calls where it is empty.
    """
def close_budget(number: int) -> str:
    """
    The first refusal's text; empty when there was none.
    """
def cuda_operators() -> tuple[bool, str, int, int]:
    """
    Whether PyTorch's own CUDA kernels run the operators, why not ("": they do), and how many new results, of how many bytes in all, were copied from memory of its allocator.
    """
def fallback_mode() -> str:
    ...
def fallback_seconds() -> float:
    """
    Seconds since the fallback statistics were reset, or since the start.
    """
def fallbacks() -> list[tuple[str, int, float, int, int, str, tuple[str, ...], float]]:
    """
    (operator, calls, seconds, bytes, forced calls, first place, first stack, loading seconds), most time first.
    """
def force_fallback(name: str, overload: str) -> None:
    """
    The CPU runs the operator until released.
    """
def forced_fallbacks() -> list[str]:
    """
    The operators that are forced now.
    """
def generated_kernels_obstacle() -> str:
    """
    Why the open driver's devices do not run kernels that tb-compile generates; "" if they do.
    """
def host_accessible() -> bool:
    """
    True when the host may touch the device's memory: fallbacks then work in place, without copies.
    """
def image(image: bytes, entry: str) -> Image:
    """
    Loaded on a device when it first runs there.
    """
def image_parameter(tensor: torch.Tensor | None) -> bytes:
    """
    The bytes of a parameter that is a tensor, or an absent one.
    """
def initialize() -> None:
    """
    Opens the driver and registers the kernels that fit it. Once; cheap after that.
    """
def kernel_defines(float64: bool, fma: bool) -> str:
    """
    The lines before a kernel's text for a device that has these or lacks them.
    """
def kernel_images() -> tuple[int, int, str, int]:
    """
    Device kernels that this process compiled, those that it found in the cache, the cache's folder, and those of packs.
    """
def lacks(device: int) -> list[str]:
    """
    What a device's kernels do without (TB_LACKS_* of tb/driver.h); after initialize().
    """
def launch_image(image: Image, device: int, grid: tuple[int, int, int], block: tuple[int, int, int], shared_memory: int, parameters: collections.abc.Sequence[bytes]) -> None:
    """
    Queues a launch on the device's current stream. Each parameter is its bytes.
    """
def launch_image_elements(image: Image, device: int, elements: int, block: int, parameters: collections.abc.Sequence[bytes]) -> None:
    """
    Queues a thread for each element, in blocks of at most `block` threads.
    """
def layout_cached_operators() -> list[str]:
    """
    Native operators that wait at the first call with new shapes.
    """
def missing_compiler() -> str:
    """
    Why tb-ops' kernels do not run although the open driver loads modules, and what to do; "" if they do.
    """
def native() -> bool:
    """
    True when the driver runs the native kernels, False when every operator goes through the fallback.
    """
def open_budget(calls: int) -> int:
    """
    Allows that many fallbacks until it is closed; its number.
    """
def own_added_backends() -> list[tuple[typing.Any, str]]:
    """
    The tables of this package for set_added_backends().
    """
def release_fallback(name: str, overload: str) -> None:
    """
    Undoes one force_fallback.
    """
def reset_fallbacks() -> None:
    """
    Empties the fallback statistics.
    """
def serve_by_image(image: Image, operation: str, source: str, dtypes: int, block: int) -> None:
    """
    The image serves an operator, by its overload with out=, for tensors of these dtypes (bits of TB_DTYPE_BIT).
    """
def serve_defined(operation: str, entry: str) -> None:
    """
    Registers the kernels of the tables' entries of an operator, whose declaration names one of them. RuntimeError, here or at the first use of the device, if that is an entry of another operation.
    """
def set_added_backends(backends: list[tuple[typing.Any, str]]) -> None:
    """
    Sets the tables by tb/operator_backend.h, each in its capsule and with the name of where it is from. They come to their places among the sets of operators of backends.cpp.
    """
def set_fallback_mode(mode: str) -> None:
    """
    allow, warn (once per operator) or error.
    """
def set_kernel_folder(folder: str) -> None:
    """
    Where the sources of device kernels are installed; before the first of them runs.
    """
def set_sync_debug_mode(mode: int) -> None:
    """
    0: nothing, 1: warn when an operator waits for the device, 2: raise instead.
    """
def sync_debug_mode() -> int:
    """
    The mode that set_sync_debug_mode() set last: 0, 1 or 2.
    """
def synchronous_operators() -> list[tuple[str, str]]:
    """
    (operator, reason) of native operators that wait for the device.
    """
def used_kernels() -> list[tuple[str, str, str, int, bool]]:
    """
    (header, function, argument struct, threads, whether it synchronizes) of each kernel that this process has used.
    """
def vendor_kernels() -> list[tuple[str, str, str, int, dict[str, int], str]]:
    """
    (name, operation, where it is from, calls that it ran, calls that it left to others by reason, why it serves nothing or "") of each entry of the vendor's tables.
    """
_tb_export: typing.Any
