"""A topology that lives: the same one, with a journal in place of its files and a log in place of its sink."""

import dataclasses
from pathlib import Path

from operators.balancing.balancer import REBALANCE
from topology.amendments import result_sink, source_of
from topology.declaration import CheckpointSettings, Component, Input, Topology
from topology.validation import make_operator

__all__ = ["LIVE", "live_topology"]

#: What the spout is called that takes the place of the declared ones.
LIVE = "live"

#: So often a service saves its state, where the topology does not say: what happened since is done again after a crash.
CHECKPOINT_SECONDS = 5.0


def live_topology(declared: Topology, journal: Path, results: Path, checkpoints: Path) -> Topology:
    """Return a topology that follows a journal and appends to a log of results; all else stays as it was declared.

    It takes checkpoints: as declared, or into a folder. Where the declared plan is built from a sample, it must be given a plan
    of its own, because a journal has no sample.
    """
    sources = [source_of(declared, pace) for pace in ("leads", "follows")]
    replaced = {component.name for component in sources}
    name = LIVE
    while name in {component.name for component in declared.components if component.name not in replaced}:
        name += "_"
    dynamic = bool(getattr(make_operator(sources[0], declared), "dynamic", False))
    spout = Component(name, "spout", "live", options={"path": str(journal), **({"dynamic": True} if dynamic else {})})
    sink = result_sink(declared).name
    components: list[Component] = []
    for component in declared.components:
        if component.name in replaced:
            if spout not in components:
                components.append(spout)
            continue
        inputs = tuple(dict.fromkeys(_moved(item, replaced, name) for item in component.inputs))
        if component.name == sink:
            component = dataclasses.replace(
                component, operator="results-log", parallelism=1, options={"path": str(results)}, tick=None
            )
        if REBALANCE in (getattr(make_operator(component, declared), "reads", None) or ()):
            inputs += (Input(name, REBALANCE, "global"),)
        components.append(dataclasses.replace(component, inputs=inputs))
    settings = declared.settings
    if settings.runtime == "local":
        # In one thread nothing is gained by several epochs under way, and what arrives would wait behind empty ones.
        settings = dataclasses.replace(settings, max_pending=1)
    if settings.checkpoint is None:
        saved = CheckpointSettings(str(checkpoints), seconds=CHECKPOINT_SECONDS, max_restarts=1_000_000)
        settings = dataclasses.replace(settings, checkpoint=saved)
    return dataclasses.replace(
        declared, settings=settings, components=tuple(components), injections=(), faults=declared.faults
    )


def _moved(item: Input, replaced: set[str], name: str) -> Input:
    return dataclasses.replace(item, component=name) if item.component in replaced else item
