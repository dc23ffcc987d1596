"""Random questions of all six kinds as files, and SSTD over them."""

import random

from range_inputs import CONF, random_polygon, write_lines

from topology import load_topology
from topology.amendments import with_source

WORDS = ["tea", "rice", "soup", "cake", "wine"]
SQUARE = "topology.space=[0.0, 0.0, 1.0, 1.0]"

#: Plans under which an object is kept by one evaluator; keyword lists of trees learn.
TREES = ("qt-tree", "quadtree", "text-tree")
KEEPING = (*TREES, "kd", "kdt-tree", "uniform", "replicate")

#: How long objects are kept where they are not kept for ever: as long as the longest window.
KEEP_MS = 12


def sstd_objects(rng, count, last):
    """Objects on a coarse grid, several of a time, some without words."""
    return [
        {"id": f"o{n}", "ts": ts, "x": rng.randrange(5) / 4, "y": rng.randrange(5) / 4,
         "keywords": rng.sample(WORDS, rng.randrange(4))}
        for n, ts in enumerate(sorted(rng.randrange(last) for _ in range(count)))
    ]  # fmt: skip


def _region(rng):
    x, y = rng.randrange(5) / 4, rng.randrange(5) / 4
    side = rng.choice([0.0, 0.25, 0.5, 1.0])
    if rng.random() < 0.2:
        return random_polygon(rng)
    return {"rect": [x, y, min(x + side, 1.0), min(y + side, 1.0)]} if rng.random() < 0.6 else {"circle": [x, y, side]}


def sstd_queries(rng, count, last, *, forever):
    """Standing questions and snapshots of all types; windows of some milliseconds, or over everything so far."""
    lines = []
    for n in range(count):
        kind, standing = rng.choice(["range", "knn", "terms"]), rng.random() < 0.5
        ts = rng.choice([0, rng.randrange(last)]) if standing else rng.randrange(last + 2)
        line = {"op": "register", "id": f"q{n}", "ts": ts, "type": kind, "continuous": standing,
                "keywords": rng.sample(WORDS, rng.choice([0, 0, 1, 2])), "match": rng.choice(["any", "all"])}  # fmt: skip
        line |= {"at": [rng.random(), rng.randrange(5) / 4]} if kind == "knn" else {"region": _region(rng)}
        if rng.random() < 0.25:
            line["none"] = rng.sample([word for word in WORDS if word not in line["keywords"]], rng.randrange(1, 3))
        if kind != "range":
            line["k"] = rng.choice([1, 2, 3, 7])
        if kind == "terms" or (not standing and (not forever or rng.random() < 0.8)):
            line["window"] = rng.randrange(1, KEEP_MS + 1)
        if kind == "terms" and standing:
            line["slide"] = rng.randrange(1, 6)
        if standing and rng.random() < 0.4:
            line["ttl"] = rng.randrange(1, last)
        elif standing and rng.random() < 0.3:
            lines.append({"op": "unregister", "id": f"q{n}", "ts": rng.randrange(ts + 1, last + 2)})
        lines.append(line)
    return sorted(lines, key=lambda line: (line["ts"], line["op"]))


def write_sstd_inputs(folder, rng, *, objects, queries, last_ts, forever=False):
    """Write objects and questions."""
    return (
        write_lines(folder / "objects.jsonl", sstd_objects(rng, objects, last_ts)),
        write_lines(folder / "queries.jsonl", sstd_queries(rng, queries, last_ts, forever=forever)),
    )


def _storage(rng, folder):
    """Let objects leave memory soon, in every other case: windows then reach into files, of one evaluator or several."""
    if rng.random() < 0.5:
        return ()
    return (
        f"bolt.evaluator.storage={folder / 'stored'}",
        f"bolt.evaluator.keep_objects={rng.choice([1, 5])}",
        f"bolt.evaluator.interval_ms={rng.choice([1, 4, 9])}",
    )


#: Settings of the policy `sstd` under which leaves move at the least excuse.
RESTLESS = ("bolt.balancer.settings.threshold=1.0", "bolt.balancer.settings.doubt=0")


def random_sstd_topology(folder, seed):
    """Draw SSTD with plans that change all the time, and windows that reach across several of them."""
    rng = random.Random(f"sstd {seed}")
    last, keep = rng.choice([20, 60]), rng.choice([0, KEEP_MS])
    objects, queries = write_sstd_inputs(folder, rng, objects=70, queries=30, last_ts=last, forever=keep == 0)
    kind = rng.choice(KEEPING)
    tree = kind in TREES
    policy = rng.choice(["random", "sstd"]) if tree else "random"
    settings = [
        SQUARE,
        f"topology.partitioner.kind={kind}",
        f"bolt.router.learn={'true' if tree and rng.random() < 0.5 else 'false'}",
        f"topology.epoch.objects={rng.choice([3, 8])}",
        f"topology.epoch.feedback={rng.choice([1, 2, 3])}",
        f"topology.max_pending={rng.choice([1, 3, 8])}",
        f"bolt.router.parallelism={rng.randrange(1, 4)}",
        f"bolt.router.two_phase={rng.choice(['true', 'false'])}",
        f"bolt.evaluator.parallelism={rng.randrange(1, 5)}",
        f"bolt.evaluator.keep_ms={keep}",
        *_storage(rng, folder),
        f"bolt.evaluator.index={rng.choice(['kag', 'fast'])}",
        f"bolt.evaluator.nearest={rng.choice(['pyramid', 'sea-cnn'])}",
        f"bolt.evaluator.objects={rng.choice(['segments', 'r-tree', 'brute'])}",
        f"bolt.evaluator.terms={rng.choice(['candidates', 'groups', 'objects'])}",
        f"bolt.merger.parallelism={rng.randrange(1, 3)}",
        f"bolt.terms.parallelism={rng.randrange(1, 3)}",
        f"bolt.balancer.policy={policy}",
        *([f"bolt.balancer.settings.seed={seed % 1000}"] if policy == "random" else RESTLESS),
        "bolt.evaluator.tick.epochs=1",
        "bolt.evaluator.transfer_queries=4",
    ]
    topology = load_topology(CONF / "sstd.toml", settings, check=False)
    return with_source(with_source(topology, "leads", objects), "follows", queries)
