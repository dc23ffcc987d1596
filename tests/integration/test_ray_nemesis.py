"""A nemesis on Ray: whatever is killed or paused, and whenever, the results are the oracle's.

The matrix is target x fault x moment. A process that is paused is taken for dead and replaced, but not ended, as on a machine
that is cut off; it goes on in the middle of the next generation, where it must do no harm. All of it runs with
`make nemesis`; the ordinary tests have a few such cases in `test_ray_recovery.py`.
"""

import json
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from itertools import product
from pathlib import Path

import pytest
from adaptive_inputs import adaptive_topology
from crashes import saving_topology
from dynamic_inputs import write_dynamic_inputs
from fence_inputs import write_fence_inputs
from knn_inputs import dkm_topology, write_knn_inputs
from latest_queries import latest_topology, write_latest_inputs, wrong_lines
from range_inputs import lines_of, write_inputs
from sstd_inputs import KEEP_MS, write_sstd_inputs
from topk_inputs import restless_topology, write_topk_inputs

from streams.comparison import compare
from streams.files.result_files import read_results
from topology import Outcome, run
from topology.ray_runtime import driver, fleet
from topology.ray_runtime.frames import SAVED, WRITTEN
from topology.verification import oracle_of, verify_lines

pytestmark = pytest.mark.ray

#: The fault comes when so many epochs are complete.
FIRST_EPOCH = 12
#: A round of rebalancing of which nothing was heard for so many epochs came to nothing.
ROUND_EPOCHS = 8
OBJECTS = 500
QUICKSTART = Path(__file__).parents[2] / "conf" / "quickstart.toml"


def tornado(folder, moment="quiet"):
    """Tornado with queries that move all the time, or now and then where a quiet moment is wanted."""
    return adaptive_topology(
        *write_inputs(folder, 21, objects=OBJECTS, queries=150, last_ts=90), evaluators=3, chunk=5,
        tick=15 if moment == "quiet" else 2,
        epoch={"objects": 10, "queries": 100}, balancer={"seed": 3}, max_pending=4,
        checkpoint={"directory": str(folder / "checkpoints"), "epochs": 11}, ray={"workers": 3, "silent_seconds": 0.5},
    )  # fmt: skip


def latest(folder, _moment):
    """Evaluators with memory, whose queries move with their results all the time."""
    return latest_topology(
        *write_latest_inputs(folder, 21, objects=OBJECTS, queries=150, last_ts=90), tick=2, piece=5, mergers=2,
        epoch={"objects": 10, "queries": 100}, balancer={"seed": 3}, max_pending=4,
        checkpoint={"directory": str(folder / "checkpoints"), "epochs": 11}, ray={"workers": 3, "silent_seconds": 0.5},
    )  # fmt: skip


def dkm(folder, _moment):
    """DkM-SKS: one main server knows where all subscriptions are, which move with their lists all the time."""
    return dkm_topology(
        *write_knn_inputs(folder, 21, objects=OBJECTS, queries=150, last_ts=90), max_pending=4,
        checkpoint={"directory": str(folder / "checkpoints"), "epochs": 11}, ray={"workers": 3, "silent_seconds": 0.5},
    )  # fmt: skip


def dskype(folder, _moment):
    """DSkype: a short window, so that buffers run dry all the time, while subscriptions move."""
    return restless_topology(
        "dskype.toml", *write_topk_inputs(folder, 21, objects=OBJECTS, queries=150, last_ts=90), "topology.window.objects=30",
        "topology.epoch.objects=10", "topology.epoch.queries=100", "topology.max_pending=4", "topology.ray.workers=3",
        "topology.ray.silent_seconds=0.5", f"topology.checkpoint.directory={folder / 'checkpoints'}",
        "topology.checkpoint.epochs=11", "bolt.evaluator.parallelism=3", "bolt.sink.operator=collect",
    )  # fmt: skip


def questions(folder, _moment):
    """SSTD: questions of all six kinds move, windows reach into files that objects go to after a few epochs."""
    return restless_topology(
        "sstd.toml", *write_sstd_inputs(folder, random.Random(21), objects=OBJECTS, queries=150, last_ts=90),
        "topology.epoch.objects=10", "topology.epoch.queries=100", "topology.max_pending=4", "topology.ray.workers=3",
        "topology.ray.silent_seconds=0.5", f"topology.checkpoint.directory={folder / 'checkpoints'}",
        "topology.checkpoint.epochs=11", "bolt.evaluator.parallelism=3", f"bolt.evaluator.keep_ms={KEEP_MS}",
        f"bolt.evaluator.storage={folder / 'stored'}", "bolt.evaluator.keep_objects=20", "bolt.evaluator.interval_ms=4",
        "bolt.sink.operator=collect",
    )  # fmt: skip


def couriers(folder, _moment):
    """Objects that move and change, whose states everybody has, while queries move."""
    return restless_topology(
        "dynamic-balanced.toml", *write_dynamic_inputs(folder, 21, objects=OBJECTS, queries=150, last_ts=90),
        "topology.epoch.objects=10", "topology.epoch.queries=100", "topology.max_pending=4", "topology.ray.workers=3",
        "topology.ray.silent_seconds=0.5", f"topology.checkpoint.directory={folder / 'checkpoints'}",
        "topology.checkpoint.epochs=11", "bolt.evaluator.parallelism=3", "bolt.merger.parallelism=2",
        "bolt.sink.operator=collect",
    )  # fmt: skip


def zones(folder, _moment):
    """Fences over the same objects, which move while these come and go."""
    return restless_topology(
        "fences-balanced.toml", *write_fence_inputs(folder, 21, objects=OBJECTS, queries=150, last_ts=90),
        "topology.epoch.objects=10", "topology.epoch.queries=100", "topology.max_pending=4", "topology.ray.workers=3",
        "topology.ray.silent_seconds=0.5", f"topology.checkpoint.directory={folder / 'checkpoints'}",
        "topology.checkpoint.epochs=11", "bolt.evaluator.parallelism=3", "bolt.sink.operator=collect",
    )  # fmt: skip


def wrong_lists(topology, collected):
    """Return what is wrong with the lists of a run."""
    comparison = compare(oracle_of(topology), verify_lines(collected))
    return [] if comparison.ok else [comparison]


def wrong_matches(topology, collected):
    """Return what is wrong with the matches of a run."""
    comparison = compare(oracle_of(topology), lines_of(Outcome({}, collected)))
    return [] if comparison.ok else [comparison]


@dataclass(frozen=True)
class Subject:
    """A topology, what is wrong with its results, when to strike, and which tasks have which part in it.

    `evaluators` are the two that are lost together.
    """

    topology: Callable
    wrong: Callable
    moments: tuple[str, ...]
    spout: str = "objects[0]"
    router: str = "router[1]"
    evaluator: str = "evaluator[1]"
    evaluators: str = "evaluator[0] evaluator[2]"
    aggregator: str = "balancer[0]"
    sink: str = "sink[0]"


#: A further topology joins here.
SUBJECTS = {
    "tornado": Subject(tornado, wrong_matches, ("quiet", "rebalance", "checkpoint")),
    "latest": Subject(
        latest,
        lambda topology, found: wrong_lines(topology, verify_lines(found)),
        ("adoption",),
        aggregator="merger[1]",
    ),
    "dkm": Subject(dkm, wrong_lists, ("adoption", "checkpoint"), router="router[0]", aggregator="merger[1]"),
    "sstd": Subject(questions, wrong_lists, ("rebalance", "checkpoint"), aggregator="terms[1]"),
    "couriers": Subject(couriers, wrong_lists, ("adoption", "checkpoint"), router="router[0]", aggregator="merger[1]"),
    "zones": Subject(zones, wrong_lists, ("rebalance", "checkpoint"), router="router[0]"),
    # In the place of a router stands who answers searches.
    "dskype": Subject(dskype, wrong_lists, ("refill", "rebalance"), router="messages[0]", aggregator="aggregator[1]"),
}
TARGETS = ("spout", "router", "evaluator", "aggregator", "sink", "evaluators", "node")
FAULTS = ("kill", "pause")
CASES = [
    pytest.param(*case, id="-".join(case), marks=pytest.mark.nemesis)
    for name, subject in SUBJECTS.items()
    for case in product([name], TARGETS, FAULTS, subject.moments)
]


class Nemesis(driver.RayRuntime):
    """Strikes once, at a moment: `strike` is called with this runtime."""

    moment = "quiet"
    strike = None
    revive = None

    def __init__(self, *args, on_report, **kwargs):
        super().__init__(*args, on_report=self._hear, **kwargs)
        self.tell, self.round_began, self.acked, self.struck_in, self.revived = on_report, None, 0, None, False

    @property
    def generation(self):
        return self._fleet._generation

    def _hear(self, report):
        self.tell(report)
        if report.counts.get("results_given"):  # they are with those that adopt them an epoch later
            self._maybe("adoption")
        if report.counts.get("searches"):  # asked for, and answered some epochs later
            self._maybe("refill")
        for event in report.events:
            self.round_began = report.epoch if event["event"] == "rebalancing" else None
            if self.round_began is not None:
                self._maybe("rebalance")

    def _take(self, item, conductor):
        completed = super()._take(item, conductor)
        self.acked = conductor.acked
        if getattr(item, "kind", None) in (SAVED, WRITTEN) and self._checkpoints.mark is not None:
            self._maybe("checkpoint")
        return completed

    def _listen(self, endpoint, seconds, conductor):
        super()._listen(endpoint, seconds, conductor)
        moving = self.round_began is not None and conductor.acked - self.round_began < ROUND_EPOCHS
        if not moving and not self._checkpoints._states and not self._checkpoints._writer.busy:
            self._maybe("quiet")
        if (
            self.revive
            and not self.revived
            and self.struck_in
            and self.generation > self.struck_in
            and conductor.pending
        ):
            self.revived = True
            self.revive()

    def _maybe(self, moment):
        if self.struck_in is None and moment == self.moment and self.acked >= FIRST_EPOCH:
            self.struck_in = self.generation
            self.strike(self)

    def pids(self, names):
        """Return the processes that host tasks."""
        ids = {task.name: task.id for task in self.wiring.tasks}
        return sorted({self._fleet._pids[self._fleet.placement.worker_of[ids[name]]][1] for name in names.split()})


@pytest.fixture(scope="module")
def cluster():
    """A Ray instance to which nodes can be added; starting it takes seconds."""
    import ray
    from ray.cluster_utils import Cluster

    checks = {"period_ms": 500, "timeout_ms": 1000, "failure_threshold": 3, "initial_delay_ms": 0}
    config = {f"health_check_{name}": value for name, value in checks.items()}
    made = Cluster(
        initialize_head=True, head_node_args={"num_cpus": 4, "include_dashboard": False, "_system_config": config}
    )
    ray.init(address=made.address, log_to_driver=False, logging_level="ERROR")
    yield made
    ray.shutdown()
    made.shutdown()


@pytest.fixture
def nemesis(monkeypatch, cluster):
    """Return what sets the nemesis on the next run: (moment, strike, revive)."""
    made = []

    class Made(Nemesis):
        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            made.append(self)

    def set_on(moment, strike, revive=None):
        monkeypatch.setattr(Nemesis, "moment", moment)
        monkeypatch.setattr(Nemesis, "strike", staticmethod(strike))
        monkeypatch.setattr(Nemesis, "revive", None if revive is None else staticmethod(revive))
        monkeypatch.setattr("topology.ray_runtime.RayRuntime", Made)
        monkeypatch.setattr(fleet, "ANSWER_SECONDS", 2.0)
        return made

    return set_on


def signal_all(pids, what):
    for pid in pids:
        with suppress(ProcessLookupError):
            os.kill(pid, what)


class Pause:
    """Stops processes, keeps them from being ended when they are replaced, and lets them go on."""

    def __init__(self, monkeypatch, find):
        self.find, self.pids, self.kept = find, [], []
        monkeypatch.setattr(fleet.Fleet, "_end", lambda workers, worker: self._forget(workers, worker))

    def _forget(self, workers, worker):
        """As `Fleet._end` for a machine that cannot be reached; without a handle on it Ray would end the actor."""
        workers._pids.pop(worker, None)
        self.kept.append(workers._actors[worker])
        return []

    def strike(self, runtime):
        self.pids = self.find(runtime)
        signal_all(self.pids, signal.SIGSTOP)

    def revive(self):
        signal_all(self.pids, signal.SIGCONT)

    def end(self):
        import ray

        self.revive()
        for actor in self.kept:
            ray.kill(actor)


def assert_exact(wrong, summary, made):
    assert not wrong
    assert summary["objects"] == OBJECTS
    assert made[-1].struck_in is not None, "the run ended before the moment came"
    assert summary["restarts"] >= 1


def worker_pids(runtime, node_id):
    return [pid for where, pid in runtime._fleet._pids.values() if where == node_id]


@pytest.mark.parametrize(("subject", "target", "fault", "moment"), CASES)
def test_results_are_exact_whatever_is_lost(tmp_path, monkeypatch, cluster, nemesis, subject, target, fault, moment):
    """One fault, in a quiet moment, in mid-rebalance, mid-checkpoint or mid-refill, or with results under way; it goes on."""
    subject = SUBJECTS[subject]
    topology = subject.topology(tmp_path, moment)
    added = cluster.add_node(num_cpus=4) if target == "node" else None

    def find(runtime):
        if added is None:
            return runtime.pids(getattr(subject, target))
        pids = worker_pids(runtime, added.node_id)
        assert pids, "no worker was on the second node"
        raylet = added.all_processes["raylet"][0].process.pid
        return [raylet, *pids]

    def kill(runtime):
        signal_all(find(runtime), signal.SIGKILL)  # of a machine that is gone no process goes on
        if added is not None:
            cluster.remove_node(added, allow_graceful=False)

    pause = Pause(monkeypatch, find) if fault == "pause" else None
    made = nemesis(moment, kill) if pause is None else nemesis(moment, pause.strike, pause.revive)
    try:
        outcome = run(topology, runtime="ray")
        assert_exact(subject.wrong(topology, outcome.collected), outcome.summary, made)
        assert pause is None or made[-1].revived
    finally:
        if pause is not None:
            pause.end()
        if added is not None and added in cluster.list_all_nodes():
            cluster.remove_node(added)


@pytest.mark.nemesis
@pytest.mark.parametrize("again", ["before its start", "in its start", "in its start, stopped"])
def test_second_loss_in_a_recovery_is_recovered_from(tmp_path, monkeypatch, nemesis, again):
    """Another worker is lost while the first is being replaced, before or after all of them were asked to listen."""
    what = signal.SIGSTOP if again.endswith("stopped") else signal.SIGKILL
    struck = []

    def strike_again(workers):
        if made and made[-1].struck_in and not struck:
            struck.append(workers._pids[1][1])
            signal_all(struck, what)

    def replace(workers, lost):
        replaced(workers, lost)
        strike_again(workers)

    def start(workers, *args):
        if workers._generation > 1:
            strike_again(workers)
        started(workers, *args)

    replaced, started = fleet.Fleet.replace, fleet.Fleet._start
    made = nemesis("quiet", lambda runtime: signal_all(runtime.pids("evaluator[1]"), signal.SIGKILL))
    name, hook = ("replace", replace) if again == "before its start" else ("_start", start)
    monkeypatch.setattr(fleet.Fleet, name, hook)
    topology = tornado(tmp_path)
    outcome = run(topology, runtime="ray")
    assert struck
    assert outcome.summary["restarts"] == 2
    assert_exact(wrong_matches(topology, outcome.collected), outcome.summary, made)


@pytest.mark.nemesis
@pytest.mark.parametrize("what", [signal.SIGKILL, signal.SIGSTOP])
def test_worker_lost_before_the_first_checkpoint_costs_nothing(tmp_path, monkeypatch, nemesis, what):
    """The start itself is repeated, and a checkpoint of an older run in the same place is not taken for one of this run."""
    topology = tornado(tmp_path)
    run(topology, runtime="local")
    generations = []

    def open_and_strike(workers, *args, **kwargs):
        endpoint = opened(workers, *args, **kwargs)
        generations.append(workers._generation)
        if len(generations) == 1:
            signal_all([workers._pids[2][1]], what)
        return endpoint

    def hand_over(checkpoints, task, *state):
        if generations != [1]:  # the start of the first generation is never complete
            handed(checkpoints, task, *state)

    opened, handed = fleet.Fleet.open, driver.Checkpoints.hand_over
    monkeypatch.setattr(fleet.Fleet, "open", open_and_strike)
    monkeypatch.setattr(driver.Checkpoints, "hand_over", hand_over)
    monkeypatch.setattr(fleet, "ANSWER_SECONDS", 2.0)
    outcome = run(topology, runtime="ray")
    assert not wrong_matches(topology, outcome.collected)
    assert outcome.summary["restarts"] == 1
    assert outcome.summary["objects"] == OBJECTS


@pytest.mark.nemesis
@pytest.mark.parametrize("results", ["results.jsonl", "results.parquet"])
def test_files_have_the_oracles_lines_whatever_is_lost(tmp_path, nemesis, results):
    """A sink that writes is lost, in mid-checkpoint; what it had written later is cut off, and nothing is missing.

    Parquet has a type for a column, so there numbers are text.
    """
    (tmp_path / "out").mkdir()
    objects, _ = write_inputs(tmp_path, 22, objects=OBJECTS, queries=150, last_ts=90)
    topology = saving_topology(
        tmp_path, results=results, kind="kd", balanced=True, epoch={"objects": 10, "queries": 100, "feedback": 2},
        checkpoint={"epochs": 11}, ray={"workers": 3, "silent_seconds": 0.5}, max_pending=4,
    )  # fmt: skip
    made = nemesis("checkpoint", lambda runtime: signal_all(runtime.pids("sink[0] evaluator[0]"), signal.SIGKILL))
    outcome = run(topology, runtime="ray")
    given = {
        str(thing): thing for thing in (json.loads(line)["id"] for line in objects.read_text("utf-8").splitlines())
    }
    lines = [{**line, "object": given[str(line["object"])]} for line in read_results(tmp_path / "out" / results)]
    comparison = compare(oracle_of(topology), lines)
    assert_exact([] if comparison.ok else [comparison], outcome.summary, made)
    assert sorted(path.name for path in (tmp_path / "out").iterdir()) == ["rejects.jsonl", results]


def descendants(pid):
    """Return the processes below one."""
    parents = {}
    for entry in Path("/proc").iterdir():
        with suppress(OSError, ValueError):
            parents[int(entry.name)] = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
    found = {pid}
    while more := {child for child, parent in parents.items() if parent in found} - found:
        found |= more
    return found - {pid}


def alive(pid):
    with suppress(OSError):
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    return False


def wait_until(true, seconds=120.0):
    """Wait for something to become true, which it must."""
    deadline = time.monotonic() + seconds
    while not true():
        assert time.monotonic() < deadline, "waited in vain"
        time.sleep(0.05)


@pytest.mark.nemesis
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="looks for processes in /proc")
def test_driver_killed_leaves_no_orphans_and_the_run_goes_on_from_its_checkpoints(tmp_path):
    """SIGKILL for the command itself: Ray and all workers end by themselves, and --resume gives the lines of a whole run."""
    base = [
        str(Path(sys.executable).parent / "waterspout"),
        "run",
        str(QUICKSTART),
        "--set",
        "topology.epoch.objects=100",
    ]
    whole, results = tmp_path / "whole.jsonl", tmp_path / "results.jsonl"
    command = [
        *base, "--runtime", "ray", "--results", str(results), "--set", "topology.ray.workers=3", "--set",
        f"topology.checkpoint.directory={tmp_path / 'checkpoints'}", "--set", "topology.checkpoint.epochs=10",
    ]  # fmt: skip
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    wait_until(lambda: len(list(tmp_path.glob("checkpoints/*/manifest.json"))) > 2 or process.poll() is not None)
    left = descendants(process.pid)
    process.send_signal(signal.SIGKILL)
    assert process.wait(60) == -signal.SIGKILL
    assert len(left) > 3
    wait_until(lambda: not any(map(alive, left)))
    resumed = [*command, "--resume", str(tmp_path / "checkpoints")]
    subprocess.run(resumed, capture_output=True, timeout=240, check=True)
    subprocess.run([*base, "--results", str(whole)], capture_output=True, timeout=240, check=True)
    assert sorted(results.read_bytes().splitlines()) == sorted(whole.read_bytes().splitlines())
