"""What users of PyTorch get from a driver, and what would change it: `tb-device explain --driver mychip`."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import Any

from . import _core, console, levels

NATIVE, EMULATED, ON_CPU, MISSING = "native", "emulated by the host", "on the CPU", "not available"
NOT_NEEDED = "not needed"
HOST_ACCESSIBLE = "TB_DEVICE_HOST_ACCESSIBLE"  # a flag of tb_device_info; stands among the groups below
UNUSED = "a later torch-backend"  # it makes no use of what the driver offers yet
HOST_KERNELS = (("CLOSURE",), (HOST_ACCESSIBLE,))  # PyTorch's own CPU kernels run on the driver's streams
PRIORITIES = "priority_greatest < priority_least"  # a fact of tb_device_info


@dataclass(frozen=True)
class Feature:
    """One thing that users see.

    needs: everything it takes, of a tuple one: groups, functions, extensions, facts of a device. without: the state for
    a driver that lacks one of them, and how it is then. used: PyTorch's device tb makes use of it today; where it does
    not, `without` holds for every driver. beside_host_kernels: how it is where those do it, and the driver's own way
    is not needed. limits: what a native one does not cover. limits_elsewhere: the same for drivers without host
    kernels, where it differs.
    """

    name: str
    seen_as: str
    needs: tuple[tuple[str, ...], ...]
    without: tuple[str, str]
    used: bool = True
    beside_host_kernels: str = ""
    limits: str = ""
    limits_elsewhere: str = ""


FEATURES = (
    Feature("allocation", "torch.empty(..., device='tb')", (("CORE",),), (MISSING, "")),
    Feature("copies", "tensor.to('tb'), tensor.cpu()", (("CORE",),), (MISSING, "")),
    Feature(
        "kernels on the host's memory",
        "operators",
        HOST_KERNELS,
        (ON_CPU, "each operator without a loaded kernel waits for the device, runs on the CPU, and is counted"),
    ),
    Feature(
        "loaded kernels",
        "operators",
        (("ASYNC",), ("MODULE",)),
        (ON_CPU, "no module can be loaded: each operator waits for the device, runs on the CPU, and is counted"),
        beside_host_kernels="operators run on the host's memory",
        limits="where tb-ops has a compiler or a pack of images for the architecture (python -m torch_backend); "
        "other operators run on the CPU, and are counted",
    ),
    Feature(
        "CPU fallback in place",
        "operators without a kernel",
        ((HOST_ACCESSIBLE,),),
        (EMULATED, "operands are copied to the CPU and back"),
    ),
    Feature("streams", "torch.Stream('tb')", (("ASYNC",),), (EMULATED, "work is done when the call returns")),
    Feature("events", "torch.Event('tb')", (("ASYNC",),), (EMULATED, "always complete")),
    Feature(
        "stream priority",
        "torch.Stream('tb', priority=-1)",
        (("ASYNC",), (PRIORITIES,)),
        (EMULATED, "taken, and ignored"),
    ),
    Feature(
        "non_blocking copies",
        "to('tb', non_blocking=True)",
        (("ASYNC",), ("PIN",)),
        (EMULATED, "the host waits for the copy"),
        limits="from and to pinned memory; a copy from or to pageable memory has happened when the call returns",
        limits_elsewhere="from and to pinned memory, if both tensors are dense and have the same dtype and strides; "
        "any other copy from or to the host has happened when the call returns",
    ),
    Feature("pinned memory", "tensor.pin_memory()", (("PIN",),), (EMULATED, "pageable memory")),
    Feature(
        "pinning memory in place",
        "-",
        (("mem_register_host",), ("mem_unregister_host",)),
        (MISSING, "a copy into pinned memory does it"),
        used=False,
    ),
    Feature(
        "pointer facts", "tensor.is_pinned()", (("PTR",),), (EMULATED, "the host's map of what it allocated itself")
    ),
    Feature("event timing", "torch.Event(enable_timing=True)", (("TIMING",),), (MISSING, "elapsed_time raises")),
    Feature(
        "expandable segments",
        "TB_ALLOC_CONF=expandable_segments:True",
        (("VMM",),),
        (MISSING, "the setting is refused; memory grows in separate segments"),
    ),
    Feature("stream-ordered allocation", "-", (("SOA",),), (EMULATED, "by the pools of tb-allocator"), used=False),
    Feature(
        "memory_info",
        "torch.tb.mem_get_info()",
        (("device_memory_info",),),
        (EMULATED, "total less what this process allocated: others are not seen"),
    ),
    Feature("memory statistics", "torch.tb.memory_stats()", (("CORE",),), (MISSING, "")),
    Feature("pitched copies", "-", (("COPY2D",),), (EMULATED, "a copy a row"), used=False),
    Feature(
        "peer copies",
        "tensor.to('tb:1')",
        (("PEER",),),
        (EMULATED, "staged through the host"),
        used=False,
        beside_host_kernels="a kernel copies on the host's memory",
    ),
    Feature(
        "host callbacks",
        "tb_stream: Stream.add_callback",
        (("HOSTCALL", "CLOSURE"),),
        (EMULATED, "a thread of the host waits for the stream"),
    ),
    Feature(
        "native stream handles",
        "torch.Stream('tb').native_handle",
        (("NATIVE",),),
        (MISSING, "no stream can be given to the vendor's libraries, or taken from them"),
    ),
    Feature(
        "vendor libraries' current device",
        "operators of a vendor's library",
        (("device_activate",),),
        (EMULATED, "a call that does nothing"),
    ),
    Feature(
        "recovery of a lost device",
        "-",
        (("device_reset",),),
        (MISSING, "only a new process can use the device again"),
        used=False,
    ),
    Feature("facts of the vendor's own", "tb_device: Driver.query", (("device_query",),), (MISSING, "no key is known")),
    Feature(
        "tensors shared between processes",
        "torch.multiprocessing",
        (("IPC",),),
        (EMULATED, "sharing by a copy on the CPU"),
        used=False,
    ),
    Feature("graphs", "torch.tb.graph()", ((levels.GRAPH_EXTENSION,),), (MISSING, "a capture is refused")),
)


def offered_by(driver: _core.Driver) -> set[str]:
    """Groups, functions, extensions and facts of a driver, by the names that `Feature.needs` has."""
    offered = set(driver.groups) | set(driver.functions)
    if driver.has_extension(levels.GRAPH_EXTENSION, 1):
        offered.add(levels.GRAPH_EXTENSION)
    devices = [device.properties for device in driver.devices()]
    if devices and all(device.host_accessible for device in devices):
        offered.add(HOST_ACCESSIBLE)
    if any(least > greatest for least, greatest in (device.priority_range for device in devices)):
        offered.add(PRIORITIES)
    return offered


def state_of(feature: Feature, offered: Collection[str]) -> dict[str, Any]:
    """A row: feature, seen_as, state, how, offered (by the driver), changed_by (what would make it native)."""
    lacking = _lacking(feature.needs, offered)
    if feature.beside_host_kernels and not _lacking(HOST_KERNELS, offered):
        state, how = NOT_NEEDED, feature.beside_host_kernels
    else:
        by_host = not _lacking(HOST_KERNELS, offered)
        limits = feature.limits if by_host or not feature.limits_elsewhere else feature.limits_elsewhere
        state, how = (NATIVE, limits) if not lacking and feature.used else feature.without
    return {
        "feature": feature.name,
        "seen_as": feature.seen_as,
        "state": state,
        "how": how,
        "offered": not lacking,
        "changed_by": [] if state == NOT_NEEDED else lacking + ([] if feature.used else [UNUSED]),
    }


def _lacking(needs: tuple[tuple[str, ...], ...], offered: Collection[str]) -> list[str]:
    return [" or ".join(choice) for choice in needs if not any(one in offered for one in choice)]


def examine(driver: _core.Driver) -> dict[str, Any]:
    """What `driver` gives: driver, version, path, level, groups, features, next. All of it fits JSON."""
    offered = offered_by(driver)
    following, steps = levels.steps_after(offered)
    return {
        "driver": driver.name,
        "version": driver.info["version"],
        "path": driver.path,
        "level": levels.level_of(offered),
        "groups": driver.groups,
        "features": [state_of(feature, offered) for feature in FEATURES],
        "next": {
            "level": following.number if following else None,
            "steps": [
                {
                    "name": step.name,
                    "required": step.required,
                    "instead_of": list(step.instead_of),
                    "functions": [{"name": name, "required": required} for name, required in step.functions],
                }
                for step in steps
            ],
        },
    }


def readable(report: dict[str, Any]) -> str:
    """The report as text."""
    rows = [["FEATURE", "IN PYTORCH", "CHANGED BY", "STATE"]]
    for each in report["features"]:
        state = f"{each['state']}: {each['how']}" if each["how"] else each["state"]
        changed_by = ", ".join(each["changed_by"])
        rows.append([each["feature"], each["seen_as"], changed_by, state])
    lines = [f"{report['driver']} {report['version']}, level {report['level']}, offers {', '.join(report['groups'])}"]
    lines += ["", console.table(rows), ""]
    has_graphs = any(each["feature"] == "graphs" and each["offered"] for each in report["features"])
    lines += [levels.checklist({*report["groups"], *([levels.GRAPH_EXTENSION] if has_graphs else [])})]
    return console.fit("\n".join(lines))
