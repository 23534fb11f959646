"""Reads a YAML of custom operators. Errors name the place, what is there and what may be there."""

from __future__ import annotations

import pathlib
import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from .. import schema
from ..model import Argument, Operator
from . import expression

TOP = {"library": True, "module": True, "headers": True, "operators": True}
OPERATOR = {"schema": True, "kernel": True, "outputs": False, "checks": False, "gradients": False}
IMAGE = {"image": True, "entry": True, "dtypes": False, "block": False, "host": False}
TABLE = {"table": True, "host": False}
# What an image can be of (tb_ops.image_kernels), and the types of its parameters (tb/image_kernel.h).
IMAGE_DTYPES = (
    *("bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"),
    *("complex64", "complex128"),
)
IMAGE_TYPES = (
    *("Tensor", "Tensor?", "int", "int?", "SymInt", "float", "float?", "bool", "bool?"),
    *("Scalar", "Scalar?", "ScalarType", "ScalarType?"),
)
FUNCTION = r"(::)?[A-Za-z_]\w*(::[A-Za-z_]\w*)*"
# The types that an argument may have, which are those that launch() can carry to the worker.
TYPES = (
    *("Tensor", "Tensor?", "Tensor[]", "int", "int?", "SymInt", "float", "float?", "bool", "bool?", "str", "str?"),
    *("Scalar", "Scalar?", "ScalarType", "ScalarType?", "int[]", "int[]?", "float[]", "float[]?", "SymInt[]"),
)

# The types that a formula may use besides tensors, and the C++ types in which autograd's node keeps them.
KEPT = {
    "int": "int64_t",
    "SymInt": "c10::SymInt",
    "float": "double",
    "bool": "bool",
    "Scalar": "at::Scalar",
    "ScalarType": "at::ScalarType",
    "str": "std::string",
    "int[]": "std::vector<int64_t>",
    "float[]": "std::vector<double>",
    "int?": "std::optional<int64_t>",
    "float?": "std::optional<double>",
    "bool?": "std::optional<bool>",
    "Scalar?": "std::optional<at::Scalar>",
    "ScalarType?": "std::optional<at::ScalarType>",
}
# Names that the generated code or C++ uses itself.
RESERVED = (
    *(
        "below_autograd",
        "device",
        "found",
        "given",
        "gradients",
        "grads",
        "made",
        "name",
        "node",
        "op",
        "self",
        "state",
        "wanted",
    ),
    *("at", "bool", "c10", "case", "char", "class", "const", "default", "delete", "double", "enum", "float", "goto"),
    *("int", "long", "namespace", "new", "operator", "private", "public", "register", "short", "signed", "static"),
    *("std", "switch", "tb", "template", "this", "torch", "typename", "union", "unsigned", "using", "virtual", "void"),
)


class DeclarationError(ValueError):
    """The file is wrong. The text names the file, the line, the entry, what is wrong and what to write instead."""


@dataclass(frozen=True)
class Output:
    """The shape rule of one output. Exactly one of like, broadcast and sizes is set."""

    name: str
    like: str | None
    broadcast: list[str]
    sizes: list[str] | None
    dtype: str
    """An argument's name, a key of expression.DTYPES, or "promoted"."""


@dataclass(frozen=True)
class DeviceKernel:
    """A kernel that a tb device has itself: one of an image, or an entry of a table (tb/kernels.h)."""

    image: str
    """The image's file, beside the extension module; "" for an entry of a table."""
    entry: str
    dtypes: list[str]
    """What the tensors of a call of an image must be of: names of torch."""
    block: int
    """The most threads of an image's block."""

    @property
    def description(self) -> str:
        where = f"of the image {self.image}" if self.image else "of a table (tb/kernels.h)"
        return f"the kernel {self.entry} {where}"


@dataclass(frozen=True)
class CustomOperator:
    """One entry of the file."""

    operator: Operator
    kernel: str
    """The C++ function that runs on the host; "" if there is none, which only an operator with device_kernel may."""
    device_kernel: DeviceKernel | None
    outputs: list[Output]
    checks: list[tuple[str, str]]
    """Conditions that must hold, each with the text of the error."""
    gradients: dict[tuple[str, ...], str | None] | None
    """The formulas by the arguments whose gradients they compute; None for no gradient. Unset if not differentiable."""

    @property
    def arguments(self) -> dict[str, Argument]:
        return {a.name: a for a in self.operator.arguments}


@dataclass(frozen=True)
class Declaration:
    """A whole file."""

    source: str
    library: str
    module: str
    headers: list[str]
    operators: list[CustomOperator]


def read(path: pathlib.Path) -> Declaration:
    """The operators that the file declares.

    Raises:
        DeclarationError: the file is missing, is no YAML, or has something that is not understood.
        ModuleNotFoundError: PyYAML is not installed.
    """
    try:
        import yaml
    except ModuleNotFoundError as error:
        raise ModuleNotFoundError("reading operators needs PyYAML: pip install pyyaml", name="yaml") from error
    try:
        text = path.read_text(encoding="utf-8")
        given, node = yaml.safe_load(text), yaml.compose(text)
    except (OSError, UnicodeDecodeError, yaml.YAMLError) as error:
        raise DeclarationError(f"{path}: cannot be read: {error}") from error
    place = str(path)
    _keys(place, given, TOP, "library, module, headers and operators")
    library = _text(f"{place}: library", given["library"], r"[a-z_][a-z0-9_]*", "a name for torch.ops, such as mychip")
    module = _text(f"{place}: module", given["module"], r"[A-Za-z_]\w*", "the extension module's name, such as _core")
    headers = _list(f"{place}: headers", given["headers"], "the headers that declare the kernels")
    entries = _list(f"{place}: operators", given["operators"], "entries with a schema and a kernel")
    lines = [item.start_mark.line + 1 for key, value in node.value if key.value == "operators" for item in value.value]
    operators = [_operator(f"{place}:{line}", entry) for line, entry in zip(lines, entries, strict=True)]
    names = [each.operator.name for each in operators]
    for each in operators:
        if names.count(each.operator.name) > 1:
            raise DeclarationError(f"{place}: operator {each.operator.name!r} is declared twice: give it an overload")
    _check_calls(place, operators)
    return Declaration(path.name, library, module, [str(h) for h in headers], operators)


def _check_calls(place: str, operators: list[CustomOperator]) -> None:
    own = {custom.operator.name for custom in operators}
    for custom in operators:
        formulas = [text for text in (custom.gradients or {}).values() if text is not None]
        for name in sorted({name for text in formulas for name in expression.functions_in(text)} - own):
            if name not in schema.function_names(schema.native_directory()):
                raise DeclarationError(
                    f"{place}: operator {custom.operator.name!r}: gradients: {name!r} is called, but neither this file "
                    "nor PyTorch has such an operator: declare it, or correct the name"
                )


def _operator(place: str, entry: Any) -> CustomOperator:
    _keys(place, entry, OPERATOR, "schema and kernel, and perhaps outputs, checks, gradients")
    given = _text(f"{place}: schema", entry["schema"], r".+\(.*\) *-> *.+", '"name(Tensor x, float y=1.0) -> Tensor"')
    try:
        operator = Operator.of_text(given)
    except Exception as error:  # torchgen's parser asserts
        raise DeclarationError(f"{place}: PyTorch cannot read the schema {given!r}: {error}") from error
    place = f"{place}: operator {operator.name!r}"
    _check_schema(place, operator)
    kernel, device_kernel = _kernel(f"{place}: kernel", operator, entry["kernel"])
    result = CustomOperator(
        operator, kernel, device_kernel, _outputs(place, operator, entry.get("outputs", [])), [], None
    )
    for i, check in enumerate(_list(f"{place}: checks", entry.get("checks", []), "conditions with their error texts")):
        where = f"{place}: checks[{i}]"
        if not isinstance(check, dict) or len(check) != 1:
            raise DeclarationError(f"{where} is {check!r}; write CONDITION: TEXT OF THE ERROR")
        [(condition, text)] = check.items()
        _checked(where, expression.rule, str(condition), result.arguments)
        result.checks.append((str(condition), str(text)))
    return replace(result, gradients=_gradients(place, result, entry))


def _kernel(place: str, operator: Operator, given: Any) -> tuple[str, DeviceKernel | None]:
    """The host's function, and the device's kernel."""
    wanted = "a C++ function's name, {image: FILE, entry: NAME} or {table: NAME}"
    if not isinstance(given, dict):
        return _text(place, given, FUNCTION, wanted), None
    is_image = "image" in given
    _keys(place, given, IMAGE if is_image else TABLE, wanted)
    host = _text(f"{place}: host", given["host"], FUNCTION, "a C++ function's name") if "host" in given else ""
    if not operator.schema.returns:
        raise DeclarationError(f"{place}: kernels of the device write new tensors: return them, or name a C++ function")
    if not is_image:
        return host, DeviceKernel("", _text(f"{place}: table", given["table"], r"\S+", "an entry's name"), [], 0)
    file = _text(f"{place}: image", given["image"], r"[^/].*", "a file beside the extension module")
    name = _text(f"{place}: entry", given["entry"], r"\S+", "the kernel's name in the image")
    for argument in operator.arguments:
        if plain_type(argument) not in IMAGE_TYPES:
            raise DeclarationError(
                f"{place}: argument {argument.name!r} is of type {argument.schema_type}, which no kernel of an image "
                f"takes. Take one of {', '.join(IMAGE_TYPES)}, or an entry of a table"
            )
    dtypes = [str(each) for each in _list(f"{place}: dtypes", given.get("dtypes", ["float32"]), "names of dtypes")]
    for each in dtypes:
        if each not in IMAGE_DTYPES:
            raise DeclarationError(f"{place}: dtype {each!r} is unknown: take some of {', '.join(IMAGE_DTYPES)}")
    block = given.get("block", 256)
    if not isinstance(block, int) or block < 1:
        raise DeclarationError(f"{place}: block is {block!r}; write a number of threads")
    return host, DeviceKernel(file, name, dtypes, block)


def _check_schema(place: str, operator: Operator) -> None:
    for argument in operator.arguments:
        if plain_type(argument) not in TYPES:
            raise DeclarationError(
                f"{place}: argument {argument.name!r} is of type {argument.schema_type}, for which no call can be "
                f"queued. Take one of {', '.join(TYPES)}"
            )
        if argument.written and not argument.is_tensor:
            raise DeclarationError(f"{place}: {argument.name!r} is written, which only arguments of type Tensor can be")
    for name in (*(a.name for a in operator.arguments), *(r.name for r in operator.schema.returns)):
        if name in RESERVED:
            raise DeclarationError(f"{place}: the generated code cannot call anything {name!r}: take another name")
    if any(str(r.type) != "Tensor" or r.annotation is not None for r in operator.schema.returns):
        raise DeclarationError(
            f"{place}: it must return new tensors, or () when it writes an argument declared Tensor(a!); "
            "the result of a queued call is neither a number nor an argument"
        )
    if not any(a.is_tensor for a in operator.arguments):
        raise DeclarationError(f"{place}: it needs an argument of type Tensor, whose device it runs on")
    if not operator.schema.returns and not any(a.written for a in operator.arguments):
        raise DeclarationError(
            f"{place}: it returns nothing and writes nothing: return a Tensor, or declare Tensor(a!)"
        )


def _outputs(place: str, operator: Operator, given: Any) -> list[Output]:
    names = [r.name for r in operator.schema.returns]
    default = ["result"] if len(names) == 1 else [f"result{i}" for i in range(len(names))]
    rules = _list(f"{place}: outputs", given, "one shape rule for each tensor returned")
    if len(rules) != len(names):
        raise DeclarationError(f"{place}: it returns {len(names)} tensors, but outputs has {len(rules)} shape rules")
    taken = [name or other for name, other in zip(names, default, strict=True)]
    return [_output(f"{place}: outputs[{i}]", operator, name, rules[i]) for i, name in enumerate(taken)]


def _output(place: str, operator: Operator, name: str, given: Any) -> Output:
    kinds = "{like: TENSOR}, {broadcast: [TENSOR, ...]} or {sizes: [SIZE, ...], dtype: TYPE}"
    if not isinstance(given, dict) or len({"like", "broadcast", "sizes"} & given.keys()) != 1:
        raise DeclarationError(f"{place} is {given!r}; a shape rule is {kinds}")
    _keys(place, given, {"like": False, "broadcast": False, "sizes": False, "dtype": "sizes" in given}, kinds)
    tensors = [a.name for a in operator.arguments if a.is_tensor]

    def tensor(value: Any, what: str) -> str:
        if value not in tensors:
            raise DeclarationError(f"{place}: {what} {value!r} is no Tensor argument: take {', '.join(tensors)}")
        return str(value)

    like = tensor(given["like"], "like") if "like" in given else None
    broadcast = [tensor(each, "broadcast") for each in _list(place, given.get("broadcast", []), kinds)]
    sizes = None
    if "sizes" in given:
        sizes = [str(size) for size in _list(place, given["sizes"], kinds)]
        for size in sizes:
            _checked(place, expression.rule, size, {a.name: a for a in operator.arguments})
    dtype = str(given.get("dtype", like or "promoted"))
    if dtype not in (*tensors, *expression.DTYPES, "promoted"):
        raise DeclarationError(
            f"{place}: dtype {dtype!r} is unknown: take a tensor's name ({', '.join(tensors)}), promoted, or one of "
            f"{', '.join(expression.DTYPES)}"
        )
    return Output(name, like, broadcast, sizes, dtype)


def _gradients(place: str, custom: CustomOperator, entry: Any) -> dict[tuple[str, ...], str | None] | None:
    given = entry.get("gradients")
    if given is None:
        return None
    place = f"{place}: gradients"
    differentiable = [a.name for a in custom.operator.arguments if a.is_tensor or a.is_optional_tensor]
    if not isinstance(given, dict):
        raise DeclarationError(f"{place} is {given!r}; write ARGUMENT: FORMULA for {', '.join(differentiable)}")
    for argument in custom.operator.arguments:
        if argument.schema_type == "Tensor[]" or argument.written:
            raise DeclarationError(
                f"{place}: argument {argument.name!r} is a list or written in place, for which no gradients are "
                "generated. Leave gradients out, or register an autograd function by hand"
            )
    for name in gradient_names(custom):
        if name in custom.arguments:
            raise DeclarationError(f"{place}: {name!r} is the gradient of the output: rename that argument")
    formulas: dict[tuple[str, ...], str | None] = {}
    for key, value in given.items():
        formulas[tuple(name.strip() for name in str(key).split(","))] = None if value is None else str(value)
    named = [name for names in formulas for name in names]
    if sorted(named) != sorted(differentiable):
        raise DeclarationError(
            f"{place} are given for {', '.join(named) or 'nothing'}, but the tensors are {', '.join(differentiable)}: "
            "each needs a formula, or null where there is no gradient"
        )
    for text in formulas.values():
        if text is not None:
            _checked(place, expression.formula, text, variables(custom), lambda name: name)
            for argument in custom.operator.arguments:
                kept = argument.is_tensor or argument.is_optional_tensor or plain_type(argument) in KEPT
                if not kept and argument.name in expression.names_in(text):
                    raise DeclarationError(
                        f"{place}: {argument.name!r} is of type {argument.schema_type}, which is not kept for the "
                        f"backward pass: use tensors and {', '.join(KEPT)} in formulas"
                    )
    return formulas


def plain_type(argument: Argument) -> str:
    """The schema's type without the length of a list: "int[]" for "int[2]"."""
    return re.sub(r"\[\d+\]", "[]", argument.schema_type)


def variables(custom: CustomOperator) -> set[str]:
    """The names that a formula may use: arguments, outputs, and the gradients of the outputs."""
    return {*custom.arguments, *(output.name for output in custom.outputs), *gradient_names(custom)}


def gradient_names(custom: CustomOperator) -> list[str]:
    """The names of the gradients: "grad" for the only output, or "grad_NAME" for each of several outputs."""
    return ["grad"] if len(custom.outputs) == 1 else [f"grad_{output.name}" for output in custom.outputs]


def _checked(place: str, translate: Any, text: str, *arguments: Any) -> None:
    try:
        translate(text, *arguments)
    except expression.ExpressionError as error:
        raise DeclarationError(f"{place}: {error}") from error


def _keys(place: str, given: Any, known: Mapping[str, bool], wanted: str) -> None:
    if not isinstance(given, dict):
        raise DeclarationError(f"{place} is {type(given).__name__}, not a mapping: write {wanted}")
    for key in given:
        if key not in known:
            raise DeclarationError(f"{place}: {key!r} is not understood: write {wanted}")
    for key, required in known.items():
        if required and key not in given:
            raise DeclarationError(f"{place}: {key!r} is missing: write {wanted}")


def _text(place: str, given: Any, pattern: str, wanted: str) -> str:
    if not isinstance(given, str) or not re.fullmatch(pattern, given, re.DOTALL):
        raise DeclarationError(f"{place} is {given!r}; write {wanted}")
    return given


def _list(place: str, given: Any, wanted: str) -> list[Any]:
    if not isinstance(given, list):
        raise DeclarationError(f"{place} is {given!r}; write a list: {wanted}")
    return given
