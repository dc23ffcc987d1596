"""Operators of users, and tuples under way on feedback edges, when a run goes on with other numbers of tasks."""

from collections import Counter

import numpy as np
import pytest
from crashes import KilledError, written_at_once
from operators_for_tests import ByParity, Counts, Director, Doubler, Halver, Numbers, Tagged

from operators import Bolt
from streams.columns import Ids
from streams.errors import DeclarationError, RunError
from streams.hashing import hash_columns
from topology import TopologyBuilder, run


def killed(topology, epochs):
    """Run until so many epochs are complete, then stop at once."""
    seen = []

    def after(_progress):
        seen.append(1)
        if len(seen) > epochs:
            raise KilledError

    with written_at_once(), pytest.raises(KilledError):
        run(topology, on_progress=after, delays=True)


def rows(outcome):
    return Counter(row for batch in outcome.collected for row in batch.rows())


class DividedCounts(Counts):
    """Counts words, and says who counts which when there are more or fewer tasks."""

    @classmethod
    def redistribute(cls, states, division):
        counts = sum((Counter(state["counts"]) for state in states), Counter())
        words = sorted(counts)
        place = hash_columns([Ids.of(words)]) % np.uint64(division.tasks)
        return [
            {"counts": {word: counts[word] for word, task in zip(words, place, strict=True) if task == index}}
            for index in range(division.tasks)
        ]


def counting(folder, operator, tasks, doublers=2):
    builder = TopologyBuilder("counting", checkpoint={"directory": str(folder), "epochs": 1}, max_pending=2)
    builder.spout("numbers", Numbers, count=100, size=10)
    builder.bolt("double", Doubler, parallelism=doublers).shuffle("numbers")
    builder.bolt("counts", operator, parallelism=tasks).fields("double", ["word"])
    builder.bolt("sink", "collect").global_("counts")
    return builder.build()


COUNTED = Counter({(f"w{w}", len(range(w, 100, 7)), "end"): 1 for w in range(7)})


@pytest.mark.parametrize("after", [1, 2, 3, 5])
def test_state_of_a_users_bolt_is_divided_as_it_says(tmp_path, after):
    """Each word is counted on by the task that gets its tuples from now on."""
    killed(counting(tmp_path, DividedCounts, 3), 5)
    assert rows(run(counting(tmp_path, DividedCounts, after, doublers=4), resume=tmp_path)) == COUNTED


def test_state_that_nobody_can_divide_is_refused(tmp_path):
    """The error names the component, both numbers and the way out; with as many tasks as before the run goes on."""
    killed(counting(tmp_path, Counts, 3), 5)
    with pytest.raises(
        DeclarationError, match=r"'counts' had 3 tasks at the checkpoint and has 2 now.*Counts does not say"
    ):
        run(counting(tmp_path, Counts, 2), resume=tmp_path)
    assert rows(run(counting(tmp_path, Counts, 3, doublers=1), resume=tmp_path)) == COUNTED


def looping(folder, tasks, feedback, count=64, max_pending=2):
    keys = {"checkpoint": {"directory": str(folder), "epochs": 1}, "epoch": {"feedback": feedback}}
    builder = TopologyBuilder("loop", max_pending=max_pending, **keys)
    builder.spout("numbers", Numbers, count=count, size=8)
    builder.bolt("loop", Halver, parallelism=tasks).shuffle("numbers").fields(
        "loop", ["number"], "again", feedback=True
    )
    builder.bolt("sink", "collect").global_("loop")
    return builder.build()


@pytest.mark.parametrize("feedback", [1, 2])
@pytest.mark.parametrize(("before", "after"), [(1, 3), (3, 1), (2, 5), (4, 3), (2, 2)])
@pytest.mark.parametrize("epochs", [0, 2, 5])
def test_tuples_under_way_reach_the_tasks_that_there_are(tmp_path, before, after, epochs, feedback):
    """What was fed back and not worked on yet is neither lost nor seen twice."""
    expected = rows(run(looping(tmp_path / "whole", before, feedback)))
    killed(looping(tmp_path / "cut", before, feedback), epochs)
    assert rows(run(looping(tmp_path / "cut", after, feedback), resume=tmp_path / "cut")) == expected
    assert sum(expected.values()) == 64


@pytest.mark.parametrize("feedback", [1, 3])
@pytest.mark.parametrize("after", [2, 3])
@pytest.mark.parametrize("epochs", range(4))
def test_tuples_under_way_are_not_lost_when_the_input_has_ended_before(tmp_path, epochs, after, feedback):
    """One epoch of input: all that is left at the checkpoint is feedback, of which no report of the resumed run tells."""
    expected = rows(run(looping(tmp_path / "whole", 2, feedback, count=8, max_pending=1)))
    killed(looping(tmp_path / "cut", 2, feedback, count=8, max_pending=1), epochs)
    resumed = run(looping(tmp_path / "cut", after, feedback, count=8, max_pending=1), resume=tmp_path / "cut")
    assert rows(resumed) == expected
    assert sum(expected.values()) == 8


class Shouted(Bolt):
    """Sends each number to all of its kind, which emit what they receive."""

    outputs = {"default": ("number", "word"), "again": ("number", "word")}  # noqa: RUF012

    def execute_batch(self, arrival, emit):
        emit.batch(arrival.batch, "again" if arrival.stream == "default" else "default")


def shouting(folder, tasks):
    keys = {"checkpoint": {"directory": str(folder), "epochs": 1}, "max_pending": 1, "epoch": {"feedback": 2}}
    builder = TopologyBuilder("shout", **keys)
    builder.spout("numbers", Numbers, count=64, size=8)
    builder.bolt("shout", Shouted, parallelism=tasks).shuffle("numbers").all("shout", "again", feedback=True)
    builder.bolt("sink", "collect").global_("shout")
    return builder.build()


@pytest.mark.parametrize(("before", "after"), [(2, 4), (4, 2), (3, 1), (1, 3)])
def test_tuples_under_way_to_all_reach_each_task_that_there_is_once(tmp_path, before, after):
    """However many tasks they had been sent to, each of those that there are now receives them, and only once."""
    killed(shouting(tmp_path, before), 4)
    found = Counter(number for number, _ in rows(run(shouting(tmp_path, after), resume=tmp_path)).elements())
    assert set(found) == set(range(64))
    assert set(found.values()) == {before, after}


class Bounced(Director):
    """Names tasks of its own for what it feeds back."""

    outputs = {"default": ("number", "word"), "again": ("number", "word")}  # noqa: RUF012

    def open(self, context):
        [(_, self.targets)] = context.targets["again"]

    def execute_batch(self, arrival, emit):
        if arrival.stream == "default":
            emit.direct(self.targets - 1, arrival.batch, "again")
        else:
            emit.batch(arrival.batch)


def bouncing(folder, tasks):
    keys = {"checkpoint": {"directory": str(folder), "epochs": 1}, "max_pending": 1}
    builder = TopologyBuilder("bounce", **keys)
    builder.spout("numbers", Numbers, count=64, size=8)
    builder.bolt("bounce", Bounced, parallelism=tasks).shuffle("numbers").direct("bounce", "again", feedback=True)
    builder.bolt("sink", "collect").global_("bounce")
    return builder.build()


def test_tuples_under_way_to_a_task_by_name_are_refused(tmp_path):
    """With a direct grouping only the emitter knows who is meant; the error says what to do."""
    killed(bouncing(tmp_path, 2), 4)
    with pytest.raises(
        DeclarationError, match=r"under way at the checkpoint.*direct grouping.*set its parallelism to 2"
    ):
        run(bouncing(tmp_path, 3), resume=tmp_path)
    assert sum(rows(run(bouncing(tmp_path, 2), resume=tmp_path)).values()) == 64


class Remembers(ByParity):
    """A custom grouping with a memory."""

    def snapshot(self):
        return 7

    def restore(self, state):
        assert state == 7


def grouped(folder, using, tasks):
    keys = {"checkpoint": {"directory": str(folder), "epochs": 1}, "max_pending": 1}
    builder = TopologyBuilder("grouped", **keys)
    builder.spout("numbers", Numbers, count=60, size=8)
    builder.bolt("tagged", Tagged, parallelism=tasks).custom("numbers", using)
    builder.bolt("sink", "collect").global_("tagged")
    return builder.build()


def test_custom_grouping_with_a_memory_keeps_its_tasks(tmp_path):
    """What it remembers is of so many tasks; a grouping without a memory takes any number."""
    killed(grouped(tmp_path / "a", Remembers, 3), 3)
    with pytest.raises(DeclarationError, match=r"the custom grouping of 'numbers' to 'tagged' remembers"):
        run(grouped(tmp_path / "a", Remembers, 2), resume=tmp_path / "a")
    assert sum(rows(run(grouped(tmp_path / "a", Remembers, 3), resume=tmp_path / "a")).values()) == 60
    killed(grouped(tmp_path / "b", ByParity, 3), 3)
    assert sum(rows(run(grouped(tmp_path / "b", ByParity, 2), resume=tmp_path / "b")).values()) == 60


class Unsavable(Bolt):
    """Holds what cannot be saved."""

    def execute(self, tup, emit):
        pass

    def snapshot(self):
        return {"thing": object()}


def test_state_that_cannot_be_saved_names_its_task(tmp_path):
    """A run with checkpoints ends at once where an operator's state is no plain value."""
    builder = TopologyBuilder("unsavable", checkpoint={"directory": str(tmp_path)})
    builder.spout("numbers", Numbers)
    builder.bolt("odd", Unsavable).shuffle("numbers")
    with pytest.raises(RunError, match=r"the state of odd\[0\] cannot be saved: state holds a object"):
        run(builder.build())


def sampling(folder):
    builder = TopologyBuilder("sampling", checkpoint={"directory": str(folder), "epochs": 1}, max_pending=1, seed=3)
    builder.spout("numbers", Numbers, count=100, size=10)
    builder.bolt("sample", "sample", size=7).global_("numbers")
    return builder.build()


@pytest.mark.parametrize("epochs", [0, 4, 8])
def test_sample_goes_on_with_its_random_numbers(tmp_path, epochs):
    """The sample of a run that was killed is that of one that was not."""
    expected = rows(run(sampling(tmp_path / "whole")))
    killed(sampling(tmp_path / "cut"), epochs)
    assert rows(run(sampling(tmp_path / "cut"), resume=tmp_path / "cut")) == expected
    assert sum(expected.values()) == 7
