"""The text that is generated for a few operators, compared with the files in golden/. Read the change when it differs.

After an intended change, python packages/tb-ops/tests/test_codegen_golden.py writes the files again.
"""

import difflib
from functools import cache
from pathlib import Path

import pytest
from tb_ops.codegen import foreach, schema, structured
from tb_ops.codegen.aclnn import emit as aclnn
from tb_ops.codegen.aclnn import table
from tb_ops.codegen.custom import declaration, emit

GOLDEN = Path(__file__).resolve().parent / "golden"
GROUPS = {
    "add": "add.out",  # functional, in place, out=; PyTorch's iterator checks the devices
    "clamp": "clamp.Tensor_out",  # optional tensors
    "topk": "topk.values",  # several outputs, none in place
}
LISTS = {"foreach_sqrt": "sqrt", "foreach_div": "div"}  # one list; two lists, numbers and a tensor


@cache
def texts() -> dict[str, str]:
    """The text that is generated now, by the name of the golden file."""
    groups = {str(group.out.func.name): group for group in schema.installed().structured_groups}
    out = {name: structured.group_text(groups[wanted]) for name, wanted in GROUPS.items()}
    out |= {name: "\n".join(foreach.operator_text(schema.installed(), base) or ()) for name, base in LISTS.items()}
    [out["aclnn"]] = aclnn.file_texts(table.read(GOLDEN / "aclnn.yaml", schema.installed()), 1)
    out["custom"] = emit.file_text(declaration.read(GOLDEN / "custom.yaml"))
    return out


@pytest.mark.parametrize("name", [*GROUPS, *LISTS, "aclnn", "custom"])
def test_the_generated_text_is_the_golden_one(name):
    path = GOLDEN / f"{name}.txt"
    golden = path.read_text().splitlines()
    difference = list(difflib.unified_diff(golden, texts()[name].splitlines(), str(path), "generated", lineterm=""))
    assert not difference, "\n".join(
        [*difference, "", "If the change is meant: python packages/tb-ops/tests/test_codegen_golden.py"]
    )


if __name__ == "__main__":
    for name, text in texts().items():
        (GOLDEN / f"{name}.txt").write_text(text)
