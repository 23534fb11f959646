"""A second process takes the graphs of backend "tb" from AOTAutograd's cache, and computes what the first one did."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

# Prints for each function the cache's counters, what became of its graphs, and results and gradients.
PROGRAM = """
import json, sys
import torch, tb_compile
from torch._dynamo.utils import counters

def trained(x):
    return model(x).square().sum()

def of_two_sizes(x):
    return torch.cat([model(x), x.sum(0, keepdim=True)[:, :3]]).sum()

def with_a_constant(x):
    return (model(x) * torch.tensor([1.0, 2.0, 3.0]).to(x.device)).sum()

def inference(x):
    with torch.no_grad():
        return model.eval()(x).sum()

mode, *names = sys.argv[1:]
found = {}
for name in names:
    torch.manual_seed(0)
    layers = torch.nn.Linear(4, 8), torch.nn.GELU(), torch.nn.Dropout(0.25), torch.nn.Linear(8, 3)
    model = torch.nn.Sequential(*layers).to("tb")
    counters.clear()
    tb_compile.reset()
    function = torch.compile(globals()[name], backend="tb", mode=mode, dynamic=name == "of_two_sizes")
    numbers = []
    for rows in (5, 5, 5, 7, 7) if name == "of_two_sizes" else (5,) * 5:
        out = function(torch.ones(rows, 4, device="tb"))
        if out.requires_grad:
            out.backward()
        numbers.append(out.item())
    gradients = [p.grad.cpu().flatten().tolist() for p in model.parameters() if p.grad is not None]
    aot = counters["aot_autograd"]
    cache = {what: aot[f"autograd_cache_{what}"] for what in ("hit", "miss", "saved", "bypass")}
    found[name] = [cache, tb_compile.counts()._asdict(), [numbers, gradients]]
print(json.dumps(found))
"""
NAMES = ("trained", "of_two_sizes", "inference", "with_a_constant")


def run(folder: Path, mode: str, *names: str, **variables: str) -> Any:
    environment = {**os.environ, "TORCHINDUCTOR_CACHE_DIR": str(folder), **variables}
    command = [sys.executable, "-W", "ignore", "-c", PROGRAM, mode, *names]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("cache")


@pytest.fixture(scope="module")
def first(folder: Path) -> Any:
    return run(folder, "default", *NAMES)


@pytest.fixture(scope="module")
def second(folder: Path, first: Any) -> Any:
    return run(folder, "default", *NAMES)


@pytest.mark.parametrize("name", NAMES)
def test_results_gradients_and_programs_are_those_of_the_first_process(first: Any, second: Any, name: str) -> None:
    (_, counts, values), (_, second_counts, second_values) = first[name], second[name]
    assert counts["programs"] > 0
    assert second_counts == counts
    assert second_values == values


@pytest.mark.parametrize("name", NAMES[:3])
def test_a_second_process_takes_the_graphs_from_the_cache(first: Any, second: Any, name: str) -> None:
    before, after = first[name][0], second[name][0]
    assert (before["hit"], before["bypass"]) == (0, 0)
    assert before["saved"] > 0
    # A trace that Dynamo begins again is a miss in both.
    assert after == {"hit": before["saved"], "miss": before["miss"] - before["saved"], "saved": 0, "bypass": 0}


def test_a_graph_with_constants_is_compiled_again(first: Any, second: Any) -> None:
    for process in (first, second):
        cache = process["with_a_constant"][0]
        assert (cache["hit"], cache["saved"]) == (0, 0)
        assert cache["bypass"] > 0


def test_the_mode_is_the_second_process_s(folder: Path, first: Any) -> None:
    cache, counts, values = run(folder, "reduce-overhead", "trained")["trained"]
    assert cache["hit"] == 1
    assert first["trained"][1]["captures"] == 0
    assert counts["captures"] > 0
    assert counts["launches"] > 0
    assert values == first["trained"][2]


def test_the_cache_can_be_switched_off(folder: Path, first: Any) -> None:
    cache, counts, values = run(folder, "default", "trained", TORCHINDUCTOR_AUTOGRAD_CACHE="0")["trained"]
    assert cache == {"hit": 0, "miss": 0, "saved": 0, "bypass": 0}
    assert counts["programs"] == 2
    assert values == first["trained"][2]
