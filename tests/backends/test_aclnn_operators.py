"""Operators that call a vendor's two-phase library, on the simulated NPU: the table, failures, executors, a model."""

from __future__ import annotations

import os
import pathlib

import pytest
from backends.case_report import case_report
from conftest import ROOT, RunPython
from sim_vendor.simulated import variables
from tb_ops.device_kernels import image_cases, order_cases
from tb_ops.device_kernels.cases import GROUPS

HERE = pathlib.Path(__file__).resolve().parent
TABLE = ROOT / "packages" / "tb-ops" / "src" / "backends" / "aclnn" / "operators.yaml"


@pytest.fixture(scope="module")
def npu() -> dict[str, str]:
    """The environment of a process that runs on the simulated libraries."""
    return {**variables("npu"), "TB_FALLBACK": "allow", "PYTHONPATH": f"{ROOT / 'tools'}{os.pathsep}{ROOT / 'tests'}"}


def test_every_operator_of_the_table_gives_the_cpus_results_in_every_type_of_its_rule(npu: dict[str, str]) -> None:
    report = case_report([str(HERE / "aclnn_cases.py"), str(TABLE)], npu)
    assert int(str(report["cases"])) > 1000
    assert report["wrong"] == {}
    assert report["uncalled"] == []


# Cases whose types are not in the table. They fall back and give the right results.
FALL_BACK = {
    "layers": {"gelu torch.float64", "layer_norm torch.float64"},
    "products": {"mm torch.float64", "mm torch.int32", "mm torch.int64"},
    "optimizers": {"adam fused", "adamw float64", "momentum fused", "sgd fused"},
}


# The table has no layers of image networks, none of these activations, and nothing that sorts, scans or selects.
ABSENT = {"reductions", "activations", *image_cases.GROUPS, *order_cases.GROUPS}


@pytest.mark.parametrize("group", [group for group in GROUPS if group not in ABSENT])
def test_layouts_types_and_gradients_as_on_other_devices_with_kernels(group: str, npu: dict[str, str]) -> None:
    report = case_report(["-m", "tb_ops.device_kernels.check", group, "--json"], npu)
    wrong = report["wrong"]
    assert isinstance(wrong, dict)
    assert {name: text for name, text in wrong.items() if not text.startswith("fell back")} == {}
    assert set(wrong) == FALL_BACK.get(group, set())


TRAINING = """
    import torch
    from examples.demo.comparison import losses, philox_masks
    from examples.demo.corpus import read_corpus
    from examples.demo.settings import ModelSettings, TrainingSettings
    from examples.demo.training import Trainer

    model = ModelSettings(width=32, heads=2, blocks=2, context=16)
    settings = TrainingSettings(steps=20, batch=4, warm_up=5)
    corpus = read_corpus()

    def trainer(device):
        torch.manual_seed(settings.seed)
        made = Trainer(torch.device(device), corpus, model, settings)
        made.optimizer = torch.optim.AdamW(made.model.parameters(), lr=1e-3, weight_decay=0.1, OPTIONS)
        return made

    with torch.tb.fallback_budget(0):
        first = losses(trainer("tb"), 5)
    second = losses(trainer("cpu"), 5, philox_masks(settings.seed))
    print(first, second)
    assert all(abs(a - b) <= 1e-4 * b for a, b in zip(first, second, strict=True)), (first, second)
    assert first[-1] < first[0]
    assert not torch.tb.fallbacks(), torch.tb.fallbacks()
"""


@pytest.mark.parametrize("options", ["", "fused=True"])
def test_the_demo_trains_by_the_table_alone_with_the_losses_of_the_cpu(
    options: str, run_python: RunPython, npu: dict[str, str]
) -> None:
    run_python(TRAINING.replace("OPTIONS", options), env=npu, timeout=400)


def test_a_function_that_the_library_lacks_falls_back_alone(run_python: RunPython, npu: dict[str, str]) -> None:
    code = """
        import torch, tb_ops
        from tb_ops import coverage
        x = torch.ones(3, device="tb")
        assert x.exp().tolist() == torch.ones(3).exp().tolist()
        assert (x + 1).tolist() == [2.0, 2.0, 2.0]
        assert [row.operator for row in torch.tb.fallbacks()] == ["aten::exp.out"]
        assert tb_ops.aclnn_library().missing == ("aten::exp.out: aclnnExp",)
        kinds = {each.name: each.kind for each in coverage.operators()}
        assert (kinds["aten::exp.out"], kinds["aten::log.out"]) == ("fallback", "native-async")
    """
    run_python(code, env={**npu, "TB_SIMNPU_HIDE": "aclnnExpGetWorkspaceSize"})


@pytest.mark.parametrize(
    ("library", "reason"),
    [("/absent/libopapi.so", "cannot be loaded: /absent/libopapi.so"), ("", "TB_ACLNN_LIBRARY names no file")],
)
def test_without_a_library_everything_falls_back_and_the_reason_can_be_asked_for(
    run_python: RunPython, npu: dict[str, str], library: str, reason: str
) -> None:
    code = """
        import torch, tb_ops
        assert (torch.ones(3, device="tb") + 1).tolist() == [2.0, 2.0, 2.0]
        found = tb_ops.aclnn_library()
        assert found.path == "" and found.operators == 0
        assert torch.tb.fallbacks()
        print(found.reason)
    """
    said = run_python(code, env={**npu, "TB_ACLNN_LIBRARY": library}).stdout
    assert reason in said
    assert "Install CANN" in said


def test_a_library_without_functions_for_argument_descriptions_is_not_used(
    run_python: RunPython, npu: dict[str, str]
) -> None:
    code = """
        import torch, tb_ops
        assert (torch.ones(3, device="tb") + 1).tolist() == [2.0, 2.0, 2.0]
        print(tb_ops.aclnn_library().reason)
    """
    said = run_python(code, env={**npu, "TB_SIMNPU_HIDE": "aclCreateTensor"}).stdout
    assert "lacks functions that describe arguments: aclCreateTensor." in said


CONTROL = """
        import ctypes, os, torch, tb_ops, tb_ops._testing
        from sim_vendor.simulated import Control
        control = Control("npu", os.environ["TB_NPU_LIBRARY"])
        x = torch.ones(3, 4, device="tb")
        torch.tb.synchronize()
"""


@pytest.mark.parametrize("function", ["aclnnExpGetWorkspaceSize", "aclnnExp"])
def test_a_phase_that_fails_raises_with_code_and_remedy(
    run_python: RunPython, npu: dict[str, str], function: str
) -> None:
    code = f"""{CONTROL}
        control.fault("{function}", 0, 161002)
        try:
            x.exp()
        except RuntimeError as error:
            text = str(error)
        assert "aten::exp.out on tb:0: {function}" in text and "161002" in text, text
        assert "TB_FORCE_FALLBACK=aten::exp.out" in text
        assert torch.equal(x.exp().cpu(), torch.ones(3, 4).exp())  # the device is usable
    """
    run_python(code, env=npu)


def test_out_of_memory_is_reported_as_such(run_python: RunPython, npu: dict[str, str]) -> None:
    code = f"""{CONTROL}
        control.fault("aclnnExpGetWorkspaceSize", 0, 207018)
        try:
            x.exp()
        except torch.OutOfMemoryError as error:
            assert "out of device memory" in str(error)
        else:
            raise SystemExit("no error")
    """
    run_python(code, env=npu)


def test_executors_are_used_again_for_calls_of_the_same_kind(run_python: RunPython, npu: dict[str, str]) -> None:
    code = f"""{CONTROL}
        before, planned = tb_ops.aclnn_executors(), control.calls("aclnnAddGetWorkspaceSize")
        kept = [torch.full((3, 4), float(i), device="tb") for i in range(8)]
        results = [x + each for each in kept]  # other memory each time
        for i, result in enumerate(results):
            assert result.tolist() == torch.full((3, 4), 1.0 + i).tolist()
        after = tb_ops.aclnn_executors()
        assert after.hits - before.hits == 7, (before, after)
        assert control.calls("aclnnAddGetWorkspaceSize") - planned == 1
        view = torch.ones(4, 3, device="tb").t()
        assert (x + view).tolist() == [[2.0] * 4] * 3  # other strides: planned again
        assert control.calls("aclnnAddGetWorkspaceSize") - planned == 2
        assert torch.add(x, x, alpha=3).tolist() == [[4.0] * 4] * 3  # another number too
        assert (x.add_(x)).tolist() == [[2.0] * 4] * 3  # and a result in an argument's place
        tb_ops._testing.clear_aclnn_executors()
        assert tb_ops.aclnn_executors().kept == 0
        torch.tb.synchronize()
        assert "executor" not in control.live(), control.live()
    """
    run_python(code, env=npu)


def test_few_executors_are_kept_and_none_where_that_is_asked_for(run_python: RunPython, npu: dict[str, str]) -> None:
    code = """
        import torch, tb_ops
        for size in range(1, 9):
            assert (torch.ones(size, device="tb").exp()).sum().item() > 0
        counts = tb_ops.aclnn_executors()
        assert counts.kept <= counts.room == ROOM, counts
        assert (counts.dropped > 0) == (ROOM > 0), counts
        assert ROOM or counts.hits == 0
    """
    for room in ("2", "0"):
        run_python(code.replace("ROOM", room), env={**npu, "TB_ACLNN_EXECUTORS": room})


def test_a_library_without_repeatable_executors_plans_every_call(run_python: RunPython, npu: dict[str, str]) -> None:
    code = f"""{CONTROL}
        planned = control.calls("aclnnExpGetWorkspaceSize")
        for _ in range(3):
            assert torch.equal(x.exp().cpu(), torch.ones(3, 4).exp())
        assert control.calls("aclnnExpGetWorkspaceSize") - planned == 3
        assert tb_ops.aclnn_executors().kept == 0
        torch.tb.synchronize()
        assert "executor" not in control.live(), control.live()
    """
    run_python(code, env={**npu, "TB_SIMNPU_HIDE": "aclSetAclOpExecutorRepeatable"})


def test_threads_on_their_own_streams_do_not_share_executors(run_python: RunPython, npu: dict[str, str]) -> None:
    code = """
        import threading, torch
        wrong = []
        def work(number):
            with torch.Stream("tb"):
                x = torch.full((5, 7), float(number), device="tb")
                for step in range(60):
                    y = (x * 2 + step).softmax(1).sum()
                    if abs(y.item() - 5) > 1e-4 or (x + step)[0, 0].item() != number + step:
                        wrong.append((number, step))
        threads = [threading.Thread(target=work, args=(i,)) for i in range(4)]
        [thread.start() for thread in threads]
        [thread.join() for thread in threads]
        assert not wrong, wrong
    """
    run_python(code, env=npu, timeout=300)


def test_no_object_is_alive_at_the_end_of_a_process(run_python: RunPython, npu: dict[str, str]) -> None:
    code = f"""{CONTROL}
        y = torch.cat([x, x * 2]).softmax(0)
        y.sum().item(), y.clone().fill_(3), torch.nn.functional.layer_norm(x, (4,))
        tb_ops._testing.clear_aclnn_executors()
        torch.tb.synchronize()
        live = control.live()
        assert not any(word in live for word in ("tensor", "scalar", "array", "executor")), live
        assert control.misuse() == "", control.misuse()
    """
    run_python(code, env=npu)
