"""Every shipped topology: valid, exact, the same through the builder's eyes, and open to the settings that all understand."""

from pathlib import Path

import pytest

from topology import dump_topology, load_topology
from topology.toml import parse_topology
from topology.verification import verified_run

CONF = Path(__file__).parents[2] / "conf"
SHIPPED = sorted(CONF.glob("*.toml"))
SMALL = ["spout.objects.limit=3000", "topology.epoch.objects=500"]


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_shipped_topology_is_exact(path):
    """Every result of a shipped topology on shipped data equals the oracle's."""
    outcome, comparison = verified_run(load_topology(path, SMALL))
    assert comparison.ok, comparison
    assert outcome.summary["results"] > 1000


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_shipped_topology_round_trips(path):
    """Written again and read, it is the same topology."""
    topology = load_topology(path)
    assert parse_topology(dump_topology(topology), base=CONF) == topology


@pytest.mark.parametrize("path", SHIPPED, ids=lambda path: path.stem)
def test_shipped_topology_understands_the_common_settings(path):
    """The keys that every topology takes can be set on each."""
    topology = load_topology(
        path,
        [
            "topology.runtime=ray",
            "topology.space=[-180,-90,180,90]",
            "topology.metric=euclidean",
            "topology.seed=5",
            "topology.epoch.objects=7",
            "topology.epoch.ms=1000",
            "topology.max_pending=2",
            "topology.window.objects=10",
            "topology.plan=auto",
            "bolt.evaluator.parallelism=8",
        ],
    )
    assert topology.component("evaluator").parallelism == 8
    assert topology.settings.window.objects == 10
