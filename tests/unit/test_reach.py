"""Whether all processes reach the store: found out by asking through it."""

import pytest

from topology.checkpoints import open_store
from topology.checkpoints.reach import Probe


@pytest.fixture
def store(tmp_path):
    return open_store(str(tmp_path / "kept"))


def test_store_that_all_reach_is_answered_by_all(store):
    """And nothing is left of the question."""
    probe = Probe.ask(store)
    for process in range(3):
        probe.answer(process)
    assert probe.answered(store, 3)
    assert store.folders() == []


def test_store_that_one_does_not_reach_is_not_for_all(store):
    """One answer that is missing is enough."""
    probe = Probe.ask(store)
    probe.answer(0)
    assert not probe.answered(store, 2)
    assert store.folders() == []


def test_place_where_the_question_is_not_gets_no_answer(store, tmp_path):
    """A folder of that name on another machine, say: nothing is made there."""
    elsewhere = tmp_path / "elsewhere"
    asked = Probe.ask(store)
    Probe(str(elsewhere), asked.folder, asked.word).answer(0)
    assert not elsewhere.exists()
    Probe("nowhere://x", asked.folder, asked.word).answer(0)
    Probe(store.place, asked.folder, b"another word").answer(0)
    assert not asked.answered(store, 1)


def test_store_that_cannot_be_written_is_reached_by_nobody(tmp_path):
    """What that means for the run is said by the checkpoint that cannot be written, not here."""
    (tmp_path / "file").write_text("in the way")
    store = open_store(str(tmp_path / "file"))
    probe = Probe.ask(store)
    probe.answer(0)
    assert not probe.answered(store, 1)
