"""sentence-transformers: an encoder made of modules with random weights."""

from __future__ import annotations

import functools
from typing import Any

import torch
from sentence_transformers import SentenceTransformer, util

from clients.checks import Checks, Ran

checks = Checks("sentence-transformers")
SENTENCES = ["w3 w4 w5", "w9 w8", "w3 w3 w7 w20", "w60"]


def encoder(device: str, pooling: str = "mean", **options: Any) -> SentenceTransformer:
    import tempfile

    from sentence_transformers.models import Normalize, Pooling, Transformer
    from transformers import BertConfig, BertModel

    from clients.transformers import VOCABULARY, tokenizer

    torch.manual_seed(0)
    config = BertConfig(
        vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=2, num_attention_heads=2, intermediate_size=64
    )
    with tempfile.TemporaryDirectory() as folder:
        BertModel(config).save_pretrained(folder)
        tokenizer().save_pretrained(folder)
        words = Transformer(folder)
    settings = {"device": "cpu"} if device == "cpu" else {}
    return SentenceTransformer(modules=[words, Pooling(32, pooling), Normalize()], **settings, **options)


def encode(device: str, pooling: str = "mean", **options: Any) -> Ran:
    model = encoder(device, pooling)
    return Ran(model.device, torch.as_tensor(model.encode(SENTENCES, **options)).cpu())


checks.add("encode without a device", encode)
checks.add("encode to tensors", functools.partial(encode, convert_to_tensor=True))
checks.add("encode in batches", functools.partial(encode, batch_size=2))
checks.add("pooling of the first token", functools.partial(encode, pooling="cls"))
checks.add("pooling by maximum", functools.partial(encode, pooling="max"))


@checks.check("similarity")
def similarity(device: str) -> Ran:
    model = encoder(device)
    vectors = model.encode(SENTENCES, convert_to_tensor=True)
    return Ran(vectors.device, model.similarity(vectors, vectors).cpu())


@checks.check("semantic search")
def search(device: str) -> Ran:
    model = encoder(device)
    vectors = model.encode(SENTENCES, convert_to_tensor=True)
    found = util.semantic_search(vectors[:1], vectors, top_k=2)
    return Ran(vectors.device, [[(entry["corpus_id"], entry["score"]) for entry in row] for row in found])
