"""The folder of a service: of one service at a time, and of one topology."""

from pathlib import Path

import pytest

from service.engine import runnable
from service.state_folder import StateFolder
from streams import segment_log
from streams.errors import DeclarationError, InputError
from streams.segment_log import LogWriter
from topology.checkpoints.identity import check_identity, identity_of, parallelism_of
from topology.planning import plan_of
from topology.toml import load_topology

CONF = Path(__file__).parents[2] / "conf"


def test_what_is_of_another_topology_is_left_as_it_is(tmp_path):
    """Records of a journal are read by the topology that took them, also where no checkpoint says which one that is."""
    folder = StateFolder(tmp_path / "state")
    first, other = load_topology(CONF / "tornado.toml"), load_topology(CONF / "skype.toml")
    folder.prepare(first)
    folder.plan.touch()
    folder.prepare(other)  # nothing was accepted yet
    assert not folder.plan.exists()
    folder.prepare(first)
    before = folder.declared()
    writer = LogWriter(folder.journal)
    writer.append([b"an entry"])
    writer.close()
    with pytest.raises(InputError, match=r"of another topology.*name another folder with --state"):
        folder.prepare(other)
    assert folder.declared() == before
    folder.prepare(load_topology(CONF / "tornado.toml", ["bolt.evaluator.parallelism=2"]))


def test_folder_may_be_moved_but_not_get_another_plan(tmp_path):
    """Checkpoints go by what a plan is, not by where it lies; the journal and the log may lie anywhere."""
    topology = load_topology(CONF / "tornado.toml")
    there, here = StateFolder(tmp_path / "there"), StateFolder(tmp_path / "here")
    there.prepare(topology)
    there.plan.write_bytes(b"a plan")
    was = there.planned(there.live(topology))
    identity, parallelism = identity_of(was), parallelism_of(was)
    there.path.rename(here.path)
    moved = here.planned(here.live(topology))
    check_identity(moved, identity, parallelism, "here")
    here.plan.write_bytes(b"another plan")
    with pytest.raises(DeclarationError, match=r"topology\.plan is 'plan\.bin \(.*\)', it was 'plan\.bin \("):
        check_identity(moved, identity, parallelism, "here")


def test_a_second_service_is_refused_before_it_changes_anything(tmp_path, monkeypatch):
    """The lock is the first thing that is taken, and is free again afterwards."""
    monkeypatch.setattr(segment_log, "LOCK_SECONDS", 0.05)
    with (
        StateFolder(tmp_path).held(),
        pytest.raises(InputError, match="written by another process"),
        StateFolder(tmp_path).held(),
    ):
        pass
    with StateFolder(tmp_path).held():
        pass


def test_another_number_of_evaluators_gets_a_plan_of_its_own(tmp_path):
    """A plan is for so many workers."""
    folder = StateFolder(tmp_path)
    for evaluators in (4, 3):
        few = ["topology.partitioner.sample=100", f"bolt.evaluator.parallelism={evaluators}"]
        folder.prepare(load_topology(CONF / "sstd-a-grid.toml", few))
        writer = LogWriter(folder.journal)
        writer.append([b"an entry"])
        writer.close()
        assert plan_of(runnable(folder)).workers == evaluators
