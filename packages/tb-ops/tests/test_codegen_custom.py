"""A YAML file of custom operators becomes C++, and a mistake is refused with its place and what to write instead."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from tb_ops.codegen.custom import declaration, emit
from tb_ops.codegen.custom.declaration import DeclarationError

GOLDEN = Path(__file__).resolve().parent / "golden" / "custom.yaml"

HEAD = """\
library: mychip
module: _operators
headers: [kernels.h]
operators:
"""
SWISH = """\
  - schema: swish(Tensor x, Tensor? w, float beta=1.0) -> Tensor
    kernel: mychip::swish
    outputs: [{like: x}]
    checks:
      - x.is_floating_point(): x must be floating
    gradients:
      x: swish_backward(grad, x, beta)
      w: null
  - schema: swish_backward(Tensor given_out, Tensor x, float beta) -> Tensor
    kernel: mychip::swish_backward
    outputs: [{like: x}]
"""


@pytest.fixture
def read(tmp_path):
    def from_text(text: str) -> declaration.Declaration:
        path = tmp_path / "ops.yaml"
        path.write_text(text)
        return declaration.read(path)

    return from_text


def test_the_text_that_the_mistakes_below_start_from_is_right(read):
    text = emit.file_text(read(HEAD + SWISH))
    assert 'tb::launch<"mychip::swish", mychip::swish>(device, x, w, beta, result);' in text
    assert "PyInit__operators" in text


@pytest.mark.parametrize(
    ("old", "new", "wanted"),
    [
        ("library: mychip\n", "", "'library' is missing: write library, module, headers"),
        ("library: mychip", "library: My-Chip", "'My-Chip'; write a name for torch.ops"),
        ("headers: [kernels.h]", "headers: kernels.h", "write a list"),
        ("    kernel: mychip::swish\n", "", "ops.yaml:5: 'kernel' is missing"),
        ("kernel: mychip::swish\n", "kernel: {device: swish.cubin}\n", "write a C++ function's name, {image: FILE,"),
        ("kernel: mychip::swish\n", "kernel: {image: swish.cubin}\n", "kernel: 'entry' is missing"),
        ("kernel: mychip::swish\n", "kernel: {image: a, entry: b, dtypes: [half]}\n", "dtype 'half' is unknown"),
        ("kernel: mychip::swish\n", "kernel: {image: a, entry: b, block: 0}\n", "block is 0; write a number"),
        ("kernel: mychip::swish\n", "kernel: {image: a, entry: b, host: 3}\n", "host is 3; write a C++ function"),
        ("kernel: mychip::swish\n", "kernel: {table: a, block: 3}\n", "'block' is not understood"),
        ("    kernel: mychip::swish\n", "    kernal: x\n", "'kernal' is not understood"),
        ("float beta=1.0) -> Tensor", "float beta=1.0)", "ops.yaml:5: schema"),
        ("Tensor? w", "Tensr? w", "PyTorch cannot read the schema"),
        ("Tensor? w", "Generator? w", "argument 'w' is of type Generator?, for which no call can be queued"),
        ("Tensor? w", "Tensor? namespace", "cannot call anything 'namespace'"),
        ("beta=1.0) -> Tensor", "beta=1.0) -> int", "it must return new tensors"),
        ("Tensor x, Tensor? w, float beta=1.0", "float beta=1.0", "needs an argument of type Tensor"),
        ("[{like: x}]\n    checks", "[]\n    checks", "returns 1 tensors, but outputs has 0 shape rules"),
        ("[{like: x}]\n    checks", "[{like: y}]\n    checks", "like 'y' is no Tensor argument: take x"),
        ("[{like: x}]\n    checks", "[{same: x}]\n    checks", "a shape rule is {like: TENSOR}"),
        ("[{like: x}]\n    checks", "[{sizes: [3]}]\n    checks", "'dtype' is missing"),
        ("[{like: x}]\n    checks", "[{like: x, dtype: f32}]\n    checks", "dtype 'f32' is unknown"),
        ("[{like: x}]\n    checks", "[{sizes: [n], dtype: x}]\n    checks", "'n' in 'n' is no argument"),
        ("[{like: x}]\n    checks", "[{sizes: [beta.size(0)], dtype: x}]\n    checks", "of type float, no tensor"),
        ("[{like: x}]\n    checks", "[{sizes: ['x.sum()'], dtype: x}]\n    checks", "not in the language of rules"),
        ("[{like: x}]\n    checks", "[{sizes: ['2 +'], dtype: x}]\n    checks", "is no expression"),
        ("x.is_floating_point():", "x is None:", "`is` compares optional arguments with None"),
        ("- x.is_floating_point(): x must be floating", "- x.is_floating_point()", "write CONDITION: TEXT"),
        ("      w: null\n", "", "the tensors are x, w: each needs a formula"),
        ("(grad, x, beta)", "(grad, y, beta)", "'y' in 'swish_backward(grad, y, beta)' is unknown"),
        ("swish_backward(grad, x, beta)", "swish_backwards(grad, x, beta)", "'swish_backwards' is called, but"),
        ("swish_backward(grad, x, beta)", "grad if beta else x", "not in the language of gradients"),
        ("Tensor? w", "Tensor[] w", "for which no gradients are generated"),
        ("Tensor? w", "Tensor? grad", "'grad' is the gradient of the output: rename"),
        ("schema: swish_backward(", "schema: swish(", "declared twice"),
    ],
)
def test_a_mistake_is_refused_with_its_place_and_what_to_write(read, old, new, wanted):
    assert old in HEAD + SWISH
    with pytest.raises(DeclarationError, match=re.escape(wanted)) as raised:
        read((HEAD + SWISH).replace(old, new, 1))
    assert "ops.yaml" in str(raised.value)


def test_an_operator_with_a_kernel_of_the_device_has_an_overload_with_out(read):
    entry = "  - schema: mix.rows(Tensor x, *, float weight=0.5) -> (Tensor out, Tensor norm)\n"
    rules = "    outputs: [{like: x}, {sizes: [x.size(0)], dtype: x}]\n"
    image = emit.file_text(
        read(HEAD + entry + "    kernel: {image: a.cubin, entry: mix, dtypes: [int8, bool]}\n" + rules)
    )
    schema = "mix.rows_out(Tensor x, *, float weight=0.5, Tensor(a!) out, Tensor(b!) norm) -> (Tensor(a!), Tensor(b!))"
    assert schema in image
    assert 'tb::serve_by_image(&module, "a.cubin", "mix", "mychip::mix.rows_out", "int8,bool", 256)' in image
    assert "mix_rows_tb" not in image
    assert 'TORCH_CHECK_NOT_IMPLEMENTED(false, "mychip::mix.rows runs on tb devices by the kernel mix' in image
    table = emit.file_text(read(HEAD + entry + "    kernel: {table: mychip.mix, host: mychip::mix}\n" + rules))
    assert 'tb::serve_by_table("mychip::mix.rows_out", "mychip.mix")' in table
    assert "mychip::mix(x, weight, out, norm);" in table


def test_a_kernel_of_the_device_cannot_write_arguments_or_take_lists(read):
    kernel = "    kernel: {image: a, entry: b}\n"
    with pytest.raises(DeclarationError, match="kernels of the device write new tensors"):
        read(HEAD + "  - schema: fill(Tensor(a!) x) -> ()\n" + kernel)
    with pytest.raises(DeclarationError, match=r"'n' is of type int\[\], which no kernel of an image takes"):
        read(HEAD + "  - schema: rows(Tensor x, int[] n) -> Tensor\n" + kernel + "    outputs: [{like: x}]\n")


@pytest.mark.parametrize("text", ["", "- 1", "a: [", "operators: 3\nlibrary: a\nmodule: b\nheaders: []"])
def test_a_file_that_declares_no_operators_is_refused(read, text):
    with pytest.raises(DeclarationError, match=r"ops\.yaml"):
        read(text)


def test_the_command_writes_the_module_and_names_what_is_wrong(tmp_path):
    command = [sys.executable, "-m", "tb_ops.codegen", "custom"]
    subprocess.run([*command, str(GOLDEN), "--output", str(tmp_path / "made")], check=True)
    assert (tmp_path / "made" / "custom.cpp").read_text() == emit.file_text(declaration.read(GOLDEN))
    absent = tmp_path / "absent.yaml"
    done = subprocess.run([*command, str(absent)], capture_output=True, text=True, check=False)
    assert done.returncode == 1
    assert f"{absent}: cannot be read" in done.stderr
    assert "Traceback" not in done.stderr


def test_sizes_are_symbolic_in_the_shape_rule_and_integers_in_the_kernels(read):
    text = emit.file_text(
        read(
            HEAD + "  - schema: rows(Tensor x, SymInt n, SymInt[] more) -> Tensor\n"
            "    kernel: mychip::rows\n"
            "    outputs: [{sizes: [n, 'more[0]', 'x.size(1) // 2'], dtype: x}]\n"
        )
    )
    assert "rows_shape(const at::Tensor &x, c10::SymInt n, c10::SymIntArrayRef more)" in text
    assert "rows_tb(const at::Tensor &x, int64_t n, at::IntArrayRef more)" in text
    assert "{n, more.at(0), (x.sym_size(1) / 2)}" in text
    assert "rows_shape(x, n, c10::fromIntArrayRefSlow(more))" in text


def test_the_backward_pass_of_an_operator_without_gradients_raises_the_reason(read):
    text = emit.file_text(read(HEAD + SWISH))
    assert 'autograd.impl("swish_backward", torch::autograd::autogradNotImplementedFallback());' in text
    assert 'autograd.impl("swish", TORCH_FN(swish_autograd));' in text
