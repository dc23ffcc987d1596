"""The benchmarks of Skype: what they measure is one stream and the same lists, whoever finds them."""

import os
import queue
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from benchmarks import skype, skype_engine, skype_scale
from benchmarks.report import Options
from benchmarks.skype_engine import BASELINE, OURS, PAPER, Measured, Setting, agree, epochs_of, measure
from benchmarks.skype_stream import skype_subscriptions
from streams.errors import InputError, RunError

TINY = Setting(150, 400, k=4, seconds=60.0)


@pytest.fixture
def tiny(monkeypatch):
    """Few messages are made at a time."""
    monkeypatch.setattr(skype_engine, "BLOCK", 400)
    skype_engine._block.cache_clear()
    yield
    skype_engine._block.cache_clear()


def measured(prints=((3, 40), (5, 60)), us=10.0):
    """Return what a core may have measured."""
    return Measured(30.0, us, us, us, 2.0, 0.1, 25.0, 600.0, 2.0, prints)


def test_cores_of_one_workload_change_the_same_lists_until_the_end(tiny):
    """Ours, the paper's and its baseline see the same epochs for two turnovers, by count and by time, and agree on lists."""
    for setting in (TINY, replace(TINY, by_time=True)):
        found = {parts.index: measure(parts, setting) for parts in (OURS, PAPER, BASELINE)}
        agree(found)
        assert {len(one.prints) for one in found.values()} == {50}
        assert all(one.turnovers == 2.0 and one.changed > 0 and one.messages_per_s > 0 for one in found.values())
        assert len({one.searches for one in found.values()}) > 1  # buffers differ, lists do not


def test_cores_that_differ_are_an_error():
    """A list more, or another message in it, in an epoch that both have seen; a shorter look is none."""
    agree({"a": measured(), "b": measured(prints=((3, 40),))})
    for other in (((3, 40), (6, 60)), ((3, 41), (5, 60))):
        with pytest.raises(RunError, match="epoch"):
            agree({"a": measured(), "b": measured(prints=other)})


def test_the_stream_goes_on_without_gaps(tiny):
    """An epoch that would cross a block is cut there; `seq` goes on."""
    epochs = epochs_of(replace(TINY, window=5_000), first=350)
    seq = np.concatenate([next(epochs).seq for _ in range(4)])
    assert np.array_equal(seq, np.arange(350, 350 + len(seq)))
    assert len(seq) == 50 + 200 + 200 + 200


def test_even_words_are_distinct_ascending_and_rare():
    """Subscriptions with words drawn evenly have as many as others, but hardly one of the frequent ones."""
    drawn, even = skype_subscriptions(2_000), skype_subscriptions(2_000, even=True)
    assert np.array_equal(drawn.kw_off, even.kw_off)
    starts = np.zeros(len(even.kw), np.bool_)
    starts[even.kw_off[:-1]] = True
    assert (np.diff(even.kw)[~starts[1:]] > 0).all()
    assert np.median(even.kw) > 10 * np.median(drawn.kw)


def test_all_figures_are_measured_and_drawn(monkeypatch, tmp_path):
    """Each goal has its figure, each figure of the paper its rows, those with a parameter a picture; cores are compared."""
    monkeypatch.setattr(skype, "measure", lambda parts, setting: measured(us=1.0 if parts.index == "balls" else 20.0))
    report = skype.run(Options(out=tmp_path))
    assert {goal.figure for goal in report.goals} <= set(report.figures)
    assert report.figures["ours_over_ciq_kmax"] == pytest.approx(20.0)
    told = " ".join(row[0] for row in report.rows)
    assert all(f"Figure {number}" in told for number in range(10, 21))
    assert "Table 4" in told
    assert {"skype-figure-15.png", "skype-figure-20.png"} <= {path.name for path in tmp_path.iterdir()}
    with pytest.raises(InputError, match="no such folder"):
        skype.run(Options(out=tmp_path / "nowhere"))
    wrong = iter([measured()] * 5)
    monkeypatch.setattr(skype, "measure", lambda parts, setting: next(wrong, measured(prints=((9, 9),))))
    with pytest.raises(RunError, match="epoch 0"):
        skype.run(Options(quick=True))


def test_two_tasks_have_all_subscriptions_between_them(tiny, monkeypatch):
    """Lists that change in two halves are those that change in one task with all of them."""
    setting = replace(TINY, window=1_000)

    def one_after_the_other(setting):
        found = queue.Queue()
        for task in range(skype_scale.TASKS):
            skype_scale._run(setting, task, SimpleNamespace(wait=int), found)
        return list(found.queue)

    monkeypatch.setattr(skype_scale, "_in_processes", one_after_the_other)
    halves = skype_scale._measured(setting)
    whole = measure(OURS, setting)
    late = [lists for lists, _ in whole.prints][25:28]
    assert halves.changed == sum(late) / 120
    assert halves.message_us < halves.one_core_us


def test_a_task_that_dies_is_named(monkeypatch):
    """Nobody waits for a process that has no memory any more."""
    monkeypatch.setattr(skype_scale, "_run", os._exit)  # which takes one number: the processes end with an error
    with pytest.raises(RunError, match=r"a task of 2 has died \(exit code 1"):
        skype_scale._in_processes(TINY)
