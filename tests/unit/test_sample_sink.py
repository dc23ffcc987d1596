"""A few results as a sample, which is what ``--show`` prints."""

from pathlib import Path

import pytest

from topology.amendments import with_listener
from topology.run import run
from topology.toml import load_topology
from topology.verification import listening, verify_lines

CONF = Path(__file__).parents[2] / "conf"


@pytest.mark.parametrize("name", ["quickstart", "dynamic"])
def test_sample_of_everything_is_everything(name):
    """Matches and lists are sampled one by one, with the names of their queries; a small sample is part of that."""
    topology = load_topology(CONF / f"{name}.toml", ["spout.objects.limit=400", "topology.epoch.objects=100"])

    def lines(wanted):
        return sorted(map(str, verify_lines(run(wanted).collected)))

    whole = lines(listening(topology))
    assert lines(with_listener(topology, "showcase", "sample", size=10**6)) == whole
    few = lines(with_listener(topology, "showcase", "sample", size=5))
    assert len(few) == 5
    assert set(few) <= set(whole)
