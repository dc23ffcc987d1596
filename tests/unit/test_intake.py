import json

import pytest

from operators.spouts.journal import pack_entry, unpack_entry
from service.intake import Intake, Operation, Rules
from streams.geometry import Rect
from streams.segment_log import Frame
from streams.vocabulary import Encoder

SPACE = Rect(0.0, 0.0, 1.0, 1.0)
RANGE = {"type": "range", "region": {"rect": [0, 0, 1, 1]}}
NEAREST = {"type": "knn", "region": None, "at": [0.5, 0.5], "k": 1}


def _intake(**rules):
    return Intake(Rules(SPACE, **rules), Encoder())


def _lines(*records):
    return "\n".join(json.dumps({"id": n, "x": 0.5, "y": 0.5, **record}) for n, record in enumerate(records)).encode()


def _put(intake, name="q", now=0, **body):
    return intake.operations([Operation("register", name, {**RANGE, **body}, replaces=True)], now, "PUT")


def test_objects_without_a_time_get_that_of_their_arrival():
    """A stamp is the arrival, but never before an object that came earlier or stands earlier in the same body."""
    intake = _intake()
    assert intake.objects(_lines({}, {}), 100).entry.ts.tolist() == [100, 100]
    assert intake.objects(_lines({}, {"ts": 250}, {}, {"ts": 240}), 200).entry.ts.tolist() == [200, 250, 250]
    assert intake.objects(_lines({}), 90).entry.ts.tolist() == [250]


def test_late_objects_are_rejected_with_a_reason():
    """An object older than what came before is named with its line."""
    intake = _intake()
    intake.objects(_lines({"ts": 100}), 0)
    accepted = intake.objects(_lines({"ts": 99}, {"ts": 100}), 0)
    assert accepted.count == 1
    assert [line for line, _ in accepted.rejected] == [1]
    assert "older than 100" in accepted.rejected[0][1]


def test_operations_take_effect_behind_the_objects_before_them():
    """An operation that arrives after an object of time t is of a later time, or late if it brings t itself."""
    intake = _intake()
    intake.objects(_lines({"ts": 100}), 0)
    assert _put(intake, "a", now=50).entry.ts.tolist() == [101]
    intake.objects(_lines({"ts": 200}), 0)
    refused = _put(intake, "b", ts=200)
    assert refused.count == 0
    assert "older than 201" in refused.rejected[0][1]
    assert _put(intake, "b", ts=201).entry.ts.tolist() == [201]
    assert intake.objects(_lines({"ts": 201}), 0).count == 1


def test_a_replacement_ends_the_old_query_at_the_same_time():
    """Replacing is two operations of one time; the old query's number ends."""
    intake = _intake()
    first = _put(intake, now=10).numbers["q"]
    again = _put(intake, now=20)
    assert again.replaced == 1
    assert again.entry.queries.op.tolist() == [1, 0]
    assert again.entry.queries.target.tolist()[0] == first
    assert again.entry.queries.ts.tolist() == [20, 20]


def test_a_query_outlives_a_replacement_that_is_refused():
    """A replacement that cannot be used changes nothing: the old query can still be ended."""
    intake = _intake()
    first = _put(intake, now=10).numbers["q"]
    refused = _put(intake, now=20, region={"rect": [0, 0, 1]})
    assert (refused.count, len(refused.entry.queries)) == (0, 0)
    assert intake.registrations.get("q").number == first
    ended = intake.operations([Operation("unregister", "q")], 30, "DELETE")
    assert ended.entry.queries.target.tolist() == [first]


def test_a_time_is_closed_where_somebody_waits_for_all_of_it():
    """Matches of single objects come out at once, so a time is closed early for lists and for states only."""
    for dynamic, query, closes in ((False, {}, False), (False, NEAREST, True), (True, {}, True)):
        intake = _intake(dynamic=dynamic)
        assert _put(intake, "q", 50, **query).count == 1
        intake.objects(_lines({}), 100)
        assert (intake.closing() is not None) == closes
        assert (intake.passing(900) is not None) is True


def test_refused_operations_are_no_objects():
    """An entry says what its records were meant to be, also where none of them was accepted, and after a restart."""
    refused = _put(_intake(), region={"rect": [0, 0, 1]}).entry
    data = bytearray(b"".join(map(bytes, pack_entry(refused))))
    assert unpack_entry(Frame(0, len(data), data)).about == "queries"
    assert len(refused.queries) == 0
    assert _intake().objects(b"{}", 0).entry.about != "queries"


def test_times_that_were_stamped_close_and_those_that_were_given_do_not():
    """Only who stamps knows that nothing more of a time comes."""
    intake = _intake(dynamic=True)
    intake.objects(_lines({}), 100)
    assert intake.closing().floor == 101
    assert intake.closing() is None
    intake.objects(_lines({"ts": 200}), 150)
    assert intake.closing() is None
    assert intake.passing(900) is None
    assert intake.objects(_lines({"ts": 200}), 160).count == 1


def test_a_question_that_is_asked_once_closes_its_time():
    """What is asked is asked of a complete time; objects get a later one."""
    intake = _intake(answers=frozenset({"snapshot range"}))
    intake.objects(_lines({}), 100)
    asked = intake.operations([Operation("register", "s", {**RANGE, "continuous": False})], 100, "ask", at_once=True)
    assert asked.entry.ts.tolist() == [101]
    assert asked.entry.floor == 102
    assert intake.objects(_lines({}), 100).entry.ts.tolist() == [102]


def test_streams_with_times_of_their_own_set_the_time_of_queries():
    """With event time, a query without a time is of the stream's, whatever the clock says."""
    intake = _intake(time="event")
    assert _put(intake, "before", now=5_000).entry.ts.tolist() == [0]
    intake.objects(_lines({"ts": 70}), 5_000)
    assert _put(intake, "behind", now=5_000).entry.ts.tolist() == [71]


@pytest.mark.parametrize("replayed", [False, True])
def test_intakes_go_on_where_they_were(replayed):
    """From a snapshot, or from the journal, numbers, times and ids that are taken go on."""
    first = _intake()
    entries = [_put(first, "a", 10).entry, first.objects(_lines({}, {}), 20).entry, _put(first, "b", 30, ttl=5).entry]
    second = _intake()
    if replayed:
        for entry in entries:
            data = bytearray(b"".join(map(bytes, pack_entry(entry))))
            second.replay(unpack_entry(Frame(0, len(data), data)))
    else:
        second.restore(first.snapshot())
    assert (second.seq, second.number, second.floor) == (first.seq, first.number, first.floor) == (2, 2, 30)
    assert json.loads(second.registrations.get("a").body)["id"] == "a"
    assert second.operations([Operation("register", "a", RANGE)], 40, "x").rejected[0][1].startswith('id "a" is taken')
    assert _put(second, "b", 40).replaced == 0
    assert second.objects(_lines({}), 40).entry.objects.seq.tolist() == [2]


def test_one_time_far_ahead_does_not_make_all_others_late():
    """A record in nanoseconds, or of a clock that is wrong, is refused, and moves no time; what is replayed may be of any."""
    intake = _intake(ahead_ms=1_000)
    assert _put(intake, "q", now=100, ts=1_101).rejected[0][1].startswith("ts 1101 is later than 1100")
    accepted = intake.objects(_lines({}, {"ts": 10**15}, {}, {"ts": 1_100}), 100)
    assert [line for line, _ in accepted.rejected] == [2]
    assert accepted.entry.objects.ts.tolist() == [100, 100, 1_100]
    assert "1101 is later" in intake.objects(_lines({"ts": 1_101}), 50).rejected[0][1]
    assert intake.objects(_lines({"ts": 1_100}), 50).count == 1  # though the clock went back
    assert _intake(ahead_ms=1_000, time="event").objects(_lines({"ts": 10**15}), 100).count == 1
