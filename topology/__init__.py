"""The runtime: topologies declared (builder, TOML), checked, and run (embedded or on Ray), epoch by epoch."""

from topology.builder import TopologyBuilder
from topology.declaration import Component, Input, Settings, Tick, Topology
from topology.run import Outcome, run
from topology.toml import dump_topology, extended_topology, load_topology
from topology.validation import InvalidTopologyError, validate

__all__ = [
    "Component",
    "Input",
    "InvalidTopologyError",
    "Outcome",
    "Settings",
    "Tick",
    "Topology",
    "TopologyBuilder",
    "dump_topology",
    "extended_topology",
    "load_topology",
    "run",
    "validate",
]
