"""The benchmark of frequent terms, in small: what it reports, and that it sees a wrong count."""

from dataclasses import replace

import pytest

from benchmarks import terms_index
from benchmarks.report import Options
from operators.indexes.terms.candidates import Candidates
from streams.errors import RunError

SMALL = terms_index._Sizes(queries=30, window=20_000, measured=2_000, compared=15)


@pytest.fixture(autouse=True)
def small(monkeypatch):
    """Measure little."""
    monkeypatch.setattr(terms_index, "QUICK", SMALL)


def test_all_indexes_are_measured_on_the_same_instants():
    """Candidates with all queries, then all three with some of them."""
    report = terms_index.run(Options(quick=True))
    assert [row[0] for row in report.rows] == ["candidates, 30", "candidates, 15", "groups, 15", "brute, 15"]
    assert report.figures["bytes_a_query"] > 8 * 48
    assert report.figures["terms_listed_an_evaluation"] >= 10
    assert all(value > 0 for value in report.figures.values())


def test_a_wrong_count_is_seen(monkeypatch):
    """An index that gives other counts than the others ends the benchmark."""
    right = Candidates.count
    monkeypatch.setattr(
        Candidates, "count", lambda self, asked: replace(right(self, asked), count=right(self, asked).count + 1)
    )
    with pytest.raises(RunError, match="has other counts than 'candidates'"):
        terms_index.run(Options(quick=True))
