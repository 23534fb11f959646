"""nn.DataParallel: a model on the CPU stays there, and one on tb is divided among the devices."""

import pytest
import torch
from conftest import Script


def test_a_model_on_the_cpu_stays_there_and_is_called_there() -> None:
    model = torch.nn.Linear(2, 2)
    for parallel in (torch.nn.DataParallel(model), torch.nn.DataParallel(model, device_ids=[0])):
        result = parallel(torch.ones(3, 2))
        assert result.device.type == model.weight.device.type == "cpu"
        assert torch.equal(result, model(torch.ones(3, 2)))


@pytest.mark.parametrize("order", ["before", "after"])
def test_a_model_on_tb_takes_inputs_of_the_cpu(order: str) -> None:
    model = torch.nn.Linear(2, 2)
    if order == "before":
        model.to("tb")
    parallel = torch.nn.DataParallel(model)
    if order == "after":
        parallel.to("tb")
    result = parallel(torch.ones(3, 2))
    assert result.device == torch.device("tb", 0)
    assert torch.equal(result, model(torch.ones(3, 2, device="tb")))


def test_a_model_without_tensors_is_called_with_what_it_is_given() -> None:
    assert torch.nn.DataParallel(torch.nn.ReLU())(torch.ones(2)).device.type == "cpu"


TWO_DEVICES = """
    import copy, torch

    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.Sequential(torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.Linear(8, 3))
            self.phase = torch.nn.Parameter(torch.ones(3, dtype=torch.complex64))
            self.devices = []  # shared by the replicas

        def forward(self, x, *, scale):
            self.devices.append(x.device)
            return self.layers(x) * scale * self.phase.real, {"sum": x.sum()}

    torch.manual_seed(0)
    model = Model().double()  # a batch of three is normalized: float32 has too few digits for its gradients
    expected = copy.deepcopy(model)
    parallel = torch.nn.DataParallel(model.to("tb"))
    x = torch.randn(6, 4, dtype=torch.float64)
    result, others = parallel(x, scale=torch.full((6, 1), 2.0))
    assert sorted(str(device) for device in model.devices) == ["tb:0", "tb:1"], model.devices
    assert result.device == others["sum"].device == torch.device("tb:0")
    result.square().sum().backward()

    parts = [expected(part, scale=2.0) for part in x.chunk(2)]
    torch.testing.assert_close(result.cpu(), torch.cat([part[0] for part in parts]))
    torch.testing.assert_close(others["sum"].cpu(), torch.stack([part[1]["sum"] for part in parts]))
    torch.cat([part[0] for part in parts]).square().sum().backward()
    for (name, found), wanted in zip(model.named_parameters(), expected.parameters()):
        torch.testing.assert_close(found.grad.cpu(), wanted.grad, msg=lambda text: f"{name}: {text}")
    assert model.layers[1].num_batches_tracked.item() == 1, "the first replica has the model's own buffers"
    with torch.no_grad():
        torch.testing.assert_close(parallel(x, scale=torch.ones(6, 1))[0], torch.cat(
            [model(part, scale=1.0)[0] for part in x.to("tb").chunk(2)]))
"""


def test_forward_and_backward_on_two_devices(script: Script) -> None:
    script(TWO_DEVICES, TB_CPU_DEVICES="2", PYTHONWARNINGS="ignore")


def test_the_functions_of_comm_on_two_devices(script: Script) -> None:
    code = """
    import torch
    from torch.nn.parallel import comm

    x = torch.arange(12.0).reshape(4, 3)
    first, second = comm.scatter(x, [0, 1], chunk_sizes=[1, 3])
    assert (first.device, second.device) == (torch.device("tb:0"), torch.device("tb:1"))
    assert first.tolist() == x[:1].tolist() and second.tolist() == x[1:].tolist()
    out = (torch.empty(3, 3, device="tb:0"), torch.empty(1, 3, device="tb:1"))
    comm.scatter(x, out=out)
    assert out[0].tolist() == x[:3].tolist() and out[1].tolist() == x[3:].tolist()
    for destination, device in ((None, "tb:0"), (1, "tb:1"), ("cpu", "cpu"), (torch.device("tb:1"), "tb:1")):
        gathered = comm.gather([first, second], destination=destination)
        assert gathered.device == torch.device(device) and gathered.tolist() == x.tolist()
    assert comm.gather([first, second], out=torch.empty(4, 3)).tolist() == x.tolist()
    assert [one.device.index for one in comm.broadcast(x, [0, 1])] == [0, 1]
    places = [torch.empty(4, 3, device="tb:0"), torch.empty(4, 3, device="tb:1")]
    comm.broadcast(x, out=places)
    assert all(one.tolist() == x.tolist() for one in places)
    copies = comm.broadcast_coalesced([first, first * 2], [0, 1])
    assert copies[1][1].device.index == 1 and copies[1][1].tolist() == (x[:1] * 2).tolist()
    assert copies[0][0].data_ptr() == first.data_ptr()
    """
    script(code, TB_CPU_DEVICES="2")


def test_pytorch_still_takes_the_device_without_asking_where_the_model_is(script: Script) -> None:
    """When this fails, _data_parallel.py need not replace the methods of DataParallel any more."""
    code = """
    import torch
    torch.nn.DataParallel.__init__ = torch.nn.DataParallel.__init__.__wrapped__
    print(torch.nn.DataParallel(torch.nn.Linear(2, 2)).module.weight.device)
    """
    assert script(code, TB_CPU_DEVICES="1").stdout.strip() == "tb:0"


def test_pytorch_still_has_no_copies_among_devices_without_cuda(script: Script) -> None:
    """When this fails, _data_parallel.py need not add functions to torch._C any more."""
    code = "import torch; print(torch.version.cuda is None and hasattr(torch._C, '_scatter'))"
    assert script(code, TORCH_DEVICE_BACKEND_AUTOLOAD="0").stdout.strip() == "False"
