"""What ``bench`` says when a goal is missed."""

from benchmarks import Report
from benchmarks.report import Goal
from topology.cli.bench import _print, missed


def report(value):
    return Report("some", "data", 1, {"speed": value}, [Goal("speed", at_least=2.0)], ("a",), [["1"]])


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
