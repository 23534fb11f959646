"""What device kernels that sort, select and draw promise beyond results: errors, waits and distributions."""

from __future__ import annotations

import pytest
from conftest import RunPython


@pytest.fixture(scope="module")
def variables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    cache = str(tmp_path_factory.mktemp("kernels"))
    return {"TB_DRIVER": "sim", "TB_KERNEL_CACHE": cache, "TB_FALLBACK": "error"}


ERRORS = """
    import torch
    x = torch.arange(12.0, device="tb").view(3, 4)

    def refused(call, text, at_call=False):
        try:
            call()
            if at_call:
                raise SystemExit(f"no error at the call: {text}")
            torch.tb.synchronize()
        except (RuntimeError, IndexError) as error:
            assert text in str(error), error
        else:
            raise SystemExit(f"no error: {text}")
        assert (x + 1).sum().item() == 78  # the device is usable

    def index(*places):
        return torch.tensor(places, device="tb")

    beyond = "index out of range"
    refused(lambda: x[index(0, 3)], beyond)
    refused(lambda: x[:, index(-5)], beyond)
    refused(lambda: x.clone().index_put_((index(3),), x[0]), beyond)
    refused(lambda: x.index_fill(0, index(3), 1.0), beyond)
    refused(lambda: x.index_copy(0, index(-1), x[:1]), beyond)
    refused(lambda: x.take(index(12)), beyond)
    refused(lambda: x.masked_scatter(x > 2, x[0]), "the source has fewer elements than the mask chooses")
    refused(lambda: torch.multinomial(index(1, -1).float(), 1), "a condition that the device computed is false")
    refused(lambda: torch.multinomial(index(1, -1).float(), 5, True), "a weight is below 0", at_call=True)
    refused(lambda: torch.multinomial(index(0, 0).float(), 5, True), "sum to 0", at_call=True)
    refused(lambda: index(1, -1).bincount(), "non-negative", at_call=True)
    refused(lambda: x.repeat_interleave(index(1, -1, 2), 0), "repeats can not be negative", at_call=True)
    refused(lambda: x.topk(5), "out of range", at_call=True)
    refused(lambda: x.kthvalue(5), "out of range", at_call=True)
    refused(lambda: x[index(0, 1), index(0, 1, 2)], "could not be broadcast together", at_call=True)
    refused(lambda: x.masked_select(x), "expected BoolTensor", at_call=True)
    refused(lambda: torch.bucketize(x, x), "boundaries tensor must be 1 dimension", at_call=True)
    refused(lambda: x.put_(index(1), x[0].long()[:1]), "same dtype", at_call=True)
"""


def test_wrong_indices_and_arguments_are_reported(run_python: RunPython, variables: dict[str, str]) -> None:
    run_python(ERRORS, env=variables)


DRAWING = """
    import torch

    weights = torch.tensor([[1.0, 0.0, 3.0, 4.0], [0.0, 2.0, 0.0, 2.0]], device="tb")
    shares = weights.cpu() / weights.cpu().sum(1, keepdim=True)
    torch.manual_seed(7)
    drawn = torch.multinomial(weights, 20_000, replacement=True).cpu()
    for row in range(2):
        found = drawn[row].bincount(minlength=4) / 20_000
        assert (found - shares[row]).abs().max() < 0.02, found
        assert found[shares[row] == 0].sum() == 0

    many = weights[0].expand(20_000, 4)
    once = torch.multinomial(many, 1).cpu().view(-1).bincount(minlength=4) / 20_000
    assert (once - shares[0]).abs().max() < 0.02, once
    two = torch.multinomial(many[:500], 2).cpu()
    assert (two[:, 0] != two[:, 1]).all() and (two != 1).all()

    def again(**settings):
        torch.manual_seed(11)
        return torch.multinomial(weights, settings.pop("count"), **settings).cpu()

    for settings in ({"count": 2}, {"count": 50, "replacement": True}):
        assert again(**settings).equal(again(**settings))
    assert torch.multinomial(weights.half(), 3, replacement=True).shape == (2, 3)
"""


def test_draws_have_the_weights_as_frequencies_and_follow_the_seed(
    run_python: RunPython, variables: dict[str, str]
) -> None:
    run_python(DRAWING, env=variables)


DETERMINISTIC = """
    import torch
    x, index = torch.ones(4, device="tb"), torch.zeros(9, dtype=torch.long, device="tb")

    def fallen(call):
        torch.tb.reset_fallbacks()
        call()
        return [row.operator for row in torch.tb.fallbacks()]

    torch.use_deterministic_algorithms(True)
    ones = torch.ones(9, device="tb")
    assert fallen(lambda: x.index_add(0, index, ones)) == ["aten::index_add.out"]
    assert fallen(lambda: x.index_put((index,), ones, accumulate=True)) == ["aten::_index_put_impl_"]
    whole = x.long()
    assert fallen(lambda: whole.index_add(0, index, ones.long())) == []  # exact in every order
    assert whole.index_add(0, index, ones.long()).tolist() == [10, 1, 1, 1]
    torch.use_deterministic_algorithms(False)
    assert fallen(lambda: x.index_put((index,), ones, accumulate=True)) == []
"""


def test_sums_that_depend_on_the_order_fall_back_if_that_is_forbidden(
    run_python: RunPython, variables: dict[str, str]
) -> None:
    run_python(DETERMINISTIC, env={**variables, "TB_FALLBACK": "allow"})


WAITING = """
    import torch
    x = torch.randn(50, 30, device="tb")
    torch.tb.synchronize()
    torch.tb.set_sync_debug_mode("error")
    for _ in range(20):  # a refused copy writes to no memory of the host that is given back
        try:
            x[0, 0].item()
        except RuntimeError as error:
            assert "waits for the device" in str(error)
    x.sort(), x.topk(3), x.cumsum(0), x.median(1), x.flip(0), x.roll(2)
    x.masked_scatter(x > 0, x), x.index_select(0, torch.arange(3, device="tb")), torch.searchsorted(x, x)
    x[torch.arange(3, device="tb")], x.index_put((torch.arange(3, device="tb"),), x[:3])
    torch.multinomial(x.exp(), 1), torch.multinomial(x.exp(), 3)
    try:
        x[x > 0]
    except RuntimeError:
        pass
    else:
        raise SystemExit("a mask's count did not wait")
"""


def test_only_results_of_unknown_size_wait(run_python: RunPython, variables: dict[str, str]) -> None:
    run_python(WAITING, env=variables)
