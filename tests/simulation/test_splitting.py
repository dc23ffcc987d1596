"""Partitions that split and merge in mid-run: lists of the nearest objects stay those of the oracle."""

import random

import pytest
from range_inputs import CONF

from topology.testing import run_for_test

WORDS = ["ash", "birch", "cedar", "elm", "fir", "hazel", "larch", "maple", "oak", "pine"]


def _objects(rng, count):
    """Objects all over the space; from a third on most crowd at one place and have one word."""
    for n in range(count):
        hot = n > count // 3 and rng.random() < 0.8
        x, y = (rng.gauss(20.0, 4.0), rng.gauss(20.0, 4.0)) if hot else (rng.uniform(-170, 170), rng.uniform(-80, 80))
        words = {*rng.sample(WORDS, 3), *(["ash"] if hot else [])}
        yield {"id": n, "ts": n, "x": x, "y": y, "keywords": sorted(words)}


def _queries(rng, count, last_ts):
    for n, ts in enumerate(sorted(rng.choice([0, 0, rng.randrange(last_ts)]) for _ in range(count))):
        hot = rng.random() < 0.5
        at = [rng.gauss(20.0, 6.0), rng.gauss(20.0, 6.0)] if hot else [rng.uniform(-170, 170), rng.uniform(-80, 80)]
        keywords = rng.sample(WORDS, rng.randrange(1, 4))
        yield {"op": "register", "id": f"q{n}", "ts": ts, "type": "knn", "at": at, "k": 1 + n % 3, "keywords": keywords,
               "match": "any"}  # fmt: skip


@pytest.mark.parametrize("kind", ["location", "keyword", "prefix", "spatial-first", "keyword-first"])
def test_partitions_split_under_a_hotspot_and_lists_stay_exact(kind):
    """Whatever is split, moved and merged, every list is the oracle's."""
    rng = random.Random(kind)
    settings = [
        f"topology.partitioner.kind={kind}",
        "topology.partitioner.sample=200",
        "topology.partitioner.side=64",
        "topology.epoch.objects=20",
        "bolt.evaluator.tick.epochs=1",
        "bolt.balancer.policy=dskype",
        "bolt.balancer.settings.threshold=1.05",
        "bolt.balancer.settings.units=4",
    ]
    trial = run_for_test(
        CONF / "dkm-hash.toml",
        settings=settings,
        objects=list(_objects(rng, 900)),
        queries=list(_queries(rng, 150, 800)),
    )
    trial.assert_exact()
    trial.assert_rebalanced(kinds=["split"])
