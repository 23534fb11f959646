"""python -m tb_ops.codegen COMMAND: C++ from PyTorch's own operators, or from a YAML of your own.

aten ROUTES.yaml OUTPUT.cpp...      what tb-ops compiles: index, routes, lists, and the kernels dealt out to the others
aclnn TABLE.yaml OUTPUT.cpp...      operators by a vendor's functions in two phases, dealt out to the files
custom OPERATORS.yaml --output DIR  an extension module of your own operators: DIR/OPERATORS.cpp
include                             the folders of headers that such a module needs, one a line
link                                what it is linked with, one argument a line
"""

from __future__ import annotations

import argparse
import importlib.util
import pathlib
import sys

from . import aten, schema
from .aclnn import emit as aclnn
from .aclnn import table as aclnn_table
from .custom import declaration, emit


def write_aten(routes: pathlib.Path, outputs: list[pathlib.Path]) -> int:
    """Writes index, routes, lists, kinds of tensors and checks of devices to the first paths, kernels to the others."""
    return _write(outputs, aten.file_texts(schema.installed(), routes, len(outputs) - 5))


def write_aclnn(table: pathlib.Path, outputs: list[pathlib.Path]) -> int:
    """Writes the wrappers of a table. Returns 1, with the reason on the error stream, if the table is wrong."""
    try:
        read = aclnn_table.read(table, schema.installed())
    except aclnn_table.TableError as error:
        print(f"tb_ops.codegen: {error}", file=sys.stderr)
        return 1
    return _write(outputs, aclnn.file_texts(read, len(outputs)))


def _write(outputs: list[pathlib.Path], texts: list[str]) -> int:
    for path, text in zip(outputs, texts, strict=True):
        if not path.exists() or path.read_text() != text:  # an unchanged file is not compiled again
            path.write_text(text)
    return 0


def write_custom(source: pathlib.Path, folder: pathlib.Path) -> int:
    """Writes the C++ of a YAML. Returns 1, with the reason on the error stream, if the YAML is wrong."""
    try:
        text = emit.file_text(declaration.read(source))
    except (declaration.DeclarationError, ModuleNotFoundError) as error:
        print(f"tb_ops.codegen: {error}", file=sys.stderr)
        return 1
    folder.mkdir(parents=True, exist_ok=True)
    (folder / f"{source.stem}.cpp").write_text(text)
    return 0


def print_include() -> int:
    """Prints the headers' folders: tb-ops', tb-device's, PyTorch's."""
    import tb_device

    import tb_ops

    torch = _torch() / "include"
    print(tb_ops.get_include(), tb_device.get_include(), torch, torch / "torch/csrc/api/include", sep="\n")
    return 0


def print_link() -> int:
    """Prints arguments for the linker: PyTorch's libraries, and none of ours."""
    print(f"-L{_torch() / 'lib'}", "-lc10", "-ltorch_cpu", sep="\n")
    return 0


def _torch() -> pathlib.Path:
    spec = importlib.util.find_spec("torch")
    assert spec is not None
    assert spec.origin is not None
    return pathlib.Path(spec.origin).parent


def main(arguments: list[str]) -> int:
    """Runs one of the commands and returns the exit status."""
    assert __doc__ is not None
    parser = argparse.ArgumentParser(
        prog="python -m tb_ops.codegen", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    commands = parser.add_subparsers(dest="command", required=True)
    own = commands.add_parser("aten", help="the kernels of PyTorch's own operators")
    own.add_argument("routes", type=pathlib.Path)
    own.add_argument("outputs", nargs="+", type=pathlib.Path)
    vendor = commands.add_parser("aclnn", help="operators by a vendor's functions in two phases")
    vendor.add_argument("table", type=pathlib.Path)
    vendor.add_argument("outputs", nargs="+", type=pathlib.Path)
    custom = commands.add_parser("custom", help="the extension module of a YAML of operators")
    custom.add_argument("source", type=pathlib.Path)
    custom.add_argument("--output", type=pathlib.Path, default=pathlib.Path(), metavar="DIR")
    commands.add_parser("include", help="the folders of headers")
    commands.add_parser("link", help="what to link with")
    chosen = parser.parse_args(arguments)
    match chosen.command:
        case "aten":
            return write_aten(chosen.routes, chosen.outputs)
        case "aclnn":
            return write_aclnn(chosen.table, chosen.outputs)
        case "custom":
            return write_custom(chosen.source, chosen.output)
        case "include":
            return print_include()
        case _:
            return print_link()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
