"""Programs that train and call models on the CPU."""

from __future__ import annotations

import copy

import torch
from torch import nn
from torch.nn.utils import prune
from torch.utils.checkpoint import checkpoint


def forward_and_backward() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(8, 16), nn.GELU(), nn.LayerNorm(16), nn.Linear(16, 3))
    loss = nn.functional.cross_entropy(model(torch.randn(5, 8)), torch.tensor([0, 1, 2, 1, 0]))
    loss.backward()
    print(loss, [parameter.grad for parameter in model.parameters()])


def convolutional_training() -> None:
    torch.manual_seed(0)
    layers = (nn.Conv2d(3, 8, 3), nn.BatchNorm2d(8), nn.ReLU(), nn.MaxPool2d(2), nn.Flatten(), nn.Linear(72, 4))
    model = nn.Sequential(*layers).to(memory_format=torch.channels_last)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9, nesterov=True)
    for _ in range(3):
        optimizer.zero_grad()
        loss = model(torch.randn(4, 3, 8, 8)).square().mean()
        loss.backward()
        optimizer.step()
        print(loss.item(), model(torch.ones(1, 3, 8, 8)).stride())
    print(model.state_dict())


def recurrent_training() -> None:
    torch.manual_seed(0)
    lstm, gru = nn.LSTM(4, 6, num_layers=2, bidirectional=True, dropout=0.2), nn.GRU(12, 3)
    packed = nn.utils.rnn.pack_padded_sequence(torch.randn(5, 3, 4), [5, 3, 2])
    output, _ = nn.utils.rnn.pad_packed_sequence(lstm(packed)[0])
    result, state = gru(output)
    result.sum().backward()
    print(packed, result, state, lstm.weight_hh_l0.grad)


def transformer_encoder() -> None:
    torch.manual_seed(0)
    model = nn.TransformerEncoder(nn.TransformerEncoderLayer(16, 2, 32, batch_first=True), 2)
    x, padding = torch.randn(2, 5, 16), torch.tensor([[False] * 5, [False, False, False, True, True]])
    print(model(x, src_key_padding_mask=padding))
    with torch.no_grad():
        print(model.eval()(x, src_key_padding_mask=padding))


def attention() -> None:
    torch.manual_seed(0)
    query, key, value = (torch.randn(1, 2, 6, 8, requires_grad=True) for _ in range(3))
    for backend in (nn.attention.SDPBackend.MATH, nn.attention.SDPBackend.FLASH_ATTENTION):
        with nn.attention.sdpa_kernel(backend):
            result = nn.functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        print(result, torch.autograd.grad(result.sum(), query))


def embedding_with_sparse_gradients() -> None:
    torch.manual_seed(0)
    embedding = nn.Embedding(10, 3, sparse=True)
    optimizer = torch.optim.SparseAdam(embedding.parameters(), lr=0.1)
    embedding(torch.tensor([1, 3, 3])).sum().backward()
    print(embedding.weight.grad)
    optimizer.step()
    print(embedding.weight, nn.functional.embedding_bag(torch.tensor([[0, 1], [2, 3]]), embedding.weight))


def optimizers() -> None:
    torch.manual_seed(0)
    start = torch.randn(4, 3)
    for name in ("Adadelta", "Adagrad", "Adam", "AdamW", "Adamax", "ASGD", "NAdam", "RAdam", "RMSprop", "Rprop", "SGD"):
        for foreach in (False, True):
            weight = nn.Parameter(start.clone())
            optimizer = getattr(torch.optim, name)([weight], lr=0.01, foreach=foreach)
            for _ in range(3):
                optimizer.zero_grad()
                weight.square().sum().backward()
                optimizer.step()
            print(name, foreach, weight, optimizer)
    weight = nn.Parameter(start.clone())
    fused = torch.optim.AdamW([weight], fused=True)
    weight.square().sum().backward()
    fused.step()
    print(weight, torch.optim.LBFGS([weight]).step(lambda: weight.square().sum()))


def schedules_and_averages() -> None:
    torch.manual_seed(0)
    model = nn.Linear(2, 2)
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.OneCycleLR(optimizer, 0.2, total_steps=6)
    average = torch.optim.swa_utils.AveragedModel(model)
    for _ in range(5):
        model(torch.ones(1, 2)).sum().backward()
        print(nn.utils.clip_grad_norm_(model.parameters(), 1.0))
        optimizer.step()
        schedule.step()
        average.update_parameters(model)
        print(schedule.get_last_lr(), average.module.weight)


def autocast_and_scaler() -> None:
    torch.manual_seed(0)
    model, x = nn.Linear(4, 4), torch.randn(2, 4)
    with torch.autocast("cpu", dtype=torch.bfloat16):
        print(model(x), torch.is_autocast_enabled("cpu"), torch.get_autocast_dtype("cpu"))
        print(nn.functional.layer_norm(model(x), (4,)).dtype)
    optimizer, scaler = torch.optim.SGD(model.parameters(), lr=0.1), torch.amp.GradScaler("cpu")
    scaler.scale(model(x).sum()).backward()
    scaler.step(optimizer)
    scaler.update()
    print(scaler.get_scale(), model.weight)


def checkpoints_and_hooks() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(3, 3), nn.Dropout(0.5), nn.Tanh())
    model[0].register_forward_hook(lambda module, inputs, output: print("forward", module, output))
    model[0].register_full_backward_hook(lambda module, gradients, outputs: print("backward", gradients, outputs))
    x = torch.ones(2, 3, requires_grad=True)
    x.register_hook(lambda gradient: print("gradient", gradient))
    checkpoint(model, x, use_reentrant=False).sum().backward()
    with torch.autograd.set_detect_anomaly(True, check_nan=True):
        try:
            torch.zeros(1, requires_grad=True).sqrt().mul(0).sum().backward()
        except RuntimeError as error:
            print(error)


def parametrizations() -> None:
    torch.manual_seed(0)
    for function in (
        nn.utils.parametrizations.weight_norm,
        nn.utils.parametrizations.spectral_norm,
        nn.utils.parametrizations.orthogonal,
    ):
        layer = function(nn.Linear(3, 3))
        layer(torch.ones(1, 3)).sum().backward()
        print(layer, layer.weight)
    pruned = nn.Linear(3, 3)
    prune.l1_unstructured(pruned, "weight", amount=4)
    print(pruned.weight, copy.deepcopy(nn.Linear(2, 2)).weight)


def data_parallel() -> None:
    torch.manual_seed(0)
    model = nn.Linear(2, 2)
    for parallel in (nn.DataParallel(model), nn.DataParallel(model, device_ids=[0])):
        print(parallel, parallel(torch.ones(3, 2)), parallel.state_dict())
        parallel(torch.ones(3, 2)).sum().backward()
        print(model.weight.device, model.weight.grad)


def quantization() -> None:
    torch.manual_seed(0)
    model = torch.ao.quantization.quantize_dynamic(nn.Sequential(nn.Linear(4, 4)), dtype=torch.qint8)
    print(model, model(torch.ones(1, 4)))
    x = torch.quantize_per_tensor(torch.randn(2, 3), 0.1, 2, torch.quint8)
    print(x, x.int_repr(), x.dequantize())
    print(torch.fake_quantize_per_tensor_affine(torch.randn(3), 0.1, 0, -8, 7))
