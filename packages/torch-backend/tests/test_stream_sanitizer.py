"""TB_LAYERS=races: what is reported as a race between streams, with both lines, and what is not."""

import pytest
from conftest import Script

PLANTED = {
    "a side stream reads what the default one writes": """
        x = torch.randn(1000, device="tb")  # first
        with side:
            y = x * 2  # second
    """,
    "the default stream reads the results of a side stream": """
        side.wait_stream(torch.tb.current_stream())
        with side:
            y = torch.ones(1000, device="tb")  # first
        z = y + 1  # second
    """,
    "inputs are filled while another stream computes with them": """
        buffer, weight = torch.zeros(8, 8, device="tb"), torch.ones(8, 8, device="tb")
        side.wait_stream(torch.tb.current_stream())
        with side:
            y = buffer @ weight  # first
        buffer[:4].copy_(torch.ones(4, 8, device="tb"))  # second
    """,
    "the host reads a copy that is queued": """
        pinned, x = torch.empty(100).pin_memory(), torch.ones(100, device="tb")
        pinned.copy_(x, non_blocking=True)  # first
        total = pinned.sum()  # second
    """,
    "the host refills a batch that is being copied": """
        pinned = torch.empty(100).pin_memory()
        x = torch.empty(100, device="tb")
        x.copy_(pinned, non_blocking=True)  # first
        pinned.fill_(2)  # second
    """,
    "a tensor is freed while another stream uses it": """
        x = torch.ones(5000, device="tb")
        side.wait_stream(torch.tb.current_stream())
        with side:
            y = x * 2  # first
        del x
        z = torch.zeros(5000, device="tb")  # second
    """,
    "a backward pass reads what a side stream writes": """
        x = torch.ones(100, device="tb", requires_grad=True)
        weight = torch.ones(100, device="tb")
        loss = (x * weight).sum()
        with side:
            side.wait_stream(torch.tb.default_stream())
            weight.data.fill_(2)  # first
        loss.backward()  # second
    """,
    "a graph reads what another stream writes": """
        x = torch.ones(100, device="tb")
        y = x * 2
        graph = torch.tb.Graph()
        with torch.tb.graph(graph):
            y = x * 2
        with side:
            x.fill_(3)  # first
        graph.replay()  # second
    """,
    "two streams write columns that overlap": """
        x = torch.zeros(50, 10, device="tb")
        side.wait_stream(torch.tb.current_stream())
        x[:, :6].fill_(1)  # first
        with side:
            x[:, 5:].fill_(2)  # second
    """,
}

ORDERED = {
    "wait_stream": """
        x = torch.randn(1000, device="tb")
        side.wait_stream(torch.tb.current_stream())
        with side:
            y = x * 2
        torch.tb.current_stream().wait_stream(side)
        z = y + x.add_(1)
    """,
    "events": """
        x, event = torch.randn(1000, device="tb"), torch.tb.Event()
        event.record()
        with side:
            event.wait()
            y = x * 2
            event.record()
        event.synchronize()
        y.add_(1)
        x.zero_()
    """,
    "a number that the host reads": """
        x = torch.randn(1000, device="tb")
        total = x.sum().item()
        with side:
            y = x * 2
        side.synchronize()
        x.zero_()
    """,
    "a blocking copy": """
        x = torch.tensor([1.0, 2.0], device="tb")
        with side:
            y = x * 2
            numbers = y.tolist()
        y.add_(1)
    """,
    "record_stream": """
        for _ in range(20):
            x = torch.ones(5000, device="tb")
            side.wait_stream(torch.tb.current_stream())
            with side:
                y = x * 2
            x.record_stream(side)
            del x
            z = torch.zeros(5000, device="tb")
    """,
    "memory that is used again on its own stream": """
        for _ in range(20):
            with side:
                y = torch.ones(5000, device="tb") * 2
            z = torch.ones(5000, device="tb") * 2
    """,
    "pinned memory that is freed and used again": """
        x, addresses = torch.ones(5000, device="tb"), []
        for number in range(200):
            pinned = x.to("cpu", non_blocking=True)
            addresses.append(pinned.data_ptr())
            side.wait_stream(torch.tb.current_stream())
            with side:
                y = pinned.to("tb", non_blocking=True)
            del pinned
            if number == 100:  # A busy host could queue all of them before the device gives the first one back.
                side.synchronize()
        assert len(set(addresses)) < len(addresses)
    """,
    "columns side by side": """
        x = torch.zeros(50, 10, device="tb")
        side.wait_stream(torch.tb.current_stream())
        x[:, :5].fill_(1)
        with side:
            x[:, 5:].fill_(2)
    """,
    "views and sizes": """
        x = torch.zeros(50, 10, device="tb")
        with side:
            y = x.t()[3:], x.reshape(-1, 5), x.shape, torch.empty_like(x), x.detach()
    """,
    "a callback": """
        import threading
        ran, pinned, x = threading.Event(), torch.empty(100).pin_memory(), torch.ones(100, device="tb")
        pinned.copy_(x, non_blocking=True)
        import tb_stream
        tb_stream.current_stream().add_callback(lambda: (pinned.sum(), ran.set()))
        ran.wait()
        pinned.sum()
    """,
    "a backward pass over two streams": """
        x = torch.ones(100, device="tb", requires_grad=True)
        side.wait_stream(torch.tb.current_stream())
        with side:
            y = x * 2
        torch.tb.current_stream().wait_stream(side)
        (y * x).sum().backward()
        x.grad.add_(1)
    """,
    "replays of graphs": """
        x = torch.ones(100, device="tb")
        y = x * 2 + 1
        graph = torch.tb.Graph()
        with torch.tb.graph(graph):
            y = x * 2 + 1
        for turn in range(3):
            x.fill_(turn)
            graph.replay()
            z = y + 1
        side.wait_stream(torch.tb.current_stream())
        with side:
            graph.replay()
    """,
    "prefetching": """
        batches = [torch.full((100,), float(i)).pin_memory() for i in range(4)]
        ready = None
        for batch in [*batches, None]:
            current = ready
            if batch is not None:
                with side:
                    ready = batch.to("tb", non_blocking=True)
                    arrived = side.record_event()
            if current is not None:
                total = current.sum()
            torch.tb.current_stream().wait_event(arrived)
            if ready is not None:
                ready.record_stream(torch.tb.current_stream())
    """,
}

START = "import torch\nside = torch.Stream(device='tb')\n"
END = """
for race in torch.tb.stream_races():
    print(race.first.line, race.first.launch, "|", race.second.launch, race.second.line)
"""


def program(body: str) -> str:
    lines = [line[8:] for line in body.strip("\n").splitlines()]
    return START + "\n".join(lines) + END


def line_of(code: str, mark: str) -> int:
    return next(number for number, line in enumerate(code.splitlines(), 1) if line.endswith(f"# {mark}"))


@pytest.mark.parametrize("name", PLANTED)
def test_a_missing_wait_is_reported_once_with_both_lines(script: Script, name: str) -> None:
    code = program(PLANTED[name])
    done = script(code, TB_LAYERS="races")
    found = done.stdout.splitlines()
    assert len(found) == 1, done.stdout + done.stderr
    first, second = found[0].split("|")
    assert f"<string>:{line_of(code, 'first')} in <module>" in first
    assert f"<string>:{line_of(code, 'second')} in <module>" in second
    assert done.stderr.count("tb stream race:") == 2, done.stderr  # the race, and the sum at the end


@pytest.mark.parametrize("name", ORDERED)
def test_an_order_of_any_kind_is_seen(script: Script, name: str) -> None:
    done = script(program(ORDERED[name]), TB_LAYERS="races")
    assert done.stdout == "", done.stdout + done.stderr
    assert "stream race" not in done.stderr, done.stderr


def test_it_is_enabled_by_one_line_before_the_first_use(script: Script) -> None:
    enable = "import torch\ntorch.tb.enable_stream_sanitizer()\ntorch.tb.enable_stream_sanitizer()\n"
    done = script(enable + program(PLANTED["a side stream reads what the default one writes"]))
    assert len(done.stdout.splitlines()) == 1, done.stdout + done.stderr


def test_after_the_first_use_it_says_what_to_do(script: Script) -> None:
    code = """
        import torch
        torch.ones(1, device="tb")
        for call in torch.tb.enable_stream_sanitizer, torch.tb.stream_races:
            try:
                call()
            except RuntimeError as error:
                assert "TB_LAYERS=races" in str(error), error
            else:
                raise AssertionError(call)
    """
    script(code)


def test_races_can_be_cleared_and_are_found_again(script: Script) -> None:
    code = """
        import torch
        side, x = torch.Stream(device="tb"), torch.ones(100, device="tb")
        def race():
            x.add_(1)
            with side:
                y = x * 2
            torch.tb.synchronize()
        race(); race()
        assert len(torch.tb.stream_races(clear=True)) == 1
        assert torch.tb.stream_races() == []
        race()
        assert len(torch.tb.stream_races()) == 1
    """
    script(code, TB_LAYERS="races")
