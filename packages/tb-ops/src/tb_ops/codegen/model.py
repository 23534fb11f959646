"""The model of an operator that every emitter uses: a schema, and the C++ that declares its kernels."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from torchgen.model import FunctionSchema, NativeFunction


@dataclass(frozen=True)
class Argument:
    """One argument of a kernel."""

    name: str
    schema_type: str
    """The type in the schema, without annotation and default: "Tensor", "Tensor?", "int[]"."""
    type: str
    """C++ type of the kernel's parameter, "const at::Tensor &"; a SymInt is an int64_t."""
    symbolic_type: str
    """The same, but a SymInt is a c10::SymInt."""
    written: bool
    """Whether the schema says that it is written: an in-place or out= tensor."""

    @property
    def is_tensor(self) -> bool:
        return self.schema_type == "Tensor"

    @property
    def is_optional_tensor(self) -> bool:
        return self.schema_type == "Tensor?"


@dataclass(frozen=True)
class Operator:
    """One overload of an operator: aten's or a custom one."""

    schema: FunctionSchema
    arguments: list[Argument]
    """The arguments in the order of the kernel's parameters. The outputs of out= schemas are last."""
    returned: str
    """C++ type that a kernel returns."""

    @classmethod
    def of_aten(cls, function: NativeFunction) -> Operator:
        from torchgen.context import native_function_manager

        with native_function_manager(function):
            return cls._of_schema(function.func)

    @classmethod
    def of_text(cls, schema: str) -> Operator:
        """The operator of a schema as in native_functions.yaml: "scale(Tensor x, float by) -> Tensor".

        Raises:
            Exception: the text is no schema. torchgen raises AssertionError or RuntimeError most of the time.
        """
        from torchgen import local
        from torchgen.model import FunctionSchema

        with local.parametrize(use_const_ref_for_mutable_tensors=False, use_ilistref_for_tensor_lists=False):
            return cls._of_schema(FunctionSchema.parse(schema))

    @classmethod
    def _of_schema(cls, schema: FunctionSchema) -> Operator:
        from torchgen.api.types import NativeSignature

        plain = NativeSignature(schema, prefix="", symint=False)
        symbolic = NativeSignature(schema, prefix="", symint=True)
        declared = {a.name: a for a in schema.arguments.flat_all}
        arguments = [
            Argument(
                name=each.name,
                schema_type=str(declared[each.name].type),
                type=str(each.type),
                symbolic_type=str(wider.type),
                written=declared[each.name].is_write,
            )
            for each, wider in zip(plain.arguments(), symbolic.arguments(), strict=True)
        ]
        return cls(schema, arguments, str(plain.returns_type().cpp_type()))

    @property
    def name(self) -> str:
        """The name with the overload and without the namespace: "add.Tensor"."""
        return str(self.schema.name)

    @property
    def symbol(self) -> str:
        """The name as part of a C++ identifier, unique among all overloads: "add_Tensor"."""
        return self.name.replace(".", "_")

    def definition(self, name: str, *, symbolic: bool = False) -> str:
        """C++ head of a kernel: "at::Tensor NAME(const at::Tensor & self)"."""
        return f"{self.returned} {name}({self.parameters(symbolic=symbolic)})"

    def parameters(self, *, symbolic: bool = False) -> str:
        return ", ".join(f"{a.symbolic_type if symbolic else a.type} {a.name}" for a in self.arguments)
