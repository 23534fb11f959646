"""Generates a kernel for a fused group of nodes: a thread computes an element, and a block or a thread a row."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import sympy  # type: ignore[import-untyped]
import torch
from torch._inductor.codegen.common import CSEVariable, DeferredLine, PythonPrinter
from torch._inductor.codegen.simd import SIMDKernel
from torch._inductor.runtime.hints import ReductionHint
from torch._inductor.utils import IndentedBuffer
from torch._inductor.virtualized import V
from torch.utils._ordered_set import OrderedSet
from torch.utils._sympy.symbol import SymT, symbol_is_type

from .device_expressions import IndexPrinter
from .device_operations import DeviceOperations
from .device_types import STORED, computed, literal, type_of

# Placeholder of the function's name, which is known when the text is.
FUNCTION = "generated_function"
ARGUMENTS = "GeneratedArguments"

_SHORT_ROW = 32  # elements that one thread reduces faster than the threads of a block agree
_MANY_ROWS = 256  # rows that keep a device busy with a thread each

# The reducer of reduce.cuh for each kind of reduction, and the members that are its results.
_REDUCERS = {
    "sum": ("SumOf", ["total"]),
    "prod": ("ProductOf", ["total"]),
    "xor_sum": ("ExclusiveOrOf", ["total"]),
    "any": ("AnyOf", ["found"]),
    "max": ("MaximumOf", ["value"]),
    "min": ("MinimumOf", ["value"]),
    "argmax": ("MaximumOf", ["place"]),
    "argmin": ("MinimumOf", ["place"]),
    "welford_reduce": ("VarianceOf", ["mean", "squares", "count"]),
    "welford_combine": ("VarianceOf", ["mean", "squares", "count"]),
}


def _rows_by_threads(features: Any) -> bool:
    """Whether a thread reduces each row: rows are short, or neighbouring threads read neighbouring elements."""
    sizes: Any = V.graph.sizevars
    elements, rows = (sizes.optimization_hint(one, fallback=4096) for one in (features.reduction_numel, features.numel))
    if elements <= _SHORT_ROW:
        return True
    return bool(rows >= _MANY_ROWS and features.get_reduction_hint() == ReductionHint.OUTER)


def _is_number(name: str) -> bool:
    """Whether a buffer is a tensor of the CPU. It has one element, which a launch passes as a number."""
    buffer = V.graph.try_get_buffer(name)
    device = None if buffer is None else buffer.get_device()
    return device is not None and device.type == "cpu"


class DeviceKernel(SIMDKernel[CSEVariable]):
    """The text of one kernel in the language of tb-ops' device kernels.

    A reduction reads its row in a loop. Operations on its results come behind the loop, in each thread of the block.
    What reads the row again is a loop of its own.
    """

    overrides = DeviceOperations
    suffix = ";"
    newvar_prefix = "const auto "
    pexpr = PythonPrinter().doprint
    sexpr = IndexPrinter().doprint
    kexpr = sexpr

    def __init__(self, tiling: dict[str, sympy.Expr], **keywords: Any) -> None:
        base: Any = super()
        base.__init__(tiling, **keywords)
        self.synchronizing = self.features.is_reduction() and not _rows_by_threads(self.features)
        self.headers = OrderedSet(["fused.cuh"])
        self.states = IndentedBuffer()  # before the loop
        self.loop_indexing = IndentedBuffer()
        self.after_loop = IndentedBuffer()
        self.kept: OrderedSet[CSEVariable] = OrderedSet()  # variables that live outside of the loops
        self.state_numbers = itertools.count()

    # ---- what SIMDKernel asks for ----------------------------------------------------------------------------------

    def dtype_to_str(self, dtype: torch.dtype) -> str:
        return STORED[dtype]

    def create_cse_var(self, *arguments: Any, **keywords: Any) -> CSEVariable:
        variable: Any = super().create_cse_var(*arguments, **keywords)
        if not self.inside_reduction:
            self.kept.add(variable)
        return variable  # type: ignore[no-any-return]

    def codegen_iteration_ranges_entry(self, entry: Any) -> None:
        buffer = self.loop_indexing if entry.is_reduction else self.indexing_code
        buffer.writeline(f"const {self.index_dtype} {entry.name} = {self.kexpr(self.rename_indexing(entry.expr))};")

    def _place(self, pointer: str, index: sympy.Expr) -> str:
        return f"a.{pointer}[{self.index_to_str(self.prepare_indexing(index))}]"

    def load(self, name: str, index: sympy.Expr) -> CSEVariable:
        stored, argument = V.graph.get_dtype(name), self.args.input(name)
        if _is_number(name):
            return self.cse.generate(self.loads, f"convert<{type_of(stored)}>({argument})", dtype=computed(stored))
        place = self._place(argument, index)
        text = place if computed(stored) == stored else f"convert<{type_of(stored)}>({place})"
        return self.cse.generate(self.loads, text, dtype=computed(stored))

    def store(self, name: str, index: sympy.Expr, value: CSEVariable, mode: Any = None) -> None:
        place = self._place(self.args.output(name), index)
        stored = f"convert<{STORED[V.graph.get_dtype(name)]}>({value})"
        if mode not in (None, "atomic_add"):
            raise NotImplementedError(f"a store with the mode {mode}, which tb's kernels do not have")
        line = f"{place} = {stored};" if mode is None else f"atomic_add(&{place}, {stored});"
        self.stores.writeline(DeferredLine(name, line if self.inside_reduction else self._once(line)))

    def store_reduction(self, name: str, index: sympy.Expr, value: CSEVariable) -> None:
        place = self._place(self.args.output(name), index)
        line = f"{place} = convert<{STORED[V.graph.get_dtype(name)]}>({value});"
        self.after_loop.writeline(DeferredLine(name, self._once(line)))

    def _once(self, line: str) -> str:
        """The line, for one thread of a block whose threads have the same values."""
        return f"if (threadIdx.x == 0) {line}" if self.synchronizing else line

    def reduction(self, dtype: torch.dtype, src_dtype: torch.dtype, reduction_type: Any, value: Any) -> Any:
        key = (src_dtype, reduction_type, value)
        if key not in self.cse.reduction_cache:
            results: Any = self._reduction(dtype, src_dtype, reduction_type, value)
            self.cse.reduction_cache[key] = results
        return self.cse.reduction_cache[key]

    def _reduction(self, dtype: torch.dtype, src_dtype: torch.dtype, kind: str, value: Any) -> Any:
        if kind not in _REDUCERS:
            raise NotImplementedError(f"the reduction {kind}, which tb's kernels do not have")
        self.headers.add("fused_reduce.cuh")
        (reducer, members), state = _REDUCERS[kind], f"state{next(self.state_numbers)}"
        stored = STORED[src_dtype]
        self.states.writeline(f"auto {state} = begin_reduction<{reducer}<{stored}>>();")
        if kind == "welford_combine":
            self.compute.writeline(f"{state}.merge(moments<{stored}>({', '.join(map(str, value))}));")
        else:
            place = "r0_index"
            if isinstance(value, Sequence):  # with the place that the user's view gives it
                value, place = value
            self.compute.writeline(f"{state}.add(static_cast<Math<{stored}>>({value}), {place});")
        if self.synchronizing:
            self.after_loop.writeline(f"merge_block({state});")
        results = tuple(self._result(f"{state}.{member}", dtype) for member in members)
        return results if len(results) > 1 else results[0]

    def _result(self, member: str, dtype: torch.dtype) -> CSEVariable:
        result = self.cse.generate(self.after_loop, f"static_cast<{type_of(dtype)}>({member})", dtype=computed(dtype))
        self.kept.add(result)
        return result

    def masked(self, mask: CSEVariable, body: Any, other: Any) -> CSEVariable:
        """The body's value where the mask is true. Nothing of it is read elsewhere."""
        inside = IndentedBuffer()
        with self.swap_buffers(inside):
            value = body()
        result = self.cse.newvar(dtype=value.dtype)
        self.compute.writeline(f"{type_of(value.dtype)} {result} = {literal(other, value.dtype)};")
        self.compute.writeline(f"if ({mask}) {{")
        with self.compute.indent():
            self.compute.splice(inside)
            self.compute.writeline(f"{result} = {value};")
        self.compute.writeline("}")
        return result

    def check_bounds(self, expr: sympy.Expr, size: sympy.Expr, lower: bool, upper: bool) -> None:
        if lower or upper:
            index, limit = self.index_to_str(expr), self.index_to_str(size)
            self.cse.generate(self.compute, f"if (!in_range({index}, {limit})) continue", assignment=False)

    def device_assert_async(self, cond: CSEVariable, msg: str) -> None:
        text = msg.replace("\\", "\\\\").replace('"', '\\"').replace("\n", " ")
        self.compute.writeline(f'require({cond}, "{text}");')

    # ---- the text --------------------------------------------------------------------------------------------------

    def codegen_body(self) -> None:
        """Writes what was collected since the last call, as a loop if it reads the row."""
        parts = [self.loads, self.compute, self.stores]
        if not any([*parts, self.states, self.after_loop]):
            return
        if self.inside_reduction:
            first, step = ("threadIdx.x", "blockDim.x") if self.synchronizing else ("0", "1")
            self.body.splice(self.states)
            self.body.writeline(f"for (Long r0_place = {first}; r0_place < r0_numel; r0_place += {step}) {{")
            with self.body.indent():
                self.body.writeline(f"const {self.index_dtype} r0_index = static_cast<{self.index_dtype}>(r0_place);")
                for part in [self.loop_indexing, *parts]:
                    self.body.splice(part)
            self.body.writeline("}")
            self.body.splice(self.after_loop)
            self.cse.invalidate(self.kept)
            rows: Any = self.range_trees[-1]
            rows.cache_clear()
        else:
            for part in parts:
                self.body.splice(part)
        for part in [*parts, self.states, self.loop_indexing, self.after_loop]:
            part.clear()

    def codegen_kernel(self, name: str | None = None) -> str:
        self.codegen_body()
        numels = [
            f"const Long {tree.prefix}numel = {self.kexpr(self.rename_indexing(tree.numel))};"
            for tree in self.range_trees
        ]
        code = IndentedBuffer()
        for header in self.headers:
            code.writeline(f'#include "{header}"')
        code.writelines(["namespace tb::kernels {", f"struct {ARGUMENTS} {{"])
        with code.indent():
            for _, inner, declared, _ in self._fields():
                code.writeline(f"{declared}{inner};")
        code.writelines(["};", f"__device__ inline void {FUNCTION}(const {ARGUMENTS} &a) {{"])
        with code.indent():
            for _, inner, _, kind in self._fields():
                if kind != "pointer":
                    value = f"a.{inner}" if kind == "integer" else f"number_of<IndexReal>(a.{inner})"
                    code.writeline(f"const auto {inner} = {value};")
            code.writelines(numels)
            first, step = ("blockIdx.x", "gridDim.x") if self.synchronizing else ("first_element()", "all_threads()")
            code.writeline(f"for (Long xplace = {first}; xplace < xnumel; xplace += {step}) {{")
            with code.indent():
                code.writeline(f"const {self.index_dtype} xindex = static_cast<{self.index_dtype}>(xplace);")
                code.splice(self.indexing_code)
                code.splice(self.body)
            code.writeline("}")
        code.writelines(["}", "} // namespace tb::kernels"])
        return code.getvalue()

    def _fields(self) -> list[tuple[Any, str, str, str]]:
        """What is passed for each field of the struct, its name, declaration and kind. Pointers come first."""
        names, passed, _, types = self.args.python_argdefs()
        written = self.args.live_output_buffers()
        pointers, numbers = [], []
        for name, given, dtype in zip(names, passed, types, strict=True):
            if not isinstance(dtype, torch.dtype):
                is_real = isinstance(given, sympy.Symbol) and symbol_is_type(given, SymT.UNBACKED_FLOAT)
            elif _is_number(given):
                is_real = dtype.is_floating_point
            else:
                constant = "" if given in written else "const "
                pointers.append((given, name.name, f"{constant}{STORED[dtype]} *", "pointer"))
                continue
            numbers.append((given, name.name, *(("Real ", "float") if is_real else ("Long ", "integer"))))
        return pointers + numbers

    def types(self) -> list[str]:
        """The kind of each field of the struct, as GeneratedKernel takes them."""
        return [kind for *_, kind in self._fields()]

    def call_kernel(self, name: str, node: Any = None, deallocate_ws: bool = True) -> None:
        wrapper: Any = V.graph.wrapper_code
        passed = [given for given, *_ in self._fields()]
        arguments = [one if isinstance(one, str) else wrapper.codegen_python_sizevar(one) for one in passed]
        arguments.append(wrapper.codegen_python_sizevar(self.range_trees[0].numel))  # elements or rows
        wrapper.generate_kernel_call(name, arguments, triton=False, arg_types=[object] * len(arguments))
