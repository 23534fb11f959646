"""torch_geometric: layers, pooling and loaders on the device that it finds."""

from __future__ import annotations

import functools
from typing import Any

import torch
import torch_geometric
from torch_geometric import nn
from torch_geometric.data import Data
from torch_geometric.loader import DataLoader

from clients.checks import Checks, Ran

checks = Checks("torch-geometric")


def where(device: str) -> torch.device:
    found: torch.device = torch_geometric.device("cpu" if device == "cpu" else "auto")
    return found


def graph(seed: int = 0) -> Data:
    generator = torch.Generator().manual_seed(seed)
    edges = torch.randint(0, 10, (2, 40), generator=generator)
    classes = torch.randint(0, 3, (10,), generator=generator)
    return Data(x=torch.randn(10, 8, generator=generator), edge_index=edges, y=classes)


def train(device: str, layer: Any) -> Ran:
    """Three steps of two layers."""
    torch.manual_seed(0)
    one, two = layer(8, 16).to(where(device)), layer(16, 3).to(where(device))
    data = graph().to(where(device))
    optimizer = torch.optim.AdamW([*one.parameters(), *two.parameters()], 1e-2)
    losses = []
    for _ in range(3):
        out = two(one(data.x, data.edge_index).relu(), data.edge_index)
        loss = torch.nn.functional.cross_entropy(out, data.y)
        loss.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
        optimizer.zero_grad()
        losses.append(loss.item())
    return Ran(out.device, losses)


def isomorphism(inputs: int, outputs: int) -> Any:
    return nn.GINConv(torch.nn.Sequential(torch.nn.Linear(inputs, outputs)))


LAYERS = {
    "GCN": nn.GCNConv,
    "SAGE": nn.SAGEConv,
    "GAT": nn.GATConv,
    "GATv2": nn.GATv2Conv,
    "Transformer": nn.TransformerConv,
    "GIN": isomorphism,
    "Graph": nn.GraphConv,
    "Cheb": functools.partial(nn.ChebConv, K=2),
    "TAG": nn.TAGConv,
    "SG": nn.SGConv,
}
for _name, _layer in LAYERS.items():
    checks.add(f"{_name} layers", functools.partial(train, layer=_layer), 1e-3)


@checks.check("batches and pooling")
def batches(device: str) -> Ran:
    loader = DataLoader([graph(seed) for seed in range(4)], batch_size=2)
    pooled = []
    for batch in (batch.to(where(device)) for batch in loader):
        pooled += [pool(batch.x, batch.batch) for pool in (nn.global_mean_pool, nn.global_max_pool, nn.global_add_pool)]
    return Ran(pooled[0].device, [value.cpu() for value in pooled])


@checks.check("utilities of graphs")
def utilities(device: str) -> Ran:
    from torch_geometric import utils

    edges = graph().edge_index.to(where(device))
    loops, _ = utils.add_self_loops(edges)
    found = [utils.degree(edges[0], 10), utils.to_undirected(edges), utils.coalesce(loops), utils.to_dense_adj(edges)]
    return Ran(edges.device, [value.cpu() for value in found])


@checks.check("scatter and softmax")
def scatter(device: str) -> Ran:
    from torch_geometric import utils

    data = graph().to(where(device))
    index = data.edge_index[0]
    values = data.x[data.edge_index[1]]
    found = [utils.scatter(values, index, reduce=reduce) for reduce in ("sum", "mean", "max", "min")]
    return Ran(values.device, [value.cpu() for value in [*found, utils.softmax(values, index)]])
