"""One seed makes a run with everything that can go wrong: topology, input, hotspots, schedule, delays, faults.

Two kinds of runs. *Safety*: any faults, more than the run may bear; whatever it has committed when it gives up is right and
there once, and when it is resumed it ends with the oracle's results. *Liveness*: faults that come to an end; then so does the
run, within a bounded number of turns.
"""

import dataclasses
import random
from collections import Counter
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from unittest import mock

from adaptive_inputs import random_adaptive_topology, random_injections
from crashes import saving_topology, written_at_once
from dynamic_inputs import random_couriers_topology
from fence_inputs import random_zones_topology
from latest_queries import random_assigning_topology, random_latest_topology, wrong_lines
from range_inputs import write_inputs, write_lines
from sstd_inputs import random_sstd_topology
from terms_inputs import random_terms_topology
from topk_inputs import random_feeds_topology

from streams.comparison import compare, explain
from streams.files.result_files import read_results
from streams.vocabulary import Encoder
from topology import load_topology, run
from topology.amendments import with_results, with_source
from topology.declaration import CheckpointSettings
from topology.disturbances import with_disturbances
from topology.failure import SetbackError
from topology.input_files import read_input
from topology.verification import listening, oracle_of, verify_lines
from topology.wiring import wire

CONF = Path(__file__).parent.parent / "conf"
MODES = ("safety", "liveness")

#: Objects and query operations of shipped data that a run in small reads.
FEW_OBJECTS, FEW_QUERIES = 36, 36

#: A run of such an input that takes more turns than this goes round in circles.
MOST_TURNS = 300_000


# --- topologies -------------------------------------------------------------------------------------------------------


def adaptive(folder, seed):
    """Tornado in all its forms, drawn from the seed."""
    inputs = write_inputs(folder, seed, objects=random.Random(seed).randrange(15, 50), queries=25, last_ts=20)
    with mock.patch("adaptive_inputs.write_inputs", return_value=inputs):  # smaller ones than elsewhere
        return random_adaptive_topology(folder, seed)


def replicated(folder, seed):
    """Objects or queries to everybody, several spouts, rejects, results in several forms."""
    rng = random.Random(seed)
    (folder / "out").mkdir()
    write_inputs(folder, seed, objects=40, queries=25)
    topology = saving_topology(
        folder,
        kind=rng.choice([None, "kd", "text"]),
        broadcast=rng.choice(["objects", "queries"]),
        spouts=rng.choice([1, 2]),
        routers=rng.choice([1, 2]),
        evaluators=rng.choice([1, 3]),
        max_pending=rng.choice([1, 3, 8]),
        inject=random_injections(rng),
    )
    return dataclasses.replace(topology, components=tuple(c for c in topology.components if c.name != "kept"))


@cache
def shipped_records():
    """Read the shipped data once, and keep a few objects and queries of it as records."""
    topology = load_topology(CONF / "quickstart.toml")
    encoder = Encoder(track_words=True)
    chunks, _ = read_input(topology, encoder)
    batch = next(chunks).batch
    words = dict(encoder.new_words())
    step = max(1, len(batch) // FEW_OBJECTS)
    few = batch.take(list(range(0, len(batch), step))[:FEW_OBJECTS])
    ids, ts, x, y = few.ids.to_list(), few.ts.tolist(), few.x.tolist(), few.y.tolist()
    return [
        {"id": ids[i], "ts": ts[i], "lon": x[i], "lat": y[i],
         "keywords": [words[w] for w in few.kw[few.kw_off[i] : few.kw_off[i + 1]].tolist()]}
        for i in range(len(few))
    ]  # fmt: skip


def shipped_hotspots(rng):
    """Draw none to two hotspots for the shipped data."""
    kinds = [
        {"kind": "condense", "at": [-98.0, 38.5], "strength": rng.choice([0.1, 0.5]), "share": 0.7},
        {"kind": "rate", "strength": 0.5},
        {"kind": "objects", "region": [-100.0, 30.0, -90.0, 40.0], "strength": 0.5},
    ]
    return rng.sample(kinds, rng.randrange(3))


def shipped(name, folder, seed):
    """A topology of ``conf`` over a part of the shipped data, with queries around objects of it."""
    rng = random.Random(f"{name} {seed}")
    objects = shipped_records()
    times = sorted(rng.choice(objects)["ts"] for _ in range(FEW_QUERIES))
    operators = {c.name: c.operator for c in load_topology(CONF / name, check=False).components}
    kind = {
        "knn-evaluator": "knn",
        "topk-evaluator": "topk",
        "scored-evaluator": "topk",
        "dynamic-evaluator": "topk",
    }.get(operators["evaluator"], "range")
    kind = "knn" if name == "dynamic-nearest.toml" else kind
    degree = (
        1.0 if name.startswith(("dynamic", "fences")) else 111_195.0
    )  # these are in a plane, the others on the globe
    queries = []
    for n, ts in enumerate(times):
        near = rng.choice(objects)
        place = {"circle": [near["lon"], near["lat"], degree * rng.choice([1.0, 10.0, 60.0])]}
        line = {"op": "register", "id": f"q{n}", "ts": objects[0]["ts"] if n % 3 else ts, "type": kind, "match": "any",
                "keywords": near["keywords"][: rng.randrange(3)]}  # fmt: skip
        if kind == "range":
            line["region"] = place
        else:
            line |= {"at": place["circle"][:2], "k": 1 + n % 4}
        if kind == "topk":
            line |= {"alpha": rng.choice([0.0, 0.3, 0.5, 1.0]), "keywords": near["keywords"][: 1 + rng.randrange(3)]}
            if rng.random() < 0.3:
                line["ttl"] = rng.choice([1, 10**6, 10**8])
        queries.append(line)
    queries.sort(key=lambda query: query["ts"])
    settings = [
        f"topology.epoch.objects={rng.choice([4, 8, 12])}",
        f"topology.epoch.queries={rng.choice([8, 50])}",
        f"topology.max_pending={rng.choice([1, 3, 8])}",
        f"bolt.evaluator.parallelism={rng.choice([1, 2, 3])}",
    ]
    declared = (CONF / name).read_text("utf-8")
    if "[topology.partitioner]" in declared:
        settings.append(f"topology.partitioner.side={rng.choice([16, 50])}")
    if operators["evaluator"] in ("dynamic-evaluator", "fence-evaluator"):
        settings.append("topology.space=[-180.0, -90.0, 180.0, 90.0]")
    elif kind == "topk":
        settings.append(f"topology.window.objects={rng.choice([1, 3, 8, 20, 1000])}")
    if "balancer" in operators:  # plans that change all the time
        own = {"sstd-evaluator": "leaves", "fence-evaluator": "fences"}.get(operators["evaluator"], kind)
        others = {"knn": "dkm", "topk": "random", "leaves": "random", "fences": "dkm"}
        policy = rng.choice(["random", others.get(own, "tornado")])
        restless = "seed=1" if policy == "random" else "threshold=1.0"
        settings += [
            f"bolt.balancer.policy={policy}",
            f"bolt.balancer.settings.{restless}",
            "bolt.evaluator.tick.epochs=1",
        ]
    topology = with_disturbances(load_topology(CONF / name, settings, check=False), shipped_hotspots(rng))
    topology = with_source(topology, "leads", write_lines(folder / "objects.jsonl", objects))
    return with_source(topology, "follows", write_lines(folder / "queries.jsonl", queries))


#: What is simulated: a name and a function of (folder, seed). A topology under ``conf`` joins by being there, any other
#: with a line here.
TOPOLOGIES = {
    "adaptive": adaptive,
    "assigning": random_assigning_topology,
    "couriers": random_couriers_topology,
    "feeds": random_feeds_topology,
    "latest": random_latest_topology,
    "questions": random_sstd_topology,
    "replicated": replicated,
    "terms": random_terms_topology,
    "zones": random_zones_topology,
    **{
        path.stem: lambda folder, seed, name=path.name: shipped(name, folder, seed)
        for path in sorted(CONF.glob("*.toml"))
    },
}

#: Where evaluators have memory, the run goes back more often, and later: lists must have grown before it matters that they
#: are on their way when it does.
FAULTY_EPOCHS = {"couriers": 20, "feeds": 20, "latest": 20, "questions": 20, "terms": 20, "zones": 20}
MORE_KILLS = {"couriers": 2, "feeds": 2, "latest": 2, "questions": 2, "terms": 2, "zones": 2}


#: Those whose evaluators list the latest objects, and all whose results are lists.
LATEST = ("assigning", "latest")
LISTS = (
    *LATEST,
    *(
        name
        for name in TOPOLOGIES
        if name.startswith(("couriers", "dkm", "dynamic", "skype", "dskype", "feeds", "sstd", "questions", "terms"))
    ),
)


# --- faults -----------------------------------------------------------------------------------------------------------


def random_faults(rng, topology, epochs, kills):
    """Draw what goes wrong in the first epochs of a run; so many tasks are killed in any case."""
    names = [c.name for c in topology.components] + [
        f"{c.name}[{i}]" for c in topology.components for i in range(c.parallelism)
    ]
    kinds = ["kill", "kill", "pause", "slow", "drop", "duplicate", "corrupt"]
    drawn = []
    for place in range(kills + rng.randrange(1, 6)):
        kind = "kill" if place < kills else rng.choice(kinds)
        epoch, seed = rng.randrange(epochs), rng.randrange(1000)
        one = {"kind": kind, "epoch": epoch, "seed": seed}
        if kind in ("kill", "pause", "slow"):
            one["task"] = rng.choice(names)
        if kind == "pause":
            one["duration"] = rng.choice([5, 50, 500])
        if kind == "slow":
            one |= {"strength": rng.choice([1.0, 20.0]), "duration": rng.choice([1, 5])}
        if kind in ("drop", "duplicate"):
            one |= {"strength": rng.choice([0.02, 0.2, 1.0]), "duration": rng.choice([1, 3])}
        drawn.append(one)
    return drawn


def simulated(folder, name, seed, mode):
    """Return a topology with its faults and the file of its results, all from the seed."""
    rng = random.Random(f"{name} {seed} {mode}")
    topology = TOPOLOGIES[name](folder, seed)
    drawn = random_faults(rng, topology, FAULTY_EPOCHS.get(name, 10), MORE_KILLS.get(name, 0))
    setbacks = sum(one["kind"] in ("kill", "drop") for one in drawn)
    checkpoint = CheckpointSettings(
        directory=str(folder / "checkpoints"),
        epochs=rng.choice([1, 1, 2, 4]),
        keep=1 + sum(one["kind"] == "corrupt" for one in drawn),
        max_restarts=setbacks if mode == "liveness" else rng.randrange(setbacks + 1),
    )
    results = folder / rng.choice(["results.jsonl", "results.jsonl", "results.jsonl.gz", "results.parquet"])
    topology = with_results(topology, str(results))
    settings = dataclasses.replace(topology.settings, checkpoint=checkpoint)
    return with_disturbances(dataclasses.replace(topology, settings=settings), drawn), results


# --- runs -------------------------------------------------------------------------------------------------------------


@contextmanager
def no_disk_to_wait_for():
    """Files need not survive a loss of power here."""
    with written_at_once(), mock.patch("os.fsync"):
        yield


class Turns:
    """Counts turns of the scheduler, and ends a run that would never end."""

    def __init__(self, most=MOST_TURNS):
        self.count, self._most = 0, most

    def __call__(self):
        self.count += 1
        assert self.count <= self._most, f"the run has not ended after {self._most} turns"
        return False


def most_turns(topology, epochs):
    """Return a bound: each generation does each epoch at most once, and in it delivers every message, at most doubled often."""
    wiring = wire(topology)
    channels = sum(len(wiring.tasks_of(e.source)) * len(wiring.tasks_of(e.target)) for e in wiring.edges)
    doubled = 2 ** sum(fault.kind == "duplicate" for fault in topology.faults)
    generations = 1 + sum(fault.kind in ("kill", "drop") for fault in topology.faults)
    an_epoch = len(wiring.tasks) + channels * doubled
    return generations * (epochs + topology.settings.max_pending + topology.settings.epoch.feedback) * an_epoch


#: Components that may have any number of tasks.
PARALLEL = (
    "router", "query-router", "evaluator", "merger", "terms", "messages", "aggregator", "topk-router", "topk-evaluator",
    "topk-merger",
)  # fmt: skip


def otherwise_parallel(topology, seed):
    """Return a topology that goes on with other numbers of routers, evaluators and mergers, in every other seed."""
    rng = random.Random(f"parallel {seed}")
    if rng.random() < 0.5:
        return topology
    numbers = {name: rng.randrange(1, 6) for name in PARALLEL}
    partitioner = topology.settings.partitioner
    spare = 0 if partitioner is None else partitioner.options.get("spare", 0)
    numbers["evaluator"] = max(numbers["evaluator"], 1 + spare)  # somebody must have a partition
    numbers |= {c.name: 1 for c in topology.components if c.operator == "main-server"}
    components = [dataclasses.replace(c, parallelism=numbers.get(c.name, c.parallelism)) for c in topology.components]
    return dataclasses.replace(topology, components=tuple(components))


#: Moments that are rare: some seed of a topology must meet each of them, or the simulation does not test what it should.
MOMENTS = {
    "latest": (
        "moment_restored_in_mid_round",
        "moment_restored_with_results_under_way",
        "moment_results_after_changes",
        "moment_ended_while_moving",
        "moment_divided_in_mid_round",
    ),
    "feeds": (
        "moment_restored_in_mid_refill",
        "moment_threshold_given_up_while_moving",
        "moment_split_while_refilling",
    ),
}


def moments_of(outcome):
    """Count the rare moments that a run has met."""
    met = Counter()
    for task in outcome.summary["tasks"]:
        met.update({name: count for name, count in task.items() if name.startswith("moment_")})
    return met


def simulate(folder, name, seed, mode):
    """Run a seed; raise `AssertionError` with what is wrong."""
    topology, results = simulated(folder, name, seed, mode)
    heard = listening(topology)
    turns, given_up = Turns(), Counter()
    with no_disk_to_wait_for():
        try:
            outcome = run(heard, scheduler_seed=seed, delays=True, should_stop=turns)
        except SetbackError as error:
            if mode == "liveness" or "given up after" not in str(error):
                raise
            calm = otherwise_parallel(dataclasses.replace(heard, faults=()), seed)
            # With other evaluators lists wait for each other in other epochs, so changes may come together in other lines.
            if name not in LISTS or calm.components == heard.components:
                given_up = counted(read_results(results))
            outcome = run(calm, scheduler_seed=seed + 1, delays=True, resume=folder / "checkpoints")
    if mode == "liveness":
        most = most_turns(heard, outcome.summary["epochs"])
        assert turns.count <= most, f"{turns.count} turns, expected at most {most}"
    collected = list(verify_lines(outcome.collected))
    for lines in (collected, read_results(results)) if results.suffix != ".parquet" else (collected,):
        if name in LATEST:
            assert not (wrong := wrong_lines(topology, lines)), wrong
        else:
            assert_right(topology, lines)
    assert counted(read_results(results)) == counted(collected), "the results file is not what was collected"
    assert not given_up - counted(collected), "a run that gave up had committed what is wrong, or twice"
    return outcome


def assert_right(topology, lines):
    """Hold the lines of a run against the definition."""
    comparison = compare(oracle_of(topology), lines)
    assert comparison.ok, explain(comparison)


def counted(lines):
    """Count equal results; ids as text, which is how Parquet has them."""
    return Counter(tuple(map(_as_text, line.values())) for line in lines)


def _as_text(value):
    return tuple(map(_as_text, value)) if isinstance(value, list) else str(value)
