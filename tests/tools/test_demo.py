"""The demo's parts on the CPU: the text, the batches, the comparison, the report."""

from __future__ import annotations

import json
import math
import pathlib
import subprocess
import sys
from dataclasses import replace

import pytest
import torch
from examples.demo.comparison import agree, interleaved, losses
from examples.demo.corpus import Batches, Corpus, read_corpus, unigram_entropy
from examples.demo.model import make_model
from examples.demo.report import Result, draw_losses, smoothed, table, write_json
from examples.demo.settings import ModelSettings, TrainingSettings
from examples.demo.training import Trainer, generate, learning_rate
from torch_backend.conformance.bits import bit_identical

CPU = torch.device("cpu")
MODEL = ModelSettings(width=16, heads=2, blocks=1, context=8)
TRAINING = TrainingSettings(steps=10, batch=2, warm_up=2)
KEYS = ["device", "driver", "steps", "seconds", "loss_first", "loss_last", "unigram_entropy", "tb_losses", "cpu_losses"]
KEYS += ["tb_step_ms", "cpu_step_ms", "ratio", "peak_bytes", "fallbacks"]


@pytest.fixture(scope="module")
def corpus() -> Corpus:
    return read_corpus()


@pytest.fixture
def result() -> Result:
    rows = [{"operator": "aten::odd", "calls": 2, "seconds": 0.5}]
    return Result("tb", "cpu", 10, 1.5, 5.5, 2.0, 3.2, [5.5, 5.0], [5.5, 5.1], 8.0, 10.0, 0.8, 2**20, rows)


def test_the_corpus_is_the_standard_library_and_the_same_each_time(corpus: Corpus) -> None:
    again = read_corpus()
    assert bit_identical(corpus.train, again.train)
    assert len(corpus.train) > 10 * len(corpus.held_out) > 0
    assert b"class OrderedDict(dict):" in corpus.train.numpy().tobytes() + corpus.held_out.numpy().tobytes()
    assert 2.5 < corpus.unigram_entropy < math.log(256)


def test_an_interpreter_without_library_files_gives_an_error_that_says_so(tmp_path: pathlib.Path) -> None:
    with pytest.raises(FileNotFoundError, match="standard library"):
        read_corpus(tmp_path)


def test_the_entropy_is_in_nats() -> None:
    assert unigram_entropy(b"aabb") == pytest.approx(math.log(2))
    assert unigram_entropy(b"aaaa") == 0


def test_targets_are_the_inputs_one_byte_later_and_the_seed_decides(corpus: Corpus) -> None:
    first, second, other = (Batches(corpus.train, 4, 16, seed) for seed in (1, 1, 2))
    x, y = first.next()
    assert (x.shape, y.shape, x.dtype) == ((4, 16), (4, 16), torch.int64)
    assert bit_identical(x[:, 1:], y[:, :-1])
    assert bit_identical(x, second.next()[0])
    assert not bit_identical(x, other.next()[0])


def test_attention_is_causal() -> None:
    model = make_model(MODEL, seed=0).eval()
    tokens = torch.randint(256, (1, 8))
    changed = tokens.clone()
    changed[0, 5] = (changed[0, 5] + 1) % 256
    with torch.no_grad():
        a, b = model(tokens), model(changed)
    assert bit_identical(a[0, :5], b[0, :5])
    assert not bit_identical(a[0, 5:], b[0, 5:])


def test_masks_from_outside_replace_those_of_dropout() -> None:
    model = make_model(replace(MODEL, dropout=0.5), seed=0)
    shapes: list[torch.Size] = []

    def ones(shape: torch.Size, kept: float) -> torch.Tensor:
        shapes.append(shape)
        return torch.full(shape, kept)  # cancels dropout's scaling, so the result is that of the model without dropout

    tokens = torch.randint(256, (1, 8))
    model.set_mask_source(ones)
    with_masks = model(tokens)
    assert shapes == [(1, 8, 16)] * 3
    torch.testing.assert_close(with_masks, model.eval()(tokens))


def test_the_same_seed_gives_the_same_losses_and_they_fall(corpus: Corpus) -> None:
    runs = []
    for _ in range(2):
        torch.manual_seed(0)
        runs.append(losses(Trainer(CPU, corpus, MODEL, replace(TRAINING, learning_rate=0.01)), 10))
    assert runs[0] == runs[1]
    assert runs[0][-1] < runs[0][0]


def test_three_digits_are_asked_for() -> None:
    assert agree([4.001], [4.0])
    assert not agree([4.01], [4.0])
    assert not agree([4.0], [4.0, 4.0])
    assert not agree([math.nan], [math.nan])


def test_the_learning_rate_rises_and_falls_to_a_tenth() -> None:
    settings = TrainingSettings(steps=100, warm_up=10, learning_rate=1.0)
    rates = [learning_rate(step, settings) for step in range(101)]
    assert rates[0] == pytest.approx(0.1)
    assert max(rates) == rates[10] == pytest.approx(1.0)
    assert rates[100] == pytest.approx(0.1)


def test_interleaved_timing_counts_its_pairs(corpus: Corpus) -> None:
    first, second = (Trainer(CPU, corpus, MODEL, TRAINING) for _ in range(2))
    ticks: list[int] = []
    timing = interleaved(first, second, pairs=3, steps=2, progress=lambda: ticks.append(1))
    assert len(ticks) == 3
    assert [first.done, second.done] == [9, 9]  # 3 blocks of one warm-up step and two timed ones
    assert timing.first_ms > 0
    assert timing.ratio > 0


def test_a_run_without_timing_says_so(result: Result) -> None:
    text = table(replace(result, tb_step_ms=None, cpu_step_ms=None, ratio=None), held_out=2.5)
    assert text.count("not timed") == 3


def test_text_is_generated_after_the_prompt(corpus: Corpus) -> None:
    trainer = Trainer(CPU, corpus, MODEL, TRAINING)
    text = generate(trainer, b"def ", length=20, temperature=0.8, seed=1)
    assert text.startswith(b"def ")
    assert len(text) == 24
    assert text == generate(trainer, b"def ", length=20, temperature=0.8, seed=1)
    assert trainer.model.training


def test_the_json_has_exactly_the_promised_keys(result: Result, tmp_path: pathlib.Path) -> None:
    write_json(result, tmp_path / "build" / "demo.json")
    assert list(json.loads((tmp_path / "build" / "demo.json").read_text())) == KEYS


def test_the_table_shows_both_devices_and_the_fallbacks(result: Result) -> None:
    text = table(result, held_out=2.1)
    assert "0.800" in text
    assert "aten::odd: 2 calls" in text
    assert "stock cpu" in text


def test_the_running_mean() -> None:
    assert smoothed([1.0, 3.0, 5.0, 7.0], 2) == [1.0, 2.0, 4.0, 6.0]


def test_the_loss_curve_is_a_picture(tmp_path: pathlib.Path) -> None:
    draw_losses([5.0, 4.0, 3.0], 3.1, 3.2, "tb", tmp_path / "loss.png")
    assert (tmp_path / "loss.png").read_bytes().startswith(b"\x89PNG")


def test_the_demo_refuses_zero_steps() -> None:
    command = [sys.executable, "-m", "examples.demo", "--steps", "0"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 2
    assert "at least one step" in done.stderr
