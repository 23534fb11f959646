"""Matrix products and linear algebra. Batches are of matrices of 32 x 32."""

from __future__ import annotations

from functools import partial

import torch
from torch import Tensor

from benchmarks.sweep.operator import Inputs, Make, of_matrix, operators

SIZE = 32


def _batch(inputs: Inputs) -> Tensor:
    return inputs.normal(inputs.rows(SIZE * SIZE), SIZE, SIZE)


def _well_conditioned(inputs: Inputs) -> Tensor:
    """A batch of symmetric matrices with eigenvalues of at least 1."""
    factors = _batch(inputs).cpu()
    return (factors @ factors.mT / SIZE + torch.eye(SIZE)).to(inputs.device)


PRODUCTS: dict[str, Make] = {
    "matmul": lambda inputs: partial(torch.matmul, inputs.matrix(), inputs.matrix()),
    "matmul transposed": lambda inputs: partial(torch.matmul, inputs.matrix(), inputs.matrix().t()),
    "matmul narrow": lambda inputs: partial(torch.matmul, inputs.normal(inputs.rows(64), 64), inputs.normal(64, 64)),
    "addmm": lambda inputs: partial(torch.addmm, inputs.normal(inputs.side), inputs.matrix(), inputs.matrix()),
    "mv": lambda inputs: partial(torch.mv, inputs.matrix(), inputs.normal(inputs.side)),
    "dot": lambda inputs: partial(torch.dot, inputs.normal(), inputs.normal()),
    "outer": lambda inputs: partial(torch.outer, inputs.normal(inputs.side), inputs.normal(inputs.side)),
    "bmm": lambda inputs: partial(torch.bmm, _batch(inputs), _batch(inputs)),
    "baddbmm": lambda inputs: partial(torch.baddbmm, _batch(inputs), _batch(inputs), _batch(inputs)),
    "einsum": lambda inputs: partial(torch.einsum, "bij,bkj->bik", _batch(inputs), _batch(inputs)),
    "cdist": lambda inputs: partial(torch.cdist, inputs.normal(inputs.side, 16), inputs.normal(inputs.side, 16)),
    "trace": of_matrix(torch.trace),
}
SOLVERS: dict[str, Make] = {
    "solve 32x32": lambda inputs: partial(torch.linalg.solve, _well_conditioned(inputs), _batch(inputs)),
    "inv 32x32": lambda inputs: partial(torch.linalg.inv, _well_conditioned(inputs)),
    "cholesky 32x32": lambda inputs: partial(torch.linalg.cholesky, _well_conditioned(inputs)),
    "slogdet 32x32": lambda inputs: partial(torch.linalg.slogdet, _well_conditioned(inputs)),
    "solve_triangular 32x32": lambda inputs: partial(
        torch.linalg.solve_triangular, _well_conditioned(inputs).tril(), _batch(inputs), upper=False
    ),
    "eigvalsh 32x32": lambda inputs: partial(torch.linalg.eigvalsh, _well_conditioned(inputs)),
}

OPERATORS = operators("linear algebra", PRODUCTS | SOLVERS)
