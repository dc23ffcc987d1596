"""Topologies tested by `topology.testing`: what passes, what fails, and what a failure says."""

from pathlib import Path

import numpy as np
import pytest
from range_inputs import range_topology, write_inputs, write_lines

from operators.evaluation.range_evaluator import RangeEvaluator
from streams.errors import DeclarationError, InputError
from topology import TopologyBuilder
from topology.testing import LoadHistory, run_for_test

CONF = Path(__file__).parents[2] / "conf"


class Forgetful(RangeEvaluator):
    """Loses the results of every other epoch."""

    def execute_epoch(self, epoch, inputs, emit):
        """Match, and forget."""
        super().execute_epoch(epoch, inputs, emit)
        if epoch.number % 2:
            emit.sent.clear()


def square(folder, evaluator="range-evaluator"):
    """Four evaluators, a quarter of the unit square each; the sources are empty until a test gives others."""
    empty = write_lines(folder / "empty.jsonl", [])
    builder = TopologyBuilder("square", partitioner={"kind": "uniform", "side": 8}, epoch={"objects": 4})
    builder.spout("objects", "object-file", path=empty).spout("queries", "query-file", path=empty)
    builder.bolt("router", "plan-router").shuffle("objects", "objects").shuffle("queries", "queries")
    evaluators = builder.bolt("evaluator", evaluator, parallelism=4)
    evaluators.direct("router", "queries").direct("router", "objects")
    builder.bolt("sink", "count").global_("evaluator", "results")
    return builder


CORNERS = [(0.2, 0.2), (0.8, 0.2), (0.2, 0.8), (0.8, 0.8)]
EVERYWHERE = [{"op": "register", "id": "all", "ts": 0, "type": "range", "region": {"rect": [0, 0, 1, 1]}}]


def around(count, start=0):
    """Objects that go round the four corners, one a millisecond."""
    places = [CORNERS[i % 4] for i in range(count)]
    return [{"id": start + i, "ts": start + i, "x": x, "y": y, "keywords": []} for i, (x, y) in enumerate(places)]


@pytest.fixture
def even(tmp_path):
    """A run in which all four bear the same for ten epochs, and the first bears all for ten more."""
    hotspot = {"kind": "condense", "at": [0.1, 0.1], "strength": 0.1, "start": 40}
    return run_for_test(square(tmp_path), objects=around(80), queries=EVERYWHERE, inject=[hotspot])


@pytest.mark.parametrize("seed", range(10))
def test_trial_of_random_input_is_exact(tmp_path, seed):
    """Whatever sink a topology has, its results are heard once."""
    topology = range_topology(*write_inputs(tmp_path, seed))
    run_for_test(topology, seed=seed, delays=True).assert_exact()


def test_trial_is_shown_in_a_line(even):
    """A failing assertion, and a notebook, show what a trial was and not its batches."""
    assert repr(even) == "Trial(square: 80 objects, 1 queries, 80 results, 0 rejected)"


def test_trial_tells_the_first_differences(tmp_path):
    """An evaluator that forgets is found out, with the results that are missing."""
    trial = run_for_test(square(tmp_path, Forgetful), objects=around(40), queries=EVERYWHERE, delays=True)
    assert 0 < trial.summary["results"] < 40
    with pytest.raises(AssertionError, match=r"(?s)the results are wrong.*missing.*query \"all\""):
        trial.assert_exact()


def test_trial_of_a_hotspot_is_exact_and_says_who_bears_it(even):
    """The oracle gets the same injections; balance holds before the hotspot and not after it."""
    even.assert_exact()
    start = even.epoch_at(40)
    assert even.timeline().objects[:start].sum() == 40
    even.assert_balanced(0.99, until=start)
    with pytest.raises(AssertionError) as failure:
        even.assert_balanced(0.5, after=start)
    said = str(failure.value)
    assert f"parallel efficiency 0.250 in epochs {start} to" in said
    assert "evaluator[0]  ########################################  40" in said
    assert "evaluator[3]                                            0" in said
    assert "rebalances: none" in said
    assert "100    0    0    0" in said


def test_trial_without_a_balancer_is_not_rebalanced(even):
    """The failure says what kinds were asked for, and shows the load."""
    with pytest.raises(
        AssertionError, match=r"(?s)0 rebalances of kind corner or shift, expected at least 2.*over time"
    ):
        even.assert_rebalanced(2, kinds={"shift", "corner"})
    even.assert_rebalanced(0)
    with pytest.raises(DeclarationError, match="expected a list of kinds"):
        even.assert_rebalanced(kinds="shift")


def test_timeline_adds_up_to_the_summary(even):
    """Columns over time have the totals of the run, and the efficiency that the summary defines."""
    history = even.timeline()
    assert history.objects.sum() == even.summary["objects"]
    assert history.costs.sum(0).tolist() == [one["cost"] for one in even.summary["evaluators"]]
    assert history.parallel_efficiency() == pytest.approx(even.summary["parallel_efficiency"], abs=1e-4)
    assert history.end == history.epochs.sum() == even.summary["epochs"]
    busy = history.costs.sum(1) > 0
    assert np.unique(history.efficiency[busy]).tolist() == [0.25, 1.0]
    assert (history.efficiency[~busy] == 1).all()
    assert (np.diff(history.seconds) >= 0).all()


def test_timeline_is_cut_by_epoch_or_share(even):
    """A place is an epoch or a share of all epochs; outside of the run there is none."""
    history = even.timeline()
    half = history.between(0.5)
    assert half.epoch[0] == round(history.end / 2)
    assert half.end == history.end
    assert history.between(2, 5).epoch.tolist() == [2, 3, 4]
    for wrong, told in ((history.end + 1, "is not in this run"), (1.5, "is no place"), (history.end, "no entry")):
        with pytest.raises(DeclarationError, match=told):
            even.assert_balanced(after=wrong)


def test_epoch_of_a_time_counts_objects(even):
    """Times before the first object are its epoch, times after the last are behind the end; nonsense is refused."""
    first = even.epoch_at(-5)
    assert even.timeline().objects[: first + 1].tolist() == [0] * first + [4]
    assert even.epoch_at("1990-01-01T00:00:00Z") == even.timeline().end
    with pytest.raises(DeclarationError, match="expected integer milliseconds or ISO 8601"):
        even.epoch_at("noon")


def test_trial_of_a_file_takes_settings():
    """A shipped file runs as it is, with a key changed."""
    trial = run_for_test(
        CONF / "tornado-static.toml", settings=["bolt.evaluator.parallelism=3", "spout.objects.limit=500"]
    )
    assert trial.summary["objects"] == 500
    assert trial.timeline().costs.shape[1] == 3
    assert len(trial.lines()) == trial.summary["results"]
    trial.assert_exact()


def test_trial_refuses_what_it_cannot_do():
    """Settings are those of the topology; unknown keys are named; a file must be there; a load needs evaluators."""
    with pytest.raises(DeclarationError, match="there is no bolt 'sink'"):
        run_for_test(TopologyBuilder("t"), settings=["bolt.sink.parallelism=2"])
    with pytest.raises(DeclarationError, match="did you mean 'strength'"):
        run_for_test(CONF / "quickstart.toml", inject=[{"kind": "rate", "strenght": 3}])
    with pytest.raises(InputError, match="no such file"):
        run_for_test("absent.toml")


def test_balance_needs_evaluators(even):
    """Where no bolt is named evaluator, nothing can be said of balance."""
    plain = {**even.summary, "evaluators": [], "timeline": even.summary["timeline"][:1]}
    assert len(LoadHistory.of(plain)) == 0
    with pytest.raises(DeclarationError, match="no bolt 'evaluator'"):
        type(even)(even.topology, plain, []).assert_balanced()
