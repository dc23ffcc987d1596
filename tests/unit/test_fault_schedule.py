"""When faults happen, to whom, and how often; damage to checkpoints."""

import pytest

from streams.state import pack_apart
from topology import TopologyBuilder
from topology.checkpoints import Checkpoint, FolderStore, load_newest, save
from topology.checkpoints.damage import damage_newest
from topology.fault_schedule import FaultSchedule, slow_faults, slow_ms
from topology.messages import Message
from topology.wiring import wire


def wiring_with(*faults):
    builder = TopologyBuilder("demo", checkpoint={"directory": "checkpoints"})
    builder.spout("numbers", "operators_for_tests:Numbers", parallelism=3)
    builder.bolt("sink", "collect").global_("numbers")
    for fault in faults:
        builder.inject(**fault)
    return wire(builder.build())


def never(_seed):
    return False


def test_fault_is_due_once_when_its_epoch_is_complete():
    """Also when the run goes back and the epoch is complete again."""
    schedule = FaultSchedule(wiring_with({"kind": "kill", "task": "sink", "epoch": 4}))
    assert schedule.due(4, never) == []
    assert [fault.kind for fault in schedule.due(5, never)] == ["kill"]
    schedule.restart()
    assert schedule.due(5, never) == []


def test_fault_of_an_epoch_before_the_start_is_behind():
    """A run that is resumed does not suffer again."""
    schedule = FaultSchedule(wiring_with(*({"kind": "kill", "task": "sink", "epoch": epoch} for epoch in (4, 5))))
    schedule.begin(5)
    assert [fault.epoch for fault in schedule.due(9, never)] == [5]


def test_fault_happens_to_one_task_or_to_all():
    """By the name of a task, or of a component."""
    wiring = wiring_with({"kind": "kill", "task": "numbers"}, {"kind": "pause", "task": "numbers[1]"})
    schedule = FaultSchedule(wiring)
    names = [[wiring.tasks[id_].name for id_ in schedule.tasks_of(fault)] for fault in schedule.due(1, never)]
    assert names == [["numbers[0]", "numbers[1]", "numbers[2]"], ["numbers[1]"]]


def test_corruption_waits_until_it_can_be_done():
    """It is tried after each epoch, and done once."""
    schedule = FaultSchedule(wiring_with({"kind": "corrupt", "epoch": 1, "seed": 7}))
    seeds = []
    schedule.due(2, never)
    for acked in (3, 4):
        schedule.due(acked, lambda seed: not seeds.append(seed))
    assert seeds == [7]


def messages(epoch, count=200):
    return [Message(source, 3, 0, epoch, None, False, ()) for source in range(count)]


def test_messages_are_lost_with_the_given_probability_until_the_run_goes_back():
    """Always the same ones, whatever the order in which they are sent."""
    schedule = FaultSchedule(wiring_with({"kind": "drop", "strength": 0.3, "epoch": 2, "duration": 2, "seed": 1}))
    assert schedule.sent(messages(1)) == messages(1)
    assert schedule.lost is None
    arrived = schedule.sent(messages(2))
    assert 110 < len(arrived) < 170
    assert schedule.lost == next(message for message in messages(2) if message not in arrived)
    assert schedule.sent(messages(2)[::-1]) == arrived[::-1]
    assert len(schedule.sent(messages(3))) < 200
    assert len(schedule.sent(messages(4))) == 200
    schedule.restart()
    assert schedule.lost is None
    assert len(schedule.sent(messages(2))) == 200


def test_messages_come_twice():
    """All of them, with a probability of one."""
    schedule = FaultSchedule(wiring_with({"kind": "duplicate", "strength": 1.0}))
    assert len(schedule.sent(messages(0))) == 400
    assert len(schedule.sent(messages(1))) == 200


def test_slow_epochs_add_up():
    """Two faults of one task, one of them for two epochs."""
    wiring = wiring_with(
        {"kind": "slow", "task": "sink", "strength": 5.0, "epoch": 3},
        {"kind": "slow", "task": "sink[0]", "strength": 2.5, "epoch": 4, "duration": 2},
    )
    (faults,) = slow_faults(wiring).values()
    assert [slow_ms(faults, epoch) for epoch in range(2, 8)] == [0.0, 5.0, 7.5, 7.5, 5.0, 5.0]


@pytest.mark.parametrize("seed", range(12))
def test_damage_spares_a_checkpoint_to_go_back_to(tmp_path, seed):
    """Whichever file it hits, the checkpoint is not whole any more, and the one before is never touched as well."""
    store, damaged = FolderStore(tmp_path), set()
    assert not damage_newest(store, seed, damaged)
    for serial in range(2):
        states = {"a": pack_apart({}), "b": pack_apart({"a": 1})}
        save(store, serial, Checkpoint(serial, {}, {}, states, pack_apart({}), {}), keep=5)
        assert damage_newest(store, seed, damaged) == (serial == 1)
    assert load_newest(store).manifest.serial == 0
    assert not damage_newest(store, seed, damaged)
