"""What torch_backend.integrations replaces in clients and what it leaves, with clients that only look like the real."""

from __future__ import annotations

import pathlib

import pytest
from conftest import RunPython
from fake_clients import DISTRIBUTED_TYPE, GET_DEVICE, STATE, Folder
from torch_backend.integrations.client import Devices, Shape, with_constant


@pytest.fixture
def clients(tmp_path: pathlib.Path) -> Folder:
    return Folder(tmp_path)


DICTIONARIES = """
    import json, sys, types
    import peft.utils, peft.utils.other, accelerate

    def described(value):
        if isinstance(value, types.FunctionType):
            constants = [str(constant) for constant in value.__code__.co_consts if not hasattr(constant, "co_code")]
            return [value.__code__.co_code.hex(), constants, sorted(vars(value))]
        if isinstance(value, property):
            return described(value.fget)
        if isinstance(value, type):
            return {name: described(entry) for name, entry in vars(value).items() if not name.startswith("__wea")}
        return type(value).__name__

    names = [name for name in sys.modules if name.split(".")[0] in ("peft", "accelerate")]
    print(json.dumps({name: [type(sys.modules[name]).__name__,
          {key: described(value) for key, value in vars(sys.modules[name]).items() if key != "__builtins__"}]
          for name in sorted(names)}))
"""


def test_a_client_that_would_take_the_cpu_takes_tb(run_python: RunPython, clients: Folder) -> None:
    clients.add_peft()
    code = "import torch; from peft.utils import infer_device; print(infer_device())"
    assert run_python(code, clients.environment).stdout == "tb\n"


def test_the_order_of_imports_does_not_matter(run_python: RunPython, clients: Folder) -> None:
    clients.add_peft()
    code = "import peft.utils; from peft.utils import infer_device; import torch; print(infer_device())"
    assert run_python(code, clients.environment).stdout == "tb\n"


def test_without_a_driver_a_client_behaves_as_without_us(run_python: RunPython, clients: Folder) -> None:
    clients.add_peft()
    code = "import torch; from peft.utils import infer_device; print(infer_device())"
    done = run_python(code, {**clients.environment, "TB_DRIVER": "missing"})
    assert (done.stdout, done.stderr) == ("cpu\n", "")


def test_an_explicit_device_keeps_its_meaning(run_python: RunPython, clients: Folder) -> None:
    clients.add("stable-baselines3", "2.9.0", {"stable_baselines3.common.utils": GET_DEVICE})
    code = """
        from stable_baselines3.common.utils import get_device
        print(get_device(), get_device("auto"), get_device(device="auto"), get_device("cpu"), get_device("cuda"))
    """
    assert run_python(code, clients.environment).stdout == "tb:0 tb:0 tb:0 cpu cpu\n"


def test_properties_and_constants_are_replaced(run_python: RunPython, clients: Folder) -> None:
    clients.add_accelerate()
    code = """
        from accelerate import Accelerator
        from accelerate.state import PartialState
        print(Accelerator(mixed_precision="fp16").device, Accelerator(cpu=True).device)
        assert type(vars(PartialState)["default_device"]) is property
    """
    assert run_python(code, clients.environment).stdout == "tb:0 cpu\n"


@pytest.mark.parametrize(
    ("variables", "result"),
    [
        ({"LOCAL_RANK": "0"}, "tb:0 MULTI_GPU tbccl 0"),
        ({"LOCAL_RANK": "1"}, "tb:1 MULTI_GPU tbccl 1"),
        ({"LOCAL_RANK": "3"}, "tb:1 MULTI_GPU tbccl 1"),
        ({}, "tb:0 NO None 0"),
        ({"LOCAL_RANK": "1", "ACCELERATE_TORCH_DEVICE": "cpu"}, "cpu NO None 0"),
        ({"LOCAL_RANK": "1", "TB_DRIVER": "missing"}, "cpu NO None none"),
    ],
)
def test_a_rank_of_a_launcher_gets_its_device_and_backend(
    run_python: RunPython, clients: Folder, variables: dict[str, str], result: str
) -> None:
    clients.add_accelerate()
    code = """
        import torch
        from accelerate.state import PartialState
        state = PartialState()
        current = torch.accelerator.current_device_index() if torch.accelerator.is_available() else "none"
        print(state.device, state.distributed_type.name, state.backend, current)
        assert PartialState(cpu=True).backend is None
        assert state._prepare_backend(backend="gloo")[0] == "gloo"
    """
    assert run_python(code, {**clients.environment, "TB_CPU_DEVICES": "2", **variables}).stdout == f"{result}\n"


def test_a_variable_of_a_client_wins(run_python: RunPython, clients: Folder) -> None:
    text = 'import os\nDEFAULT_DEVICE = os.environ.get("KERAS_TORCH_DEVICE", "cpu")'
    clients.add("keras", "3.15.0", {"keras.src.backend.torch.core": text})
    path = clients.environment
    code = "import torch; from keras.src.backend.torch.core import DEFAULT_DEVICE; print(DEFAULT_DEVICE)"
    assert run_python(code, path).stdout == "tb\n"
    assert run_python(code, {**path, "KERAS_TORCH_DEVICE": "cpu"}).stdout == "cpu\n"


@pytest.mark.parametrize("version", ["0.1.0", "0.21.7", "0.22.0", "1.0rc1", "7.3.dev0+local"])
def test_no_version_of_a_client_matters(run_python: RunPython, clients: Folder, version: str) -> None:
    clients.add_peft(version)
    code = "import torch; from peft.utils import infer_device; print(infer_device())"
    done = run_python(code, clients.environment)
    assert (done.stdout, done.stderr) == ("tb\n", "")


def test_a_place_that_differs_warns_once_and_is_left(run_python: RunPython, clients: Folder) -> None:
    clients.add_peft("0.22.0", "def infer_device(kind): return 'cpu'")
    path = clients.environment
    code = """
        import torch, peft, peft.utils, peft.utils.other
        print(peft.utils.infer_device(1), hasattr(peft.utils.infer_device, "__wrapped__"))
    """
    done = run_python(code, path)
    assert done.stdout == "cpu False\n"
    assert done.stderr.count("RuntimeWarning") == 1
    assert "peft.utils.other.infer_device of peft 0.22.0 has the parameters kind, not none" in done.stderr
    assert "may use the cpu although device tb is there" in done.stderr
    assert run_python(code, {**path, "PYTHONWARNINGS": "error::RuntimeWarning"}).stdout == "cpu False\n"
    assert run_python(code, {**path, "TB_DRIVER": "missing"}).stderr == ""


def test_a_place_that_is_not_imported_warns_of_nothing(run_python: RunPython, clients: Folder) -> None:
    clients.add("torch-geometric", "2.5.3", {"torch_geometric.data": "value = 1"})
    done = run_python("import torch_geometric.data, torch; print(torch_geometric.data.value)", clients.environment)
    assert (done.stdout, done.stderr) == ("1\n", "")


def test_new_parameters_with_defaults_are_passed_on(run_python: RunPython, clients: Folder) -> None:
    clients.add_peft("9.9", "def infer_device(prefer=None): return prefer or 'cpu'")
    path = clients.environment
    code = """
        import torch
        from peft.utils import infer_device
        print(infer_device(), infer_device("cpu"), infer_device(prefer="xpu"))
    """
    done = run_python(code, path)
    assert (done.stdout, done.stderr) == ("tb cpu xpu\n", "")


def test_other_places_of_a_client_are_replaced_all_the_same(run_python: RunPython, clients: Folder) -> None:
    state = STATE.replace("def default_device(self):", "def default_device(self, kind=None):").replace(
        'torch.device("cuda" if torch.cuda.is_available() else "cpu")', "torch.device(NAME)"
    )
    modules = {
        "accelerate.utils": DISTRIBUTED_TYPE,
        "accelerate.state": state.replace("import os, torch", "import os, torch\n    NAME = str().join('cpu')"),
        "accelerate.accelerator": "def other(): pass",
        "accelerate.checkpointing": "",
    }
    code = """
        import torch, accelerate.state, accelerate.accelerator, accelerate.checkpointing
        print(accelerate.state.PartialState().device)
        from torch_backend.integrations import report
        print(*report())
    """
    clients.add("accelerate", "1.15.0", modules)
    done = run_python(code, clients.environment)
    assert done.stderr.count("RuntimeWarning") == 1
    assert "PartialState.default_device of accelerate 1.15.0 does not refer to 'cpu'" in done.stderr
    assert done.stdout.startswith("cpu\n")
    for reason in ("does not refer to 'cpu'", "Accelerator.__init__, because it does not exist"):
        assert reason in done.stdout
    assert "replaced: accelerate.state.PartialState._prepare_backend" in done.stdout


@pytest.mark.parametrize(
    ("text", "difference"),
    [
        ("def infer_device(): return is_xpu_available() and 'cpu'", None),
        ("def infer_device(kind): return is_xpu_available() and 'cpu'", "has the parameters kind, not none"),
        ("def infer_device(): return 'cpu'", "does not refer to is_xpu_available"),
        ("def infer_device(): return is_xpu_available()", "does not refer to 'cpu'"),
        ("infer_device = 'cpu'", "is str, not a function"),
        ("infer_device = print", "does not refer to is_xpu_available, 'cpu'"),
        ("def infer_device(*a, k=1, **b): return is_xpu_available() and 'cpu'", None),
        ("def infer_device(*, k): return is_xpu_available() and 'cpu'", "has the parameters k, not none"),
    ],
)
def test_every_difference_is_named(text: str, difference: str | None) -> None:
    module: dict[str, object] = {}
    exec(text, module)
    assert Shape([], ["is_xpu_available"], ["cpu"]).difference(module["infer_device"]) == difference


@pytest.mark.parametrize(
    ("text", "difference"),
    [
        ("def get(device='auto'): ...", None),
        ("def get(device, kind=None): ...", None),
        ("def get(device, *more, **how): ...", None),
        ("def get(device, kind): ...", "has the parameters device, kind, not device"),
        ("def get(kind=None, device=None): ...", "has the parameters kind, device, not device"),
        ("def get(): ...", "has the parameters none, not device"),
    ],
)
def test_only_parameters_that_a_call_needs_matter(text: str, difference: str | None) -> None:
    module: dict[str, object] = {}
    exec(text, module)
    assert Shape(["device"]).difference(module["get"]) == difference


def test_a_tuple_of_devices_may_have_others() -> None:
    def known(device: str) -> bool:
        return device in ("cuda", "xpu", "npu", "new")

    def other(device: str) -> bool:
        return device in ("cuda", "npu") or device in (1, 2)  # type: ignore[comparison-overlap]

    devices = Devices(("cuda", "xpu"))
    assert Shape(None, (), [devices]).difference(known) is None
    assert Shape(None, (), [devices]).difference(other) == "does not refer to a tuple with cuda, xpu"
    changed = with_constant(known, devices, "tb")
    assert [changed("tb"), changed("new"), known("tb"), changed("cpu")] == [True, True, False, False]


def test_a_constant_of_a_copy_is_another() -> None:
    def known(device: str, *, names: tuple[str, ...] = ("cpu",)) -> bool:
        """Text."""
        return device in ("cpu", "mps") or device in names

    changed = with_constant(known, ("cpu", "mps"), ("cpu", "mps", "tb"))
    assert [changed("tb"), known("tb"), changed("x", names=("x",)), changed("x")] == [True, False, True, False]
    assert (changed.__name__, changed.__doc__) == ("known", "Text.")


def test_switched_off_nothing_of_a_client_is_touched(run_python: RunPython, clients: Folder) -> None:
    clients.add_peft()
    clients.add_accelerate()
    path = clients.environment
    without_us = run_python(DICTIONARIES, {**path, "TORCH_DEVICE_BACKEND_AUTOLOAD": "0"}).stdout
    assert run_python(DICTIONARIES, {**path, "TB_INTEGRATIONS": "0"}).stdout == without_us
    assert run_python(DICTIONARIES, path).stdout != without_us


def test_a_client_that_is_switched_off_is_warned_of_once(run_python: RunPython, clients: Folder) -> None:
    clients.add_accelerate()
    clients.add_peft()
    code = "import accelerate, peft"
    path = clients.environment
    for value, named in (("0", "accelerate"), ("accelerate", "peft")):
        done = run_python(code, {**path, "TB_INTEGRATIONS": value})
        assert done.stderr.count("RuntimeWarning") == 1
        assert f"{named} uses the cpu unless it is given the device" in done.stderr
    for quiet in (
        {},
        {"TB_INTEGRATIONS": "0", "TB_DRIVER": "/nowhere/driver.so"},
        {"TB_INTEGRATIONS": "accelerate,peft"},
    ):
        assert "uses the cpu" not in run_python(code, {**path, **quiet}).stderr
    assert "uses the cpu" not in run_python("import torch", {**path, "TB_INTEGRATIONS": "0"}).stderr


def test_names_pick_clients(run_python: RunPython, clients: Folder) -> None:
    clients.add_peft()
    clients.add_accelerate()
    code = """
        from accelerate import Accelerator
        from peft.utils import infer_device
        print(Accelerator().device, infer_device())
    """
    path = clients.environment
    assert run_python(code, {**path, "TB_INTEGRATIONS": "accelerate, keras"}).stdout == "tb:0 cpu\n"
    assert run_python(code, {**path, "TB_INTEGRATIONS": "peft"}).stdout == "cpu tb\n"


def test_an_unknown_name_is_warned_of_with_the_known_ones(run_python: RunPython, clients: Folder) -> None:
    clients.add_peft()
    code = "from peft.utils import infer_device; print(infer_device())"
    done = run_python(code, {**clients.environment, "TB_INTEGRATIONS": "peft,pefd"})
    assert done.stdout == "tb\n"
    assert done.stderr.count("RuntimeWarning") == 1
    assert "names pefd, which torch_backend does not know" in done.stderr
    assert "Known are accelerate, transformers, lightning" in done.stderr


def test_nothing_of_it_is_imported_without_a_client(run_python: RunPython) -> None:
    code = """
        import sys, torch
        assert "torch_backend.integrations" in sys.modules
        print([name for name in sys.modules if name.startswith("torch_backend.integrations.")])
    """
    assert run_python(code).stdout == "[]\n"


def test_the_doctor_lists_clients(run_python: RunPython, clients: Folder) -> None:
    clients.add_peft()
    clients.add("keras", "2.0.0", {})
    code = "from torch_backend import doctor; doctor()"
    path = clients.environment
    lines = [" ".join(line.split()) for line in run_python(code, path).stdout.splitlines()]
    assert "peft 0.21.7 to replace when it is imported: peft.utils.other.infer_device" in lines
    assert "keras 2.0.0 to replace when it is imported: keras.src.backend.torch.core.DEFAULT_DEVICE" in lines
    lines = [" ".join(line.split()) for line in run_python("import peft.utils\n" + code, path).stdout.splitlines()]
    assert "peft 0.21.7 replaced: peft.utils.other.infer_device" in lines
    off = run_python(code, {**path, "TB_INTEGRATIONS": "keras"}).stdout
    assert "off: TB_INTEGRATIONS=keras" in off
