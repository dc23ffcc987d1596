"""What ``bench`` says when a goal is missed."""

import json

import numpy as np

from benchmarks import Report
from benchmarks.report import Goal
from topology.cli.bench import _print, missed


def report(value):
    return Report("some", "data", 1, {"speed": value}, [Goal("speed", at_least=2.0)], ("a",), [["1"]])


def test_figures_of_numpy_are_plain_in_json_and_wide_tables_are_whole_in_a_pipe(capsys):
    """A benchmark of many minutes must not end with an error about how its figures are written, or with half a table."""
    wide = [f"column number {n}" for n in range(30)]
    made = Report("some", "data", 1, {"speed": np.float64(1.0)}, [Goal("speed", at_most=2.0)], wide, [wide])
    assert json.loads(json.dumps(made.as_json()))["goals"][0]["met"] is True
    _print(made)
    assert wide[-1] in capsys.readouterr().out


def test_missed_goal_explains_itself(capsys):
    """Only where one is missed; and that the machine is busy, where it is."""
    _print(report(3.0))
    assert "A goal is a bound" not in capsys.readouterr().out
    _print(report(1.0))
    said = capsys.readouterr().out
    assert "MISSED  speed = 1 (goal >= 2)" in said
    assert "A goal is a bound" in said
    assert "right now 9.0 processes want its 2 cores" in missed(9.0, 2)
    assert "right now" not in missed(0.5, 2)
