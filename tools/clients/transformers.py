"""transformers: the Trainer, pipelines, device maps, generation and models with random weights."""

from __future__ import annotations

import functools
import tempfile
from typing import Any

import tb_compile
import torch
from torch_backend.integrations.steps import capture_steps
from transformers import (
    AutoModelForCausalLM,
    BertConfig,
    BertForSequenceClassification,
    ContinuousBatchingConfig,
    GenerationConfig,
    GPT2Config,
    GPT2LMHeadModel,
    LlamaConfig,
    LlamaForCausalLM,
    PreTrainedTokenizerFast,
    Trainer,
    TrainerCallback,
    TrainingArguments,
    ViTConfig,
    ViTForImageClassification,
    pipeline,
    set_seed,
)

from clients.checks import Checks, Ran
from clients.ranks import on_ranks

checks = Checks("transformers")

VOCABULARY = 64


def gpt2(dropout: float = 0.0) -> Any:
    set_seed(0)
    return GPT2LMHeadModel(
        GPT2Config(
            vocab_size=VOCABULARY,
            n_positions=32,
            n_embd=32,
            n_layer=2,
            n_head=2,
            bos_token_id=0,
            eos_token_id=1,
            resid_pdrop=dropout,
            embd_pdrop=dropout,
            attn_pdrop=dropout,
            pad_token_id=1,
        )
    )


def llama() -> Any:
    set_seed(0)
    return LlamaForCausalLM(
        LlamaConfig(
            vocab_size=VOCABULARY,
            hidden_size=32,
            intermediate_size=64,
            num_hidden_layers=2,
            num_attention_heads=4,
            num_key_value_heads=2,
            max_position_embeddings=64,
            bos_token_id=0,
            eos_token_id=1,
            pad_token_id=1,
        )
    )


def bert() -> Any:
    set_seed(0)
    return BertForSequenceClassification(
        BertConfig(
            vocab_size=VOCABULARY,
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=64,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
            max_position_embeddings=32,
        )
    )


def vit() -> Any:
    set_seed(0)
    return ViTForImageClassification(
        ViTConfig(
            hidden_size=32,
            num_hidden_layers=2,
            num_attention_heads=2,
            intermediate_size=64,
            image_size=16,
            patch_size=8,
            hidden_dropout_prob=0.0,
            attention_probs_dropout_prob=0.0,
        )
    )


def texts(count: int = 32, labels: str = "tokens") -> list[dict[str, Any]]:
    generator = torch.Generator().manual_seed(1)
    rows = [torch.randint(2, VOCABULARY, (12,), generator=generator) for _ in range(count)]
    return [{"input_ids": row, "labels": row if labels == "tokens" else int(row[0] % 2)} for row in rows]


def images(count: int = 16) -> list[dict[str, Any]]:
    generator = torch.Generator().manual_seed(1)
    return [{"pixel_values": torch.rand(3, 16, 16, generator=generator), "labels": index % 2} for index in range(count)]


def trainer(device: str, folder: str, model: Any, data: Any, callbacks: Any = None, **options: Any) -> Trainer:
    settings = {"per_device_train_batch_size": 8, "max_steps": 6, "logging_steps": 1, "report_to": [], "seed": 7}
    settings |= {"save_strategy": "no", "learning_rate": 1e-2, "disable_tqdm": True, **options}
    if device == "cpu":
        settings["use_cpu"] = True
    return Trainer(
        model, TrainingArguments(folder, **settings), train_dataset=data, eval_dataset=data, callbacks=callbacks
    )


def losses(run: Trainer) -> list[float]:
    return [entry["loss"] for entry in run.state.log_history if "loss" in entry]


def train(device: str, make: Any = gpt2, data: Any = texts, **options: Any) -> Ran:
    with tempfile.TemporaryDirectory() as folder:
        run = trainer(device, folder, make(), data(), **options)
        run.train()
        evaluated = run.evaluate()["eval_loss"]
        return Ran(run.model.device, [*losses(run), evaluated])


def train_fp16(device: str) -> Ran:
    """The CPU's Trainer has no fp16, so that its fp32 is what is compared."""
    with tempfile.TemporaryDirectory() as folder:
        run = trainer(device, folder, gpt2(), texts(), fp16=device != "cpu")
        run.train()
        scaler = run.accelerator.scaler
        scaled = device == "cpu" or (scaler.is_enabled() and scaler._device == "tb" and scaler.get_scale() > 1)
        return Ran(run.model.device, [scaled, losses(run)])


LABELS = functools.partial(texts, labels="classes")
checks.add("Trainer in fp32: GPT-2", train, 1e-3)
checks.add("Trainer in fp32: Llama", functools.partial(train, make=llama), 1e-3)
checks.add("Trainer in fp32: BERT", functools.partial(train, make=bert, data=LABELS), 1e-3)
checks.add("Trainer in fp32: ViT", functools.partial(train, make=vit, data=images), 1e-3)
checks.add("Trainer in bf16", functools.partial(train, bf16=True), 3e-2)
checks.add("Trainer in fp16 with a scaler", train_fp16, 3e-2)
checks.add("Trainer with bf16 evaluation", functools.partial(train, bf16_full_eval=True), 3e-2)
checks.add("Trainer with gradient checkpointing", functools.partial(train, gradient_checkpointing=True), 1e-3)
checks.add("Trainer with gradient accumulation", functools.partial(train, gradient_accumulation_steps=2), 1e-3)
checks.add("Trainer with two workers", functools.partial(train, dataloader_num_workers=2), 1e-3)
checks.add("Trainer with SGD", functools.partial(train, optim="sgd"), 1e-3)
checks.add("Trainer with Adafactor", functools.partial(train, optim="adafactor"), 1e-3)
checks.add("Trainer with fused AdamW", functools.partial(train, optim="adamw_torch_fused"), 1e-3)
checks.add("Trainer with a cosine schedule", functools.partial(train, lr_scheduler_type="cosine", warmup_steps=2), 1e-3)
checks.add("Trainer with label smoothing", functools.partial(train, label_smoothing_factor=0.1), 1e-3)
checks.add("Trainer with full determinism", functools.partial(train, full_determinism=True), 1e-3)
checks.add("Trainer with automatic batch size", functools.partial(train, auto_find_batch_size=True), 1e-3)
checks.add("Trainer with memory metrics", functools.partial(train, skip_memory_metrics=False), 1e-3)
checks.add(
    "Trainer with torch_compile, backend eager",
    functools.partial(train, torch_compile=True, torch_compile_backend="eager"),
    1e-3,
)


def train_captured(device: str, **options: Any) -> Ran:
    """With forward and backward passes as launches of a graph, where there are graphs."""
    with tempfile.TemporaryDirectory() as folder:
        run = trainer(device, folder, gpt2(), texts(), max_steps=12, **({} if device == "cpu" else options))
        step = capture_steps(run)
        run.train()
        return Ran(run.model.device, [losses(run), device == "cpu" or step.replays > 0])


checks.add("Trainer with captured steps", train_captured, 1e-3)
checks.add("Trainer with captured steps in bf16", functools.partial(train_captured, bf16=True), 3e-2)
checks.add("Trainer with captured steps in fp16", functools.partial(train_captured, fp16=True), 3e-2)


class StopAt(TrainerCallback):  # type: ignore[misc]
    """Ends a training after a step, as an interruption would."""

    def __init__(self, step: int) -> None:
        self.step = step

    def on_step_end(self, args: Any, state: Any, control: Any, **_: Any) -> Any:
        control.should_training_stop = state.global_step == self.step
        return control


def resumed(device: str, **options: Any) -> Ran:
    """With dropout: a training that goes on from a checkpoint has the losses of one that was never interrupted."""
    options |= {"save_strategy": "steps", "save_steps": 3}
    with tempfile.TemporaryDirectory() as folder:
        whole = trainer(device, f"{folder}/whole", gpt2(0.3), texts(), **options)
        whole.train()
        trainer(device, f"{folder}/part", gpt2(0.3), texts(), callbacks=[StopAt(3)], **options).train()
        again = trainer(device, f"{folder}/part", gpt2(0.3), texts(), **options)
        again.train(resume_from_checkpoint=True)
        return Ran(again.model.device, losses(whole) == losses(again))


checks.add("Trainer resumes with dropout as if unbroken", resumed)
checks.add("Trainer resumes with dropout in bf16", functools.partial(resumed, bf16=True))


@checks.check("Trainer predicts", 1e-3)
def predict(device: str) -> Ran:
    with tempfile.TemporaryDirectory() as folder:
        run = trainer(device, folder, bert(), texts(labels="classes"))
        predicted = run.predict(texts(labels="classes"))
        return Ran(run.model.device, torch.from_numpy(predicted.predictions))


@checks.check("TrainingArguments.device")
def arguments_device(device: str) -> Ran:
    with tempfile.TemporaryDirectory() as folder:
        arguments = TrainingArguments(folder, use_cpu=True) if device == "cpu" else TrainingArguments(folder)
        return Ran(arguments.device, arguments.train_batch_size)


def tokenizer() -> Any:
    from tokenizers import Tokenizer
    from tokenizers.models import WordLevel
    from tokenizers.pre_tokenizers import Whitespace

    words = {f"w{index}": index for index in range(VOCABULARY - 1)} | {"[UNK]": VOCABULARY - 1}
    made = Tokenizer(WordLevel(words, unk_token="[UNK]"))
    made.pre_tokenizer = Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=made, pad_token="w1", eos_token="w1", unk_token="[UNK]")


def place(device: str) -> dict[str, Any]:
    """What a program gives to choose the CPU, and nothing for tb."""
    return {"device": "cpu"} if device == "cpu" else {}


@checks.check("pipeline() without a device: text generation")
def generation_pipeline(device: str) -> Ran:
    run = pipeline("text-generation", model=gpt2().eval(), tokenizer=tokenizer(), **place(device))
    return Ran(run.model.device, run("w3 w4 w5", max_new_tokens=5, do_sample=False)[0]["generated_text"])


@checks.check("pipeline() without a device: text classification")
def classification_pipeline(device: str) -> Ran:
    run = pipeline("text-classification", model=bert().eval(), tokenizer=tokenizer(), **place(device))
    return Ran(run.model.device, run(["w3 w4 w5", "w9 w8"]))


@checks.check("pipeline(device=0)")
def indexed_pipeline(device: str) -> Ran:
    index = -1 if device == "cpu" else 0
    run = pipeline("text-classification", model=bert().eval(), tokenizer=tokenizer(), device=index)
    return Ran(run.model.device, run(["w3 w4 w5"]))


@checks.check("pipeline of a model with a device map")
def placed_pipeline(device: str) -> Ran:
    with tempfile.TemporaryDirectory() as folder:
        bert().save_pretrained(folder)
        placed = {} if device == "cpu" else {"device_map": "auto"}
        model = BertForSequenceClassification.from_pretrained(folder, **placed).eval()
        run = pipeline("text-classification", model=model, tokenizer=tokenizer(), **place(device))
        return Ran(run.device, run(["w3 w4 w5"]))


def loaded(device: str, **options: Any) -> Ran:
    with tempfile.TemporaryDirectory() as folder:
        gpt2().save_pretrained(folder)
        model = AutoModelForCausalLM.from_pretrained(folder, **({} if device == "cpu" else options)).eval()
        tokens = torch.arange(2, 12)[None].to(model.device)
        return Ran(model.device, model(tokens).logits.detach().cpu())


checks.add('from_pretrained(device_map="auto")', functools.partial(loaded, device_map="auto"))
checks.add('from_pretrained(device_map="tb")', functools.partial(loaded, device_map="tb"))
checks.add('from_pretrained(device_map={"": "tb:0"})', functools.partial(loaded, device_map={"": "tb:0"}))
checks.add('from_pretrained(device_map="balanced")', functools.partial(loaded, device_map="balanced"))


def generate(device: str, make: Any = llama, padded: bool = False, **options: Any) -> Ran:
    model = make().eval().to(device)
    prompt = torch.arange(2, 14).reshape(2, 6).to(device)
    mask = torch.ones_like(prompt)
    if padded:
        prompt[0, :3], mask[0, :3] = 1, 0
    settings = {"max_new_tokens": 8, "do_sample": False, **options}
    return Ran(model.device, model.generate(prompt, attention_mask=mask, **settings).cpu())


checks.add("generate greedily", generate)
checks.add("generate with left padding", functools.partial(generate, padded=True))
checks.add("generate by beam search", functools.partial(generate, num_beams=3))
checks.add("generate with a static cache", functools.partial(generate, cache_implementation="static"))
checks.add("generate with penalties", functools.partial(generate, repetition_penalty=1.3, no_repeat_ngram_size=2))
checks.add("generate with GPT-2", functools.partial(generate, make=gpt2))


@checks.check("continuous batching generates the tokens of generate()", 0)
def continuous_batching(device: str) -> Ran:
    model = llama().to("cpu" if device == "cpu" else torch.accelerator.current_accelerator()).eval()
    prompts = [[2, 3, 4, 5], [6, 7, 8], [9, 10, 11, 12, 13, 14], [15] * 20]
    settings = GenerationConfig(max_new_tokens=8, do_sample=False, eos_token_id=VOCABULARY - 1, pad_token_id=1)
    small = ContinuousBatchingConfig(num_blocks=16, max_batch_tokens=64)  # otherwise most of the device's memory
    batches = [
        model.generate_batch(inputs=prompts, generation_config=settings, continuous_batching_config=small)
        for _ in range(1 if device == "cpu" else 3)  # a missing wait between its streams shows now and then only
    ]
    tokens = [[made.generated_tokens for _, made in sorted(batch.items())] for batch in batches]
    alone = [
        model.generate(torch.tensor([prompt], device=model.device), generation_config=settings)[
            0, len(prompt) :
        ].tolist()
        for prompt in prompts
    ]
    for batch in tokens:
        assert batch == alone, (batch, alone)
    return Ran(model.device, tokens[0])


@checks.check("generate with an offloaded cache")
def offloaded(device: str) -> Ran:
    """It needs an accelerator, so that the CPU's own cache is what is compared."""
    return generate(device) if device == "cpu" else generate(device, cache_implementation="offloaded")


def masked(device: str, make: Any) -> Ran:
    """A forward pass with an attention mask, as launches of a graph, where there are graphs."""
    model = make().eval().to(device)

    @tb_compile.step
    def forward(tokens: torch.Tensor, mask: torch.Tensor) -> Any:
        return model(input_ids=tokens, attention_mask=mask).logits

    found = []
    with torch.no_grad():
        for call in range(10):
            tokens = torch.arange(2 + call, 26 + call).reshape(2, 12).to(device)
            mask = torch.ones_like(tokens)
            if call % 2:
                mask[0, -4:] = 0
            found.append(forward(tokens, mask)[1:].cpu())
    return Ran(model.device, [found, device == "cpu" or forward.replays > 0])


checks.add("captured with an attention mask: GPT-2", functools.partial(masked, make=gpt2))
checks.add("captured with an attention mask: Llama", functools.partial(masked, make=llama))
checks.add("captured with an attention mask: BERT", functools.partial(masked, make=bert))

checks.add("two ranks: Trainer", on_ranks("transformers", "trains"), 1e-3)
checks.add("two ranks: Trainer resumes with dropout as if unbroken", on_ranks("transformers", "resumes"))
