"""Wild inputs under wild settings, for every shipped topology: runs as they are, and such as are killed and resumed.

A seed draws everything: records (`wild_inputs`), sizes of epochs, lags of feedback, numbers of tasks, partitioners, policies,
and indexes. These have the names of the registries, so a new one takes part by being there. What a topology cannot be is
declined when the run is declared or begins; then the seed draws again.
"""

import dataclasses
import json
import random

from crashes import killed_run
from fault_simulation import (
    CONF,
    PARALLEL,
    Turns,
    assert_right,
    no_disk_to_wait_for,
    otherwise_parallel,
)
from range_inputs import write_lines
from sstd_inputs import KEEPING, TREES
from topk_inputs import MECHANISMS
from wild_inputs import Scene, wild_objects, wild_queries, wild_states, wild_times

from operators.balancing.registry import POLICIES
from operators.indexes import INDEXES
from operators.indexes.dynamic.registry import FINDERS, REFILLERS
from operators.indexes.knn.registry import KNN_INDEXES
from operators.indexes.objects.registry import OBJECT_INDEXES
from operators.indexes.terms.registry import TERMS_INDEXES
from operators.indexes.topk.buffer_rules import BUFFER_RULES
from operators.indexes.topk.disseminations import DISSEMINATIONS
from operators.indexes.topk.message_indexes import MESSAGE_INDEXES
from partitioners.builders.registry import PARTITIONERS
from streams.errors import DeclarationError
from topology import load_topology, run, validate
from topology.amendments import with_source
from topology.declaration import CheckpointSettings
from topology.metric import with_metric
from topology.verification import listening, verify_lines

WILD_MODES = ("wild", "wild-resumed")

#: What is simulated: everything under ``conf``.
WILD_TOPOLOGIES = tuple(path.stem for path in sorted(CONF.glob("*.toml")))

#: So often a seed draws again before it is an error that everything it draws is declined.
MOST_DRAWS = 100

#: A run that takes more turns than this goes round in circles; with epochs of one object there are many of them.
MOST_TURNS = 3_000_000

#: So many epochs are complete when a run is killed, if it has that many.
KILLED_AFTER = (0, 1, 2, 3, 5, 8, 13, 20, 30)

#: Kinds of queries for evaluators of an operator, as often as they stand there.
QUESTIONS = {
    "range-evaluator": ("range",),
    "fence-evaluator": ("fence", "fence", "fence", "range"),
    "knn-evaluator": ("knn",),
    "topk-evaluator": ("topk",),
    "scored-evaluator": ("topk",),
    "dynamic-evaluator": ("topk", "knn"),
    "sstd-evaluator": ("range", "knn", "terms", "range snapshot", "knn snapshot", "terms snapshot"),
}

#: Evaluators whose objects have states.
DYNAMIC = ("dynamic-evaluator", "fence-evaluator")

#: Evaluators whose lists move with their queries, where there is a balancer.
MOVING_LISTS = ("topk-evaluator", "dynamic-evaluator")

# Tables of settings: a key, and what it is drawn from; None leaves it as it is declared.

EVERYWHERE = {
    "topology.epoch.objects": (1, 2, 3, 7, 25, 10_000),
    "topology.epoch.queries": (*[None] * 4, 1, 2, 5, 50),
    "topology.epoch.ms": (*[None] * 10, 1, 2, 5, 50, 100_000),
    "topology.epoch.feedback": (1, 2, 3, 4),
    "topology.max_pending": (1, 2, 3, 8),
}
WITH_PARTITIONER = {
    "topology.partitioner.side": (2, 4, 16, 50),
    "topology.partitioner.sample": (*[None] * 3, 1, 10, 100),
}
WITH_BALANCER = {
    "bolt.balancer.policy": (*[None, "random"] * len(POLICIES), *POLICIES),
    "bolt.evaluator.tick.epochs": (1, 1, 2, 3),
    "bolt.evaluator.transfer_queries": (1, 2, 5, 3000),
}
#: Settings under which a policy changes the plan as often as it can, and of one that does not ask for a reason.
RESTLESS = {"bolt.balancer.settings.threshold": (1.0,)}
RANDOM = {"bolt.balancer.settings.seed": range(1000), "bolt.balancer.settings.units": (0.0, 0.2, 1.0)}
POLICY_SETTINGS = {"random": RANDOM, "none": {}}

WINDOWS = (
    {"topology.window.objects": (1, 2, 5, 20, 500)},
    {"topology.window.ms": (1, 2, 5, 30, 100_000)},
)
#: How long objects are kept: for ever, for ever and mostly in files, or not long.
KEPT = (
    {"bolt.evaluator.keep_ms": (0,)},
    {
        "bolt.evaluator.keep_ms": (0,),
        "bolt.evaluator.keep_objects": (1, 3, 10),
        "bolt.evaluator.interval_ms": (1, 4, 9, 1000, 10**7),
    },
    {"bolt.evaluator.keep_ms": (1, 5, 12, 1000)},
)
#: Operator of the evaluators -> the partitioners that they work with.
KINDS = {"range-evaluator": tuple(PARTITIONERS), "scored-evaluator": MECHANISMS, "sstd-evaluator": KEEPING}

#: Operator -> keys of its component.
OWN = {"scored-evaluator": {"prefix": (True, False)}}
OWN_INDEXES = {
    "range-evaluator": {"index": INDEXES},
    "fence-evaluator": {"index": INDEXES},
    "knn-evaluator": {"index": KNN_INDEXES},
    "topk-evaluator": {"index": DISSEMINATIONS, "buffers": BUFFER_RULES, "messages": MESSAGE_INDEXES},
    "scored-evaluator": {"index": DISSEMINATIONS},
    "topk-aggregator": {"buffers": BUFFER_RULES},
    "message-store": {"index": MESSAGE_INDEXES},
    "dynamic-evaluator": {"index": FINDERS, "refill": REFILLERS, "n": (*[None] * 8, 1, 2, 7, 50)},
    "sstd-evaluator": {
        "index": INDEXES,
        "nearest": KNN_INDEXES,
        "objects": OBJECT_INDEXES,
        "terms": (*TERMS_INDEXES, "objects"),
    },
}


def drawn(rng, table):
    """Draw a value for each key of a table."""
    found = {key: rng.choice(list(choices)) for key, choices in table.items()}
    return {key: value for key, value in found.items() if value is not None}


def own_settings(rng, topology, tables):
    """Draw settings of components by their operators."""
    found = {}
    for component in topology.components:
        table = tables.get(component.operator, {})
        found |= drawn(rng, {f"bolt.{component.name}.{key}": choices for key, choices in table.items()})
    return found


def parallelism(rng, topology):
    """Draw numbers of tasks."""
    names = [c.name for c in topology.components if c.name in PARALLEL and c.operator != "main-server"]
    return drawn(rng, {f"bolt.{name}.parallelism": (None, 1, 2, 3, 4, 6) for name in names})


def plan_settings(rng, topology, evaluator):
    """Draw a partitioner that goes with the evaluators, and what its routers do with it."""
    if topology.settings.partitioner is None:
        return {}
    found = drawn(rng, WITH_PARTITIONER)
    if evaluator in KINDS and rng.random() < 0.5:
        kind = found["topology.partitioner.kind"] = rng.choice(KINDS[evaluator])
        if evaluator == "sstd-evaluator":  # only keyword lists of a tree learn
            found["bolt.router.learn"] = kind in TREES and rng.random() < 0.5
    if evaluator == "sstd-evaluator":
        found["bolt.router.two_phase"] = rng.random() < 0.5
    return found


def wild_settings(rng, topology, folder, *, indexes):
    """Draw settings for a topology: key -> value."""
    operators = {c.name: c.operator for c in topology.components}
    evaluator = operators["evaluator"]
    found = drawn(rng, EVERYWHERE) | parallelism(rng, topology) | plan_settings(rng, topology, evaluator)
    if "balancer" in operators:
        found |= drawn(rng, WITH_BALANCER)
        if found.get("topology.partitioner.kind") == "kdt-tree":
            # For one evaluator it has leaves that any policy may move; resumed with more it is divided by text, and declined.
            found["bolt.balancer.policy"] = rng.choice(["random", "none"])
        policy = found.get("bolt.balancer.policy")
        found |= drawn(rng, POLICY_SETTINGS.get(policy, RESTLESS) if policy else {})
    if "topk" in questions(topology) and evaluator not in DYNAMIC:
        found |= drawn(rng, rng.choice(WINDOWS))
    if evaluator == "sstd-evaluator":
        found |= drawn(rng, rng.choice(KEPT))
        if "bolt.evaluator.keep_objects" in found:
            found["bolt.evaluator.storage"] = str(folder / "stored")
    return found | own_settings(rng, topology, OWN) | (own_settings(rng, topology, OWN_INDEXES) if indexes else {})


def questions(topology):
    """Return the kinds of queries that the evaluators of a topology answer."""
    return [kind for component in topology.components for kind in QUESTIONS.get(component.operator, ())]


def write_wild_inputs(rng, scene, folder, topology, settings):
    """Write objects and queries, without what is not decided.

    - Over windows, which of several objects of one identifier a topk query lists is nowhere defined.
    - With two_phase, a snapshot is answered an epoch later, when its identifier may be another query's already.
    - A query that is replaced just when it moves may have its last line behind lines of the new one (docs/semantics.md). Where
      whole lists move with their queries, identifiers are not used again.
    """
    operators = {c.name: c.operator for c in topology.components}
    evaluator, kinds, times = (
        operators["evaluator"],
        questions(topology),
        wild_times(rng, rng.choice([0, 1, 5, 40, 80, 80, 120, 120])),
    )
    objects = (
        wild_states(rng, scene, times)
        if evaluator in DYNAMIC
        else wild_objects(rng, scene, times, names_again="topk" not in kinds)
    )
    queries = wild_queries(
        rng,
        scene,
        times,
        rng.choice([1, 10, 30, 30, 40, 40]),
        kinds,
        longest=settings.get("bolt.evaluator.keep_ms"),
        names_again=not (evaluator in MOVING_LISTS and "balancer" in operators),
        snapshots_again=not settings.get("bolt.router.two_phase"),
    )
    return write_lines(folder / "objects.jsonl", objects), write_lines(folder / "queries.jsonl", queries)


def wild_topology(rng, folder, name, *, indexes):
    """Draw settings of a shipped topology and its input; raise `DeclarationError` where the settings cannot be."""
    path = CONF / f"{name}.toml"
    declared = load_topology(path, check=False)
    scene = Scene.drawn(rng)
    settings = wild_settings(rng, declared, folder, indexes=indexes) | {
        "topology.space": scene.space,
        "topology.metric": "haversine" if scene.globe else "euclidean",
    }
    objects, queries = write_wild_inputs(rng, scene, folder, declared, settings)
    topology = load_topology(path, [f"{key}={json.dumps(value)}" for key, value in settings.items()], check=False)
    topology = with_metric(with_source(with_source(topology, "leads", objects), "follows", queries))
    validate(topology)
    return topology


def saved(rng, topology, folder):
    """Return a topology with checkpoints."""
    checkpoint = CheckpointSettings(directory=str(folder / "checkpoints"), epochs=rng.choice([1, 1, 2, 3]), keep=2)
    return dataclasses.replace(topology, settings=dataclasses.replace(topology.settings, checkpoint=checkpoint))


def begun(rng, topology, folder, seed, mode):
    """Run a topology and return the outcome, or kill it on the way and return nothing; what it cannot be is declined here."""
    turns = Turns(MOST_TURNS)
    if mode == "wild":
        return run(topology, scheduler_seed=seed, delays=True, should_stop=turns)
    killed_run(topology, folder, rng.choice(KILLED_AFTER), seed=seed, should_stop=turns)
    return None


def resumed(topology, folder, seed):
    """Go on from what was saved, in every other seed with other numbers of tasks; begin again where nothing was."""
    turns = Turns(MOST_TURNS)
    if not list((folder / "checkpoints").glob("*")):
        return run(topology, scheduler_seed=seed, delays=True, should_stop=turns)
    other = otherwise_parallel(topology, seed)
    return run(other, scheduler_seed=seed + 1, delays=True, resume=folder / "checkpoints", should_stop=turns)


def simulate_wild(folder, name, seed, mode, *, indexes=True):
    """Run a seed; raise `AssertionError` with what is wrong. Without `indexes` those that are declared stay."""
    for draw in range(MOST_DRAWS):
        rng, own = random.Random(f"{name} {seed} {mode} {draw}"), folder / str(draw)
        own.mkdir()
        with no_disk_to_wait_for():
            try:
                topology = wild_topology(rng, own, name, indexes=indexes)
                heard = saved(rng, listening(topology), own) if mode == "wild-resumed" else listening(topology)
                outcome = begun(rng, heard, own, seed, mode)
            except DeclarationError:
                continue
            outcome = outcome or resumed(heard, own, seed)
        assert_right(topology, verify_lines(outcome.collected))
        return outcome
    raise AssertionError(f"all of {MOST_DRAWS} draws are declined")
