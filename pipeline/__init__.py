"""The offline plane, on Spark: raw data to prepared data, statistics, workloads, plans and pictures of them.

    raw files -> prepare -> prepared data set (objects by time, vocabulary, counts of O_init)
                                |-> workload, moving_workload -> query files, streams of dynamic objects
                                |-> build_plan (with query files) -> plan file -> the routers of the online plane

The online plane reads what is written here through `streams.files.prepared` and `partitioners.plans.plan`; it never needs
Spark. Only counts, vocabularies and samples of bounded size pass through the driver. Spark itself is imported when a function
first needs it, so that pure functions of this package (`pipeline.workloads`) work without.
"""

from importlib import import_module
from typing import Any

__all__ = [
    "KINDS",
    "MovingSpec",
    "WorkloadSpec",
    "build_plan",
    "moving_workload",
    "prepare",
    "preset",
    "workload",
]

_HOMES = {
    "KINDS": "pipeline.workload_spec",
    "MovingSpec": "pipeline.moving_objects",
    "WorkloadSpec": "pipeline.workload_spec",
    "build_plan": "pipeline.plans",
    "moving_workload": "pipeline.workload_files",
    "prepare": "pipeline.preparing",
    "preset": "pipeline.workload_spec",
    "workload": "pipeline.workload_files",
}


def __getattr__(name: str) -> Any:
    """Import a function of this package when it is first asked for: not every command needs every library."""
    if name not in _HOMES:
        raise AttributeError(f"module 'pipeline' has no attribute '{name}'")
    return getattr(import_module(_HOMES[name]), name)
