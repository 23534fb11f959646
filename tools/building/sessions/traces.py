"""The session that reads the profiler's traces with another program."""

from __future__ import annotations

import nox

from building.environments import Environment
from building.packages import ROOT
from building.testing import everything, run_module

# HTA 0.5 puts numbers into columns that pandas 3 keeps narrow.
HTA = ["HolisticTraceAnalysis==0.5.*", "pandas<3"]


@nox.session
def traces(session: nox.Session) -> None:
    """A trace of torch.profiler on tb, read by Holistic Trace Analysis, which is installed without torch."""
    file = ROOT / "build" / "traces" / "training.json"
    file.parent.mkdir(parents=True, exist_ok=True)
    run_module(session, everything(session), "traces.record", str(file))
    run_module(session, Environment("traces").prepare(session, HTA), "traces.analyse", str(file))
