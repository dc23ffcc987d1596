"""The workloads of the k best: every question is measured, exactly, and cores that disagree are noticed."""

from dataclasses import replace

import numpy as np
import pytest

from benchmarks import dynamic, dynamic_workloads, skype, skype_workloads
from benchmarks.range_questions import Source
from benchmarks.report import Options
from benchmarks.scored_questions import QUESTIONS, scored
from benchmarks.synthetic_stream import synthetic_objects
from operators.indexes.topk import ball_kernels
from operators.indexes.topk.balls import Balls
from streams.errors import RunError
from streams.geometry import Rect


def test_queries_have_a_place_words_that_ascend_and_statistics_for_them():
    """Every question gives queries that a table takes: places inside the space, rows of words in order, known words."""
    source = Source(synthetic_objects(300, 1), Rect(0.0, 0.0, 1.0, 1.0), 100, 200, 1)
    for name, question in QUESTIONS.items():
        asked = scored(question, source)
        assert (asked.queries.k == question.k).all(), name
        if question.alpha is not None:
            assert (asked.queries.alpha == question.alpha).all(), name
        assert asked.queries.kw.max() < len(asked.words), name
        assert asked.words.df[asked.objects.kw].min() > 0, name
        inside = np.diff(asked.queries.kw) > 0
        inside[asked.queries.kw_off[1:-1] - 1] = True
        assert inside.all(), name
        assert (asked.queries.shape[:, 0] <= asked.space.max_x).all(), name


def test_every_workload_is_asked_of_windows(monkeypatch):
    """Each sort of question has a row and its ratio, and a core that misses a message is noticed."""
    monkeypatch.setattr(skype_workloads, "QUICK", skype_workloads.Sizes(40, 100, 0.01))
    report = skype.run(Options(quick=True, workloads=True))
    assert [row[0] for row in report.rows] == list(QUESTIONS)
    assert all(value > 0 for value in report.figures.values())

    def missing(parts, setting, scene):
        ours = parts is skype_workloads.OURS
        return measured(
            parts, setting, scene if ours else replace(scene, messages=lambda first: scene.messages(first + 1))
        )

    measured = skype_workloads.measure_scene
    monkeypatch.setattr(skype_workloads, "measure_scene", missing)
    with pytest.raises(RunError, match="has changed"):
        skype.run(Options(quick=True, workloads=True))


def test_one_word_that_has_all_balls_gets_room_for_them(monkeypatch):
    """Balls and cells of a word that outgrow their memory together get it at once, not the one by the other for ever."""
    asked, make_room = [], Balls._make_room

    def counted(index):
        asked.append(index._state[[ball_kernels.NEED_BALLS, ball_kernels.NEED_STARTS]].tolist())
        assert len(asked) < 500
        make_room(index)

    monkeypatch.setattr(Balls, "_make_room", counted)
    size = 5_000
    source = Source(synthetic_objects(2 * size, 1), Rect(0.0, 0.0, 1.0, 1.0), size, 2 * size, 1)
    one = skype_workloads._measured(QUESTIONS["one keyword"], source, skype_workloads.Sizes(size, size, 0.2))["ours"]
    assert one.changed > 0
    assert any(balls and starts for balls, starts in asked)


def test_every_workload_is_asked_of_moving_objects(monkeypatch):
    """Each sort of question has a row and its ratio, and a method with other queries is noticed."""
    monkeypatch.setattr(dynamic_workloads, "QUICK", dynamic_workloads.Sizes(20, 60, 20, 0.01))
    report = dynamic.run(Options(quick=True, workloads=True))
    assert [row[0] for row in report.rows] == list(QUESTIONS)
    assert all(value > 0 for value in report.figures.values())

    def missing(parts, setting, scene, known):
        ours = parts is dynamic_workloads.OURS
        return measured(parts, setting, scene if ours else replace(scene, queries=further), known)

    source = Source(synthetic_objects(60, 1), Rect(0.0, 0.0, 1.0, 1.0), 20, 60, 1)
    further = replace(scored(QUESTIONS["usual"], source).queries, alpha=np.full(20, 0.5))
    measured = dynamic_workloads.measure_scene
    monkeypatch.setattr(dynamic_workloads, "measure_scene", missing)
    with pytest.raises(RunError, match="different lists"):
        dynamic.run(Options(quick=True, workloads=True))
