"""The parts behind range indexes: roster, words and expiry."""

from unittest import mock

import numpy as np
import pytest

from operators.indexes.core.expiry import Expiry
from operators.indexes.core.roster import Roster
from operators.indexes.core.words import Words
from streams.batches import FOREVER


def admitted(numbers, ts=0, end=FOREVER):
    roster = Roster()
    numbers = np.array(numbers, np.int64)
    return roster, roster.admit(numbers, np.full(len(numbers), ts), np.full(len(numbers), end))


def test_roster_finds_what_it_holds_and_nothing_else():
    """Numbers lead to their slots, removed ones to nothing, and slots are used again."""
    roster, slots = admitted(range(0, 3000, 3))
    assert roster.find(np.arange(0, 3000, 3)).tolist() == slots.tolist()
    assert (roster.find(np.array([1, 2, 3001, -7])) == -1).all()
    gone = roster.withdraw(np.array([0, 3, 3, 999_999]))
    assert gone.tolist() == slots[:2].tolist()
    assert roster.find(np.array([0, 3, 6])).tolist() == [-1, -1, slots[2]]
    roster.recycle(gone)
    again = roster.admit(np.array([77, 78, 79]), np.zeros(3, np.int64), np.full(3, FOREVER))
    assert sorted(again.tolist()) == sorted([*gone.tolist(), 1000])
    assert roster.live == 1001


def test_roster_tells_what_it_holds_whether_numbers_go_on_or_not():
    """Numbers beyond the largest one seen are not held; others are searched, also after the largest has gone."""
    roster, _ = admitted([5, 40, 9])
    assert roster.holds(np.array([41, 50])).tolist() == [False, False]
    assert roster.holds(np.array([50, 9, 40, 6])).tolist() == [False, True, True, False]
    roster.withdraw(np.array([40]))
    assert roster.holds(np.array([40, 5])).tolist() == [False, True]
    assert roster.holds(np.array([], np.int64)).tolist() == []


@pytest.mark.parametrize("far", [2**40, -(2**40)])
def test_roster_widens_when_values_do_not_fit(far):
    """Numbers and times far from the first ones are kept exactly, and so are those from before."""
    roster, slots = admitted([5, 6], ts=10, end=20)
    narrow = roster.nbytes
    more = roster.admit(np.array([far]), np.array([far + 1]), np.array([FOREVER]))
    everything = np.concatenate([slots, more])
    assert roster.numbers_of(everything).tolist() == [5, 6, far]
    assert roster.starts_of(everything).tolist() == [10, 10, far + 1]
    assert roster.ends_of(everything).tolist() == [20, 20, FOREVER]
    assert roster.find(np.array([5, far])).tolist() == [slots[0], more[0]]
    assert roster.nbytes > narrow


def test_roster_tells_who_lives_at_each_time():
    """A lifetime includes its start and excludes its end, also for times far outside of the narrow range."""
    roster, slots = admitted([1, 2], ts=100, end=200)
    times = np.array([-(2**50), 99, 100, 199, 200, 2**50])
    off = np.arange(0, 13, 2)
    found, numbers = roster.living(off, np.tile(slots, 6), times)
    assert np.diff(found).tolist() == [0, 0, 2, 2, 0, 0]
    assert numbers.tolist() == [1, 2, 1, 2]


@pytest.mark.parametrize("late", [2**31 - 2, 2**31 - 1, 2**31])
def test_roster_keeps_an_end_at_the_border_of_its_codes(late):
    """The largest code stands for no end at all; an end exactly there is still an end, given at once or later."""
    for begins in (0, 1_000):
        roster, slots = admitted([1], ts=begins, end=begins + late)
        assert roster.ends_of(slots).tolist() == [begins + late]
        roster, slots = admitted([1], ts=begins)
        roster.set_ends(slots, np.array([begins + late]))
        assert roster.ends_of(slots).tolist() == [begins + late]
        times = np.array([begins + late - 1, begins + late])
        found, _ = roster.living(np.arange(3), np.tile(slots, 2), times)
        assert np.diff(found).tolist() == [1, 0]


def test_words_are_numbered_counted_and_freed():
    """A word keeps its number while it is used and gives it back with its last use."""
    words = Words()
    first = words.number(np.array([2**62, 7, 2**62]))
    assert first.tolist() == [1, 2, 1]
    assert words.uses[1] == 2
    words.release(np.array([1, 0, -1], np.int32))
    assert len(words) == 2
    words.release(np.array([1], np.int32))
    assert len(words) == 1
    off, known = words.known(np.array([0, 2, 3], np.int32), np.array([7, 2**62, 7]))
    assert off.tolist() == [0, 1, 2]
    assert known[:2].tolist() == [2, 2]
    assert words.number(np.array([9])).tolist() == [1]


def test_words_survive_collisions_and_shrink():
    """Tens of thousands of words come and go; those that stay are found, and the hash shrinks."""
    words = Words()
    ids = np.random.default_rng(2).permutation(60_000) * 977
    numbers = words.number(ids)
    large = words.nbytes
    words.release(numbers[100:])
    off, known = words.known(np.array([0, len(ids)], np.int32), ids)
    assert off[1] == 100
    assert sorted(known[:100].tolist()) == sorted(numbers[:100].tolist())
    assert words.nbytes < large


def test_expiry_names_every_query_that_has_ended():
    """Ends come in any order, also below what has been looked at already, and none is missed."""
    random = np.random.default_rng(4)
    roster, expiry = Roster(), Expiry()
    ends, gone = {}, set()
    for now in range(0, 4000, 7):
        numbers = np.arange(len(ends), len(ends) + 20)
        end = now + random.integers(0, 3000, 20)
        end[::5] = FOREVER
        roster.admit(numbers, np.full(20, now), end)
        expiry.note(numbers, end)
        ends.update(zip(numbers.tolist(), end.tolist(), strict=True))
        named = set(expiry.ended(now, roster).tolist()) - gone
        due = {n for n, e in ends.items() if e <= now} - gone
        assert due <= named
        roster.withdraw(np.array(sorted(due), np.int64))
        gone |= due
    assert len(gone) > 5000


def test_expiry_names_a_late_query_that_ends_with_the_horizon():
    """What comes later and ends exactly where the waiting ones end is named with them."""
    roster, expiry = Roster(), Expiry()
    ends = np.array([10, 20])
    roster.admit(np.array([1, 2]), np.zeros(2, np.int64), ends)
    expiry.note(np.array([1, 2]), ends)
    assert expiry.ended(10, roster).tolist() == [1]
    roster.admit(np.array([3]), np.array([5]), np.array([20]))
    expiry.note(np.array([3]), np.array([20]))
    assert sorted(expiry.ended(20, roster).tolist()) == [2, 3]


def test_expiry_does_not_look_at_all_queries_while_few_have_an_end():
    """Once all ends wait in order, queries that are unregistered later join them; millions without an end are left alone."""
    roster, expiry = Roster(), Expiry()
    numbers = np.arange(100)
    roster.admit(numbers, np.zeros(100, np.int64), np.full(100, FOREVER))
    expiry.note(numbers, np.full(100, FOREVER))
    with mock.patch.object(Roster, "held", autospec=True, side_effect=Roster.held) as looked:
        for now in range(1, 40):
            roster.set_ends(np.array([now], np.int32), np.array([now]))
            expiry.note(np.array([now]), np.array([now]))
            assert expiry.ended(now, roster).tolist() == [now]
            roster.withdraw(np.array([now]))
    assert looked.call_count == 1
