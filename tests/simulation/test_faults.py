"""Everything that can go wrong, drawn from a seed: what is committed is right and there once, and the run comes to its end."""

from collections import Counter

import pytest
import structlog
from adaptive_inputs import adaptive_topology
from crashes import written_at_once
from fault_simulation import CONF, MODES, MOMENTS, TOPOLOGIES, moments_of, simulate
from range_inputs import lines_of, write_inputs

from streams.comparison import compare
from streams.errors import RunError
from topology import run
from topology.disturbances import with_disturbances
from topology.testing import run_for_test
from topology.verification import oracle_of

#: Topologies that a seed draws are other ones with every seed; those that are shipped, variants of each other, are not. `make
#: simulate` runs as many seeds of all as one likes.
DRAWN, SHIPPED = range(10), range(4)
CASES = [
    (seed, name) for seed in DRAWN for name in TOPOLOGIES if seed in SHIPPED or not (CONF / f"{name}.toml").exists()
]


@pytest.mark.parametrize(("seed", "name"), CASES)
def test_topology_bears_what_a_seed_does_to_it(tmp_path, name, seed):
    """Schedule, delays, crashes, rebalances and hotspots: the results file and what is collected are the oracle's."""
    simulate(tmp_path, name, seed, MODES[seed % 2])


@pytest.mark.parametrize(("name", "seeds"), [("latest", range(100, 124)), ("feeds", range(155, 175))])
def test_simulation_meets_the_rare_moments(tmp_path, name, seeds):
    """Runs that crash in mid-round or mid-refill, adopt results late, end or search on the way, split, go on otherwise."""
    met = Counter()
    for seed in seeds:
        folder = tmp_path / str(seed)
        folder.mkdir()
        try:
            met += moments_of(simulate(folder, name, seed, "safety"))
        except Exception as error:
            raise AssertionError(f"seed {seed}: {error}") from error
    assert not [moment for moment in MOMENTS[name] if not met[moment]], met


@pytest.fixture
def topology(tmp_path):
    """Tornado with queries that move all the time, and a checkpoint every three epochs."""
    return adaptive_topology(
        *write_inputs(tmp_path, 5, objects=80, queries=40), evaluators=3, max_pending=3,
        checkpoint={"directory": str(tmp_path / "checkpoints"), "epochs": 3},
    )  # fmt: skip


def events_of(topology, *faults, **options):
    """Run with faults, see that the results are right, and return the outcome and what was logged."""
    faulty = with_disturbances(topology, faults)
    with structlog.testing.capture_logs() as logs, written_at_once():
        outcome = run(faulty, delays=True, **options)
    comparison = compare(oracle_of(faulty), lines_of(outcome))
    assert comparison.ok, comparison
    return outcome, logs


def named(logs, event):
    return [log for log in logs if log["event"] == event]


def test_killed_task_takes_the_run_back_once(topology):
    """Also though its epoch comes again."""
    outcome, logs = events_of(topology, {"kind": "kill", "task": "evaluator[1]", "epoch": 7})
    assert outcome.summary["restarts"] == 1
    assert [log["reason"] for log in named(logs, "run_goes_back")] == [
        "evaluator[1] was killed when 8 epochs were complete"
    ]


def test_task_killed_in_the_final_epoch_takes_the_run_back(topology):
    """Nothing has ended before everything has."""
    epochs = run(topology).summary["epochs"]
    outcome, _ = events_of(topology, {"kind": "kill", "task": "sink", "epoch": epochs - 1})
    assert outcome.summary["restarts"] == 1


def test_lost_message_is_found_by_who_waits_for_it(topology):
    """Nobody can go on and nothing is under way: the run goes back, and the message is not lost again."""
    outcome, logs = events_of(topology, {"kind": "drop", "strength": 1.0, "epoch": 6})
    assert outcome.summary["restarts"] == 1
    assert "that was lost" in named(logs, "run_goes_back")[0]["reason"]


def test_repeated_messages_change_nothing(topology):
    """Each message of the run comes twice."""
    outcome, _ = events_of(topology, {"kind": "duplicate", "strength": 1.0, "duration": 1000})
    assert outcome.summary["restarts"] == 0


@pytest.mark.parametrize(
    "fault", [{"kind": "pause", "duration": 300}, {"kind": "slow", "strength": 40.0}], ids=lambda fault: fault["kind"]
)
def test_task_that_stands_still_holds_nobody_for_ever(topology, fault):
    """The others go on as far as they may, then wait for it."""
    outcome, logs = events_of(topology, {**fault, "task": "router", "epoch": 2})
    assert outcome.summary["restarts"] == 0
    assert not named(logs, "fault_never_happened")


def test_damaged_checkpoint_is_passed_over(topology):
    """The one before it is taken."""
    faults = {"kind": "corrupt", "epoch": 7}, {"kind": "kill", "task": "balancer", "epoch": 7}
    outcome, logs = events_of(topology, *faults)
    assert outcome.summary["restarts"] == 1
    assert len(named(logs, "checkpoint_passed_over")) == 1


def test_run_gives_up_after_so_many_restarts_and_can_be_resumed(tmp_path):
    """The third kill is one too many; the faults of epochs that are behind do not happen again."""
    limit = {"directory": str(tmp_path / "checkpoints"), "epochs": 3, "max_restarts": 2}
    topology = adaptive_topology(*write_inputs(tmp_path, 5, objects=80, queries=40), checkpoint=limit)
    faults = [{"kind": "kill", "task": "evaluator", "epoch": epoch} for epoch in (1, 2, 3)]
    faulty = with_disturbances(topology, faults)
    with pytest.raises(RunError, match=r"given up after 2 restarts \(topology\.checkpoint\.max_restarts\)"):
        run(faulty)
    outcome = run(faulty, resume=tmp_path / "checkpoints")
    assert compare(oracle_of(topology), lines_of(outcome)).ok


def test_fault_whose_epoch_never_comes_is_told(topology):
    """A run that was too short for it has not shown that it is borne."""
    _, logs = events_of(topology, {"kind": "kill", "task": "sink", "epoch": 100_000})
    assert [log["kind"] for log in named(logs, "fault_never_happened")] == ["kill"]


def test_trial_takes_faults_beside_hotspots(topology):
    """Tests of users declare both in one list."""
    hotspot = {"kind": "condense", "at": [0.5, 0.5], "strength": 0.4}
    trial = run_for_test(topology, inject=[hotspot, {"kind": "kill", "task": "router[1]", "epoch": 5}], delays=True)
    trial.assert_exact()
    assert trial.summary["restarts"] == 1
    assert [one.kind for one in (*trial.topology.injections, *trial.topology.faults)] == ["condense", "kill"]
