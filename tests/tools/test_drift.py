"""The report on drift names what differs between recorded versions of torch, and its check finds lost overrides."""

from __future__ import annotations

import copy
import pathlib
from collections.abc import Callable, Mapping, Sequence

import pytest
from drift import __main__ as program
from drift import facts, headers, overridden, report
from drift.facts import Facts, Interface, Operator, Virtual
from drift.overridden import Listed, Subclass

ROOT = pathlib.Path(__file__).resolve().parents[2]
RECORDED = pathlib.Path(__file__).with_name("recorded")
HOOKS = "at::impl::VariableHooksInterface"
FORWARDER = "packages/torch-backend/src/shallow_copy.cpp"

Compare = Callable[[str, str], report.Changes]
Table = Mapping[tuple[str, str], Listed]


@pytest.fixture(scope="module")
def versions() -> dict[str, Facts]:
    """The recorded facts of three versions: `python -m drift cut tests/tools/recorded FILE...` writes them."""
    return {minor: facts.load(RECORDED / f"torch-{minor}.json") for minor in ("2.13", "2.14", "2.15")}


@pytest.fixture(scope="module")
def ours() -> list[Subclass]:
    return overridden.read_tree(ROOT)


@pytest.fixture(scope="module")
def compare(versions: dict[str, Facts]) -> Compare:
    return lambda before, after: report.compare(versions[before], versions[after])


def names(changes: Sequence[report.Change], what: str) -> set[str]:
    return {f"{one.interface}::{one.name.partition('(')[0]}".removeprefix("::") for one in changes if one.what == what}


# ---- reading headers -------------------------------------------------------------------------------------------------


def test_a_header_is_read_with_nested_classes_templates_comments_and_conditions() -> None:
    source = headers.read((RECORDED / "interface.h").read_text())
    assert source.aliases == {"alias": "other::place"}
    assert {declared.name: declared.bases for declared in source.classes} == {
        "outer::Base": [],
        "outer::Base::Options": ["alias::Holder"],
        "outer::Derived": ["Base", "alias::Mixin"],
        "Hidden": ["outer::Base"],
    }
    found = {
        declared.name: [(f.kind, f.returns, f.key) for f in declared.functions if f.kind != "plain"]
        for declared in source.classes
    }
    long = "with_defaults(Pair, std::function<bool(Stream)>, unsigned) const noexcept"
    assert found["outer::Base"] == [
        ("pure", "int", "pure(int) const"),
        ("body", "void", "body(void*, const char*)"),
        ("pure", "std::pair<size_t, std::string>", long),
        ("pure", "const std::set<Kind>&", "kinds() const"),
        ("body", "bool", "trailing(const outer::inner::Value)"),
        ("pure", "int", "trailing_pure()"),
        ("pure", "bool", "operator==(const Base&) const"),
        ("body", "void", "only_mobile()"),
        ("body", "void", "only_others()"),
    ]
    assert found["outer::Base::Options"] == [("body", "Options*", "clone() const")]
    assert found["outer::Derived"] == [
        ("final", "int", "pure(int) const"),
        ("override", "void", "body(void*, const char*)"),
        ("pure", "T", "own(U&&)"),
    ]


def test_a_virtual_function_that_cannot_be_read_is_an_error() -> None:
    with pytest.raises(ValueError, match=r"A has a virtual function that .* cannot read: virtual"):
        headers.read("class A { virtual bool one(int), two(int); };")


def test_headers_alone_give_interfaces_macros_and_files(tmp_path: pathlib.Path) -> None:
    for name, text in {
        "c10/core/Allocator.h": "namespace c10 { struct Allocator { virtual void *allocate(size_t) = 0; }; }",
        "c10/core/CachingDeviceAllocator.h": "namespace c10 { struct DeviceAllocator : public c10::Allocator {}; }",
        "torch/csrc/distributed/c10d/Backend.hpp": "#define C10D_BACKEND_HAS_HOOKS 1\n#define C10D_OTHER 1\n",
        "ATen/ops/add.h": "",
        "c10/cuda/CUDAStream.h": "",
    }.items():
        (tmp_path / name).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / name).write_text(text)
    found = facts.record_headers(tmp_path, "9.9.0")
    assert found.interfaces == {
        "c10::Allocator": Interface("c10/core/Allocator.h", [], {"allocate(size_t)": Virtual("pure", "void*")}),
        "c10::DeviceAllocator": Interface("c10/core/CachingDeviceAllocator.h", ["c10::Allocator"], {}),
    }
    assert found.names[facts.MACROS] == ["C10D_BACKEND_HAS_HOOKS"]
    assert found.names[facts.HEADER_FILES] == [
        "c10/core/Allocator.h",
        "c10/core/CachingDeviceAllocator.h",
        "torch/csrc/distributed/c10d/Backend.hpp",
    ]


def test_native_functions_are_read_with_structure_keys_and_generated_operators() -> None:
    text = """# a comment
- func: one.out(Tensor self, *, Tensor(a!) out) -> Tensor(a!)
  structured: True
  dispatch:
    CPU, CUDA: one_out
    MPS: one_mps

- func: one(Tensor self) -> Tensor
  structured_delegate: one.out

- func: two(Tensor self) -> Tensor
  dispatch:
    CompositeExplicitAutograd: two
  autogen: two.out, two_copy
"""
    assert facts.read_operators(text) == {
        "one.out": Operator("(Tensor self, *, Tensor(a!) out) -> Tensor(a!)", True, ("CPU",)),
        "one": Operator("(Tensor self) -> Tensor", True),
        "two": Operator("(Tensor self) -> Tensor", False, ("CompositeExplicitAutograd",)),
        "two.out": Operator("generated from two", False),
        "two_copy": Operator("generated from two", False),
    }


# ---- comparing -------------------------------------------------------------------------------------------------------


def test_new_virtual_functions_are_named(compare: Compare) -> None:
    changes = compare("2.13", "2.15").virtuals
    new = names(changes, "new")
    history = {"record_history", "is_history_enabled", "get_segments", "get_traces"}
    external = {"record_external_register", "record_external_unregister"}
    assert {name for name in new if name.startswith("at::HostAllocator")} == {
        f"at::HostAllocator::{name}" for name in history | external
    }
    assert {name for name in new if name.startswith("c10::")} == {"c10::GeneratorImpl::philox_state"}
    assert "c10d::Backend::supportsAbortHooks" in new
    assert "libkineto::IActivityProfilerSession::toggleCollectionDynamic" in new
    same = ("DeviceGuardImplInterface", "HooksInterface", "DeviceAllocator", "::lazy::", "::jit::")
    assert not [change for change in changes if any(part in change.interface for part in same)]


def test_autocast_dtypes_macros_databases_and_headers_are_named(compare: Compare) -> None:
    lists = compare("2.13", "2.15").names
    for key in ("AutocastCUDA", "AutocastCPU"):
        assert "aten::linalg_matrix_sqrth" in names(lists[key], "new")
    assert names(lists["AutocastCPU"], "gone") == {"aten::cholesky", "aten::qr"}
    assert names(lists["dtypes"], "new") == {"torch.bcomplex32"}
    macros = {f"C10D_BACKEND_HAS_{name}" for name in ("HOOKS", "RECONFIGURE", "WINDOW")}
    assert names(lists["macros of c10d::Backend"], "new") == macros
    assert names(lists["op_db"], "gone") == {"cholesky", "qr"}
    assert "linalg.matrix_sqrth" in names(lists["op_db"], "new")
    assert "torch/csrc/autograd/node_creation_hook.h" in names(lists["headers"], "new")


def test_native_functions_that_came_went_or_changed_are_named(compare: Compare) -> None:
    first, second = compare("2.13", "2.14").operators, compare("2.14", "2.15").operators
    expected = {"_philox_key_fold_in.Tensor", "_scaled_grouped_mm_v2.out", "linalg_matrix_sqrth"}
    assert names(first, "new") >= {*expected, "linalg_polar", "linalg_polar.out"}
    assert names(first, "gone") == {"cholesky", "cholesky.out", "qr", "qr.Q"}
    assert "_scaled_mm_v2" in names(first, "became structured")
    assert names(first, "other arguments") == {"_cdist_backward", "_cudnn_attention_forward", "_pdist_backward"}
    assert names(second, "new") >= {"_philox_randint_", "_scaled_addmm", "_scaled_addmm.out", "_scaled_addmm_"}
    assert "_cudnn_attention_forward_no_dropout_inplace" in names(second, "new")
    [arange] = [change for change in second if change.name == "arange"]
    assert (arange.what, arange.detail) == ("other dispatch keys", "+Meta")


def test_classes_and_declarations_that_change_are_named() -> None:
    before = Interface("a.h", [], {"f()": Virtual("body", "int"), "g()": Virtual("body", "void")})
    after = Interface("a.h", [], {"f()": Virtual("pure", "int")})
    both = Facts("1.0", {"A": before, "Old": before}), Facts("1.1", {"A": after, "New": before})
    assert report.compare(*both).virtuals == [
        report.Change("differs", "f()", "body int, now pure int", "A"),
        report.Change("gone", "g()", "", "A"),
        report.Change("new class", "", "", "New"),
        report.Change("class is gone", "", "", "Old"),
    ]


def test_the_report_writes_a_page_and_a_summary(
    tmp_path: pathlib.Path, ours: list[Subclass], capsys: pytest.CaptureFixture[str]
) -> None:
    files = [str(RECORDED / f"torch-{minor}.json") for minor in ("2.13", "2.15")]
    program.main(["report", str(tmp_path), *files])
    page, printed = (tmp_path / "2.13-2.15.md").read_text(), capsys.readouterr().out
    for text in (page, printed):
        assert "philox_state" in text
        assert "linalg_matrix_sqrth" in text
        assert "torch.bcomplex32" in text
        assert "built without CUDA" in text
    assert "| new | `torch.bcomplex32` |" in page
    assert f"{len(ours)} classes" in printed


def test_a_cut_keeps_what_differs_and_a_few_of_the_others(tmp_path: pathlib.Path) -> None:
    same = {name: Operator("() -> Tensor", False) for name in "abcde"}
    interfaces = {"A": Interface("a.h", ["B"], {"f(int) const": Virtual("body", "const int*")})}
    before = Facts(
        "1.0.0+cpu", interfaces, {**same, "old": Operator("()", False)}, {"op_db": ["a", "b", "c", "d", "y"]}
    )
    after = Facts("1.1.0", interfaces, {**same, "e": Operator("()", True, ("CPU",))}, {"op_db": ["a", "b", "c", "d"]})
    before.write(tmp_path / "before.json")
    after.write(tmp_path / "after.json")
    assert program.main(["cut", str(tmp_path), str(tmp_path / "before.json"), str(tmp_path / "after.json")]) == 0
    cut = [facts.load(tmp_path / f"torch-{minor}.json") for minor in ("1.0", "1.1")]
    assert [one.interfaces for one in cut] == [interfaces, interfaces]
    assert cut[0].operators == {name: before.operators[name] for name in ("a", "b", "c", "e", "old")}
    assert cut[1].operators == {name: after.operators[name] for name in ("a", "b", "c", "e")}
    assert [one.names["op_db"] for one in cut] == [["a", "b", "c", "y"], ["a", "b", "c"]]


# ---- our overrides ---------------------------------------------------------------------------------------------------


def planted(version: Facts, interface: str, key: str, kind: str = "body") -> Facts:
    """A version in which a class of PyTorch has one more virtual function."""
    changed = copy.deepcopy(version)
    changed.interfaces[interface].virtuals[key] = Virtual(kind, "void")
    return changed


@pytest.fixture(scope="module")
def listed() -> Table:
    return overridden.read_listed(overridden.TABLE)


def test_the_tree_overrides_or_lists_every_virtual_function(
    ours: list[Subclass], listed: Table, versions: dict[str, Facts]
) -> None:
    assert overridden.check(ours, listed, list(versions.values())) == []


def test_each_class_that_derives_from_pytorch_is_found(ours: list[Subclass]) -> None:
    bases = {subclass.name: subclass.bases for subclass in ours}
    assert bases["tb::backend::Hooks"] == ("at::PrivateUse1HooksInterface",)
    assert bases["tb::backend::ShallowCopyHooks"] == (HOOKS,), "the base is written as an alias of `using`"
    assert bases["tb::compile::lazy::Call"] == ("torch::lazy::TsNode",), "the namespace is written as an alias"


def test_a_new_virtual_function_fails_the_check(
    ours: list[Subclass], listed: Table, versions: dict[str, Facts]
) -> None:
    changed = planted(versions["2.13"], "c10::GeneratorImpl", "rewind(uint64_t) const")
    assert overridden.check(ours, listed, [versions["2.13"], changed]) == [
        "torch 2.13.0+cpu: tb::backend::Generator does not override c10::GeneratorImpl::rewind(uint64_t) const "
        "(c10/core/GeneratorImpl.h; the body is that of c10::GeneratorImpl): override it in "
        "packages/torch-backend/src/generator.cpp or list it in tools/drift/not_overridden.toml with the reason"
    ]
    pair = ("tb::backend::Generator", "c10::GeneratorImpl::rewind(uint64_t) const")
    assert overridden.check(ours, {**listed, pair: Listed("It is not needed.", None, None)}, [changed]) == []


def test_a_function_of_a_base_of_the_base_is_checked(
    ours: list[Subclass], listed: Table, versions: dict[str, Facts]
) -> None:
    changed = planted(versions["2.13"], "at::AcceleratorHooksInterface", "standby() const", "pure")
    [problem] = overridden.check(ours, listed, [changed])
    assert "tb::backend::Hooks does not override at::AcceleratorHooksInterface::standby() const (ATen" in problem
    assert "it is pure" in problem
    changed.interfaces["at::PrivateUse1HooksInterface"].virtuals["standby() const"] = Virtual("final", "void")
    assert overridden.check(ours, listed, [changed]) == [], "nobody can override it any more"


def test_a_new_virtual_function_must_be_forwarded_and_cannot_be_listed(
    ours: list[Subclass], listed: Table, versions: dict[str, Facts]
) -> None:
    changed = planted(versions["2.13"], HOOKS, "rename(const TensorBase&) const")
    pair = ("tb::backend::ShallowCopyHooks", f"{HOOKS}::rename(const TensorBase&) const")
    for table in (listed, {**listed, pair: Listed("It is not needed.", None, None)}):
        [problem] = overridden.check(ours, table, [changed])
        assert f"{pair[0]} does not override {pair[1]}" in problem
        assert f"forward it in {FORWARDER}; it may not be listed" in problem


def test_a_forgotten_forwarder_is_found(listed: Table, versions: dict[str, Facts]) -> None:
    text = (ROOT / FORWARDER).read_text()
    line = "  void retain_grad(const TensorBase &t) const override { inner_->retain_grad(t); }\n"
    assert line in text
    own = overridden.subclasses({FORWARDER: text.replace(line, "")})
    [problem] = overridden.check(own, {}, [versions["2.13"]])
    assert f"does not override {HOOKS}::retain_grad(const TensorBase&) const" in problem
    assert overridden.check(overridden.subclasses({FORWARDER: text}), {}, [versions["2.13"]]) == []


SOURCE = """
namespace c = c10;
namespace tb {
namespace {
struct Memory final : c::Allocator {
  c10::DataPtr allocate(Bytes bytes) override { return {nullptr, [] { return 1; }}; }
  bool is_simple_data_ptr(const c10::DataPtr &) const { return true; }
  void copy_data(void *to, const void *from, size_t bytes) const override;
  c10::DeleterFnPtr raw_deleter() { return nullptr; }
};
}
}
"""
RAW = ("tb::Memory", "c10::Allocator::raw_deleter() const")


def memory(versions: Sequence[Facts], text: str = SOURCE, entry: Listed | None = None) -> list[str]:
    """The check of a small class, with an entry for raw_deleter if one is given."""
    return overridden.check(overridden.subclasses({"memory.cpp": text}), {RAW: entry} if entry else {}, versions)


def test_aliases_of_types_override_by_their_number_and_constness_counts(versions: dict[str, Facts]) -> None:
    [problem] = memory([versions["2.13"]])
    assert "tb::Memory does not override c10::Allocator::raw_deleter() const" in problem, "ours is not const"
    assert memory([versions["2.13"]], SOURCE.replace("raw_deleter()", "raw_deleter() const")) == []


def test_an_entry_for_what_is_overridden_is_stale(versions: dict[str, Facts]) -> None:
    text = SOURCE.replace("raw_deleter()", "raw_deleter() const")
    assert memory(list(versions.values()), text, Listed("It is not needed.", None, None)) == [
        "torch 2.13.0+cpu, 2.14.1+cu130, 2.15.0+cu132: not_overridden.toml lists c10::Allocator::raw_deleter() const "
        "of tb::Memory, which overrides it: remove the entry"
    ]


def test_an_entry_that_some_version_does_not_have_says_which_do(versions: dict[str, Facts]) -> None:
    lacking = copy.deepcopy(versions["2.13"])
    del lacking.interfaces["c10::Allocator"].virtuals["raw_deleter() const"]
    both = [lacking, versions["2.15"]]
    [problem] = memory(both, entry=Listed("It is not needed.", None, None))
    assert problem.startswith("torch 2.13.0+cpu: not_overridden.toml lists c10::Allocator::raw_deleter() const")
    assert "which has no such virtual function" in problem
    assert memory(both, entry=Listed("It is not needed.", "2.14", None)) == []
    [problem] = memory(list(versions.values()), entry=Listed("It is not needed.", None, "2.14"))
    assert problem.startswith("torch 2.15.0+cu132: ")
    assert problem.endswith("for other versions: correct `since` and `until`")


def test_what_a_class_of_ours_overrides_counts_for_those_that_derive_from_it(versions: dict[str, Facts]) -> None:
    own = "struct Raw : Memory { c10::DeleterFnPtr raw_deleter() const override; };"
    assert memory([versions["2.13"]], SOURCE.replace("}\n}\n", f"{own}\n}}\n}}\n")) == []
    [problem] = memory([versions["2.13"]], SOURCE.replace("}\n}\n", "struct Raw : Memory {};\n}\n}\n"))
    assert "tb::Raw does not override c10::Allocator::raw_deleter() const" in problem


def test_a_base_that_the_program_does_not_know_is_a_problem(versions: dict[str, Facts]) -> None:
    own = overridden.subclasses({"packages/a/src/a.h": "struct A : torch::nn::Cloneable<A>, std::string {};"})
    [problem] = overridden.check(own, {}, [versions["2.13"]])
    assert "A in packages/a/src/a.h derives from torch::nn::Cloneable" in problem
    assert "add the class and its header to tools/drift/interfaces.py" in problem


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ('reason = " "', "has no reason"),
        ('reason = "a"\nversions = "2.14"', "has the unknown key versions"),
        ('reason = "a"\n[[left]]\nclasses = ["A"]\nfunctions = ["f()"]\nreason = "b"', r"A lists f\(\) twice"),
    ],
)
def test_a_table_with_a_wrong_entry_is_refused(tmp_path: pathlib.Path, entry: str, message: str) -> None:
    table = tmp_path / "not_overridden.toml"
    table.write_text(f'[[left]]\nclasses = ["A"]\nfunctions = ["f()"]\n{entry}\n')
    with pytest.raises(ValueError, match=message):
        overridden.read_listed(table)


def test_the_status_is_one_if_a_problem_is_found(tmp_path: pathlib.Path, versions: dict[str, Facts]) -> None:
    good, bad = tmp_path / "good.json", tmp_path / "bad.json"
    versions["2.13"].write(good)
    planted(versions["2.13"], "c10::GeneratorImpl", "rewind()").write(bad)
    assert program.main(["report", str(tmp_path), str(good)]) == 0
    assert program.main(["report", str(tmp_path), str(bad)]) == 1
    assert program.main(["report", str(tmp_path), str(good), str(bad)]) == 1
    assert "- torch 2.13.0+cpu: tb::backend::Generator does not" in (tmp_path / "2.13-2.13.md").read_text()
