"""How far spouts may go, and when a run ends."""

import pytest
from operators_for_tests import Numbers, Tagged

from streams.errors import RunError
from topology import TopologyBuilder
from topology.conductor import Conductor
from topology.messages import Report
from topology.task import Task
from topology.wiring import wire


def conductor(max_pending=3, drain=5, start=0, feedback=1):
    builder = TopologyBuilder(
        "t", max_pending=max_pending, limits={"drain_epochs": drain}, epoch={"feedback": feedback}
    )
    builder.spout("numbers", Numbers)
    builder.bolt("middle", Tagged).shuffle("numbers")
    builder.bolt("sink", "count").global_("middle")
    made = Conductor(wire(builder.build()), start=start)
    made.grant()
    return made


def spout(epoch, **kwargs):
    return Report(0, epoch, {"emitted": kwargs.pop("emitted", 1)}, **kwargs)


def test_conductor_bounds_pending_epochs():
    """No more than max_pending epochs are granted beyond the complete ones."""
    c = conductor(max_pending=3)
    assert c.limit == 3
    for epoch in range(5):
        c.report(spout(epoch))
        assert c.report(Report(2, epoch)) == [epoch]
        c.grant()
        assert c.limit == epoch + 1 + 3
        assert c.pending == 3


def test_epoch_completes_without_reports_from_the_middle():
    """Spouts and ends complete an epoch: whoever is between them must have worked on it."""
    c = conductor()
    c.report(spout(0))
    assert c.acked == 0
    c.report(Report(2, 0))
    assert c.acked == 1


def test_epochs_complete_in_order():
    """An epoch is not acked before the ones below it."""
    c = conductor()
    c.report(spout(0))
    c.report(spout(1))
    assert c.report(Report(2, 1)) == []
    assert c.report(Report(2, 0)) == [0, 1]


def test_final_epoch_comes_after_exhaustion():
    """When the spout is dry and its last epoch complete, the next epoch that nobody has begun is the final one."""
    c = conductor(max_pending=2)
    c.report(spout(0, exhausted=True))
    c.report(Report(2, 0))
    assert c.grant()
    assert (c.final, c.limit) == (2, 3)
    assert not c.done


def test_stop_ends_the_input_and_lets_feedback_come_to_rest():
    """From the first epoch that nobody has begun on spouts are dry; the final one comes when nothing is fed back any more."""
    c = conductor(max_pending=2)
    c.stop()
    c.stop()
    assert (c.dry, c.final) == (2, None)
    for epoch in range(5):
        c.report(spout(epoch, exhausted=epoch >= c.dry))
        c.report(Report(2, epoch, feedback=int(epoch < 4)))
        c.grant()
        c.stop()
        assert (c.final is not None) == (epoch == 4), epoch
    assert c.dry == 2


def test_stop_with_feedback_that_never_rests_is_an_error():
    """What comes to no rest within drain_epochs is told, as at the end of the input."""
    c = conductor(max_pending=1, drain=5)
    c.stop()

    def go_on():
        for epoch in range(20):
            c.report(spout(epoch, exhausted=epoch >= c.dry))
            c.report(Report(2, epoch, feedback=1))
            c.grant()

    with pytest.raises(RunError, match="feedback has not come to rest"):
        go_on()


def test_spout_that_is_stopped_emits_nothing_from_then_on():
    """Its epochs go on without it; what it has not emitted it emits when the run is resumed."""
    builder = TopologyBuilder("t")
    builder.spout("numbers", Numbers, size=3)
    builder.bolt("sink", "count").global_("numbers")
    wiring = wire(builder.build())
    task = Task(wiring, wiring.tasks[0])
    task.grant(4, None, 2)
    reports = [task.step()[1] for _ in range(4)]
    assert [report.counts.get("emitted", 0) for report in reports] == [3, 3, 0, 0]
    assert [report.exhausted for report in reports] == [False, False, True, True]
    resumed = Task(wiring, wiring.tasks[0])
    resumed.restore(task.snapshot())
    resumed.grant(5, None)
    assert resumed.step()[1].counts["emitted"] == 3
    assert resumed.operator.next == 9


@pytest.mark.parametrize("lag", [1, 3])
def test_feedback_from_before_the_start_is_waited_for(lag):
    """A run that goes on from a checkpoint may have feedback under way, of which no report tells."""
    c = conductor(max_pending=1, start=7, feedback=lag)
    for epoch in range(7, 7 + lag):
        assert c.final is None
        c.report(spout(epoch, exhausted=True))
        c.report(Report(2, epoch))
        c.grant()
    assert c.final == 7 + lag


def test_feedback_delays_the_final_epoch():
    """While feedback is under way the run does not end."""
    c = conductor(max_pending=1)
    c.report(spout(0, exhausted=True))
    c.report(Report(2, 0, feedback=1))
    c.grant()
    assert c.final is None
    for epoch in (1, 2):
        c.report(spout(epoch, exhausted=True))
        c.report(Report(2, epoch))
        c.grant()
    assert c.final is not None


def test_feedback_that_never_rests_is_an_error():
    """A loop without an end is reported, not run for ever."""
    c = conductor(max_pending=1, drain=5)

    def go_on():
        for epoch in range(20):
            c.report(spout(epoch, exhausted=True))
            c.report(Report(2, epoch, feedback=1))
            c.grant()

    with pytest.raises(RunError, match="feedback has not come to rest"):
        go_on()
