"""Models of several families train on tb-ops' own device kernels, without a fallback and with stock CPU's losses."""

from __future__ import annotations

import json

import pytest
from conftest import ROOT, RunPython

TRAINING = """
    import json, sys, torch
    from examples.demo.settings import ModelSettings
    from examples.models.case import Training
    from examples.models.gpt import gpt
    from examples.models.lstm import LstmSettings, lstm
    from examples.models.vit import VitSettings, vit

    MODELS = {
        "gpt": lambda: gpt(ModelSettings(width=32, heads=2, blocks=2, context=16, dropout=0.0), batch=4),
        "lstm": lambda: lstm(LstmSettings()),
        "gru": lambda: lstm(LstmSettings(gru=True)),
        "vit": lambda: vit(VitSettings()),
    }

    def losses(device):
        torch.manual_seed(3)
        training = Training(MODELS["%s"](), torch.device(device))
        return [training.step().item() for _ in range(20)]

    found, expected = losses("tb"), losses("cpu")
    fallen = [row.operator for row in torch.tb.fallbacks()]
    print(json.dumps({"found": found, "expected": expected, "fallen": fallen}))
"""


@pytest.fixture(scope="module")
def variables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    return {
        "TB_DRIVER": "sim",
        "TB_KERNEL_CACHE": str(tmp_path_factory.mktemp("kernels")),
        "PYTHONPATH": str(ROOT / "tools"),
    }


@pytest.mark.parametrize("model", ["gpt", "lstm", "gru", "vit"])
def test_a_model_trains_as_on_the_cpu_without_a_fallback(
    model: str, run_python: RunPython, variables: dict[str, str]
) -> None:
    done = run_python(TRAINING % model, env={**variables, "TB_FALLBACK": "error"}, timeout=400)
    report = json.loads(done.stdout.splitlines()[-1])
    assert len(report["found"]) == 20
    assert report["found"] == pytest.approx(report["expected"], rel=1e-4)
    assert report["found"][-1] < report["found"][0]
    assert report["fallen"] == []


GENERATION = """
    import torch
    from examples.demo.settings import VOCABULARY, ModelSettings
    from examples.models.case import Training
    from examples.models.generation import Cache, generate, greedy, next_logits, sampled
    from examples.models.gpt import gpt

    def trained(device):
        torch.manual_seed(3)
        case = gpt(ModelSettings(width=32, heads=2, blocks=2, context=24, dropout=0.0), batch=4)
        training = Training(case, torch.device(device))
        for _ in range(20):
            training.step()
        return training.model.eval(), case.inputs[:, :7].to(device)

    model, prompt = trained("tb")
    longest = generate(model, prompt, 12, greedy)
    assert longest.shape == (4, 19)
    assert longest.cpu().equal(generate(*trained("cpu"), 12, greedy))

    caches = [Cache() for _ in model.blocks]
    next_logits(model, longest[:, :11], caches)
    for place in range(11, 19):
        cached = next_logits(model, longest[:, place : place + 1], caches)
    torch.testing.assert_close(cached, model(longest)[:, -1])

    def drawn(seed):
        torch.manual_seed(seed)
        return generate(model, prompt, 12, sampled(5, temperature=2.0))

    first, again, other = drawn(1), drawn(1), drawn(2)
    assert first.equal(again) and not first.equal(other)
    logits = model(first)[:, 6:-1]
    best = logits.topk(6).values[..., -1:]  # a tolerance of one more, since cached logits differ in their last digits
    assert (logits.gather(-1, first[:, 7:, None]) >= best).all()
"""


def test_a_language_model_generates_with_a_cache(run_python: RunPython, variables: dict[str, str]) -> None:
    run_python(GENERATION, env={**variables, "TB_FALLBACK": "error"}, timeout=400)
