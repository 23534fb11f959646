"""Programs that make, print, save and compute with tensors of the CPU."""

from __future__ import annotations

import copy
import io
import pathlib
import pickle
import tempfile
import warnings

import numpy
import torch
from torch import nn


def printing() -> None:
    torch.manual_seed(0)
    for dtype in (torch.bool, torch.uint8, torch.int64, torch.bfloat16, torch.float64, torch.complex64):
        print((torch.randn(2, 3) * 3).to(dtype), torch.empty(0, dtype=dtype), torch.tensor(1, dtype=dtype))
    print(torch.randn(1200), torch.tensor([1e-10, 1.0, torch.nan, torch.inf]), torch.float8_e4m3fn, torch.strided)
    print(nn.Parameter(torch.ones(2)), torch.ones(2, requires_grad=True) * 2)
    torch.set_printoptions(precision=2, sci_mode=True)
    print(torch.randn(3), torch.Size([1, 2]), torch.device("cpu"), torch.Generator().device, torch.randn(3).storage())


def random_numbers() -> None:
    torch.manual_seed(7)
    print(
        torch.rand(2), torch.randn(2), torch.randint(9, (2,)), torch.randperm(5), torch.bernoulli(torch.full((3,), 0.5))
    )
    state = torch.get_rng_state()
    first = torch.rand(3)
    torch.set_rng_state(state)
    with torch.random.fork_rng():
        torch.manual_seed(1)
        print(torch.rand(1))
    print(torch.equal(torch.rand(3), first), torch.initial_seed(), state.sum(), state.shape)
    generator = torch.Generator().manual_seed(3)
    print(torch.multinomial(torch.ones(4), 2, generator=generator), torch.empty(2).normal_(generator=generator))
    print(nn.functional.dropout(torch.ones(8), 0.5), torch.nn.init.trunc_normal_(torch.empty(3)))


def distributions() -> None:
    torch.manual_seed(0)
    d = torch.distributions
    for distribution in (
        d.Normal(0.0, 1.0), d.Bernoulli(0.3), d.Categorical(torch.ones(3)), d.Gamma(2.0, 1.0), d.Beta(1.0, 2.0),
        d.Dirichlet(torch.ones(3)), d.Poisson(3.0), d.StudentT(4.0), d.MultivariateNormal(torch.zeros(2), torch.eye(2)),
    ):  # fmt: skip
        sample = distribution.sample((2,))
        print(distribution, sample, distribution.log_prob(sample))


def fourier_transforms() -> None:
    torch.manual_seed(0)
    x = torch.randn(16)
    print(torch.fft.rfft(x), torch.fft.ifft(torch.fft.fft(x)), torch.fft.fftfreq(4), torch.fft.fft2(x.view(4, 4)))
    window = torch.hann_window(8)
    spectrum = torch.stft(x, 8, window=window, return_complex=True)
    print(spectrum, torch.istft(spectrum, 8, window=window))


def linear_algebra() -> None:
    torch.manual_seed(0)
    x = torch.randn(4, 4, dtype=torch.double)
    symmetric = x @ x.T + torch.eye(4, dtype=torch.double)
    print(torch.linalg.eigvalsh(symmetric), torch.linalg.cholesky(symmetric), torch.linalg.svdvals(x))
    print(torch.linalg.solve(symmetric, x), torch.linalg.det(x), torch.linalg.qr(x).R, torch.linalg.matrix_exp(x))
    print(torch.einsum("ij,jk->ik", x, x), torch.baddbmm(x[None], x[None], x[None]), torch.mv(x, x[0]))


def sorting_and_indexing() -> None:
    torch.manual_seed(0)
    x = torch.randint(5, (3, 6))
    print(x.sort(stable=True), x.topk(2), x.unique(return_counts=True), x.median(), x.mode(), x.cumsum(0))
    print(x.nonzero(), x[x > 2], torch.searchsorted(torch.arange(5), x), torch.histc(x.float(), 5))
    print(torch.zeros(3, 6).scatter_add_(0, x % 3, x.float()), torch.take_along_dim(x, x.argsort(1), 1))


def sparse() -> None:
    coo = torch.sparse_coo_tensor([[0, 1, 1], [2, 0, 2]], [3.0, 4.0, 5.0], (2, 3))
    print(coo, coo.coalesce() @ torch.ones(3, 2), coo.to_dense(), coo + coo)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        csr = coo.to_sparse_csr()
    print(csr, csr @ torch.ones(3, 2), torch.sparse.sum(coo, 0), csr.crow_indices())


def nested() -> None:
    torch.manual_seed(0)
    parts = [torch.randn(2, 4), torch.randn(3, 4)]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        strided = torch.nested.nested_tensor(parts, requires_grad=True)
    print(strided, torch.nested.to_padded_tensor(strided * 2, 0.0))
    jagged = torch.nested.nested_tensor(parts, layout=torch.jagged, requires_grad=True)
    nn.functional.linear(jagged, torch.ones(2, 4)).values().sum().backward()
    print(jagged.grad.values(), jagged.offsets(), jagged.shape[0])
    query = torch.nested.nested_tensor([torch.randn(n, 2, 4) for n in (3, 5)], layout=torch.jagged).transpose(1, 2)
    print(nn.functional.scaled_dot_product_attention(query, query, query).values())


def saving() -> None:
    torch.manual_seed(0)
    with tempfile.TemporaryDirectory() as folder:
        file = pathlib.Path(folder, "all.pt")
        weight = torch.randn(3, 2)
        torch.save({"weight": weight, "view": weight[1:], "model": nn.Linear(2, 2).state_dict()}, file)
        for settings in ({}, {"mmap": True}, {"map_location": "cpu"}, {"weights_only": False}):
            loaded = torch.load(file, **settings)
            print(loaded, loaded["view"].untyped_storage().data_ptr() == loaded["weight"].untyped_storage().data_ptr())
        print(file.stat().st_size, torch.serialization.get_default_load_endianness())


def pickling_and_copying() -> None:
    torch.manual_seed(0)
    model = nn.Sequential(nn.Linear(2, 2), nn.Linear(2, 2))
    model[1].weight = model[0].weight
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        print(other, other[0].weight is other[1].weight, other[0].weight)
    storage = torch.arange(4).untyped_storage()
    file = io.BytesIO()
    torch.save(storage, file)
    file.seek(0)
    print(torch.load(file).tolist(), len(file.getvalue()), copy.deepcopy(storage).device)


def numpy_and_dlpack() -> None:
    x = torch.arange(6.0).reshape(2, 3)
    array = numpy.from_dlpack(x)
    array[0, 0] = 9
    print(x, torch.from_dlpack(array), x.__dlpack_device__(), torch.from_numpy(numpy.ones(2)), numpy.asarray(x).sum())
    print(
        torch.frombuffer(bytearray(b"abcd"), dtype=torch.uint8),
        x.numpy(force=True),
        torch.asarray(array).data_ptr() == x.data_ptr(),
    )


def errors() -> None:
    def attempt(function: object) -> None:
        try:
            assert callable(function)
            function()
        except Exception as error:
            print(type(error), error)

    x = torch.ones(2, 3)
    attempt(lambda: x @ x)
    attempt(lambda: x.cuda())
    attempt(lambda: torch.ones(2, device="nothing"))
    attempt(lambda: x[5])
    attempt(lambda: torch.zeros(2).long()[torch.tensor([7])])
    attempt(lambda: nn.functional.nll_loss(x, torch.tensor([0, 9])))
    attempt(lambda: x.requires_grad_().sum().backward(torch.ones(3)))
    attempt(lambda: torch.histc(torch.arange(3), 3))
    attempt(lambda: torch.nn.Linear(2, 2)(torch.ones(2, 2, dtype=torch.long)))
    attempt(lambda: nn.Linear(2, 2).load_state_dict({}))
    attempt(lambda: torch.load(io.BytesIO(b"no file of torch")))


def defaults_and_flags() -> None:
    with torch.device("cpu"):
        print(torch.ones(2).device, torch.get_default_device())
    torch.set_default_dtype(torch.float64)
    print(torch.ones(2).dtype, torch.get_default_dtype())
    torch.use_deterministic_algorithms(True)
    print(torch.are_deterministic_algorithms_enabled(), torch.empty(2))
    torch.use_deterministic_algorithms(False)
    torch.set_float32_matmul_precision("high")
    print(torch.get_float32_matmul_precision(), torch.backends.mkldnn.enabled, torch.backends.mkldnn.is_available())
    print(
        torch.cuda.is_available(),
        torch.cuda.device_count(),
        torch.xpu.is_available(),
        torch.backends.mps.is_available(),
    )
    with torch.backends.mkldnn.flags(enabled=False):
        print(nn.functional.conv2d(torch.ones(1, 1, 3, 3), torch.ones(1, 1, 2, 2)))
    torch.cuda.manual_seed_all(0)
    print(torch.is_inference_mode_enabled(), torch.inference_mode()(lambda: torch.ones(1).is_inference())())


def profiler() -> None:
    torch.manual_seed(0)
    model = nn.Linear(4, 4)
    with torch.profiler.profile() as profile, torch.profiler.record_function("step"):
        model(torch.ones(2, 4)).relu().sum().backward()
    for event in sorted(profile.key_averages(), key=lambda event: event.key):
        print(event.key, event.count, event.device_type)
    print(profile.key_averages().table(row_limit=0).splitlines()[1].split())
    with torch.autograd.profiler.profile() as older:
        model(torch.ones(2, 4))
    print(sorted(event.name for event in older.function_events))


def complex_numbers() -> None:
    torch.manual_seed(0)
    x = torch.randn(3, dtype=torch.complex64, requires_grad=True)
    x.abs().sum().backward()
    print(x, x.grad, torch.view_as_real(x), x.angle(), torch.polar(torch.ones(2), torch.ones(2)), x.conj().is_conj())


def foreach_and_resizing() -> None:
    lists = [torch.ones(2), torch.ones(3)]
    print(torch._foreach_add(lists, 1), torch._foreach_norm(lists), torch.nn.utils.parameters_to_vector(lists))
    x = torch.arange(4.0)
    x.resize_(2, 2).t_().add_(1)
    print(x, x.untyped_storage().nbytes(), torch.as_strided(x, (3,), (1,)), x.data.untyped_storage().device)
