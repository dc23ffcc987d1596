"""One suite over all rules for re-evaluation: results are those of the whole window, after every step."""

import os
from random import Random

import numpy as np
import pytest
from checked_kernels import passes_with_checked_bounds
from window_model import SPACE, Drawn, PlainWindow, messages_of, requests_of

from operators.indexes.topk.brute_messages import BruteMessages
from operators.indexes.topk.buffer_rules import BUFFER_RULES, make_buffers
from operators.indexes.topk.topk_index import Answers
from streams.geometry import Rect
from streams.state import pack_state, unpack_state

every_rule = pytest.mark.parametrize("rule", list(BUFFER_RULES))
#: Settings under which small buffers run dry, and overflow, within some steps.
TIGHT = {"rank": {"rank": 2.8, "room": 1.8}}


class Loop:
    """A window, subscriptions by slot, and the buffers of a rule; every step is checked against the definition."""

    def __init__(self, rule, seed, *, window, most_k, epoch, slots=12, timed=False, **drawn):
        self.rng = Random(seed)
        self.rule, self.most_k, self.epoch, self.size, self.timed = rule, most_k, epoch, window, timed
        self.drawn = Drawn(self.rng, **drawn)
        self.model, self.index = PlainWindow(), BruteMessages(SPACE)
        self.buffers = make_buffers(rule, **TIGHT.get(rule, {}))
        self.first, self.stop, self.now, self.times = self.drawn.seq, self.drawn.seq + 1, 0, {}
        self.subscriptions, self.room = {}, slots
        self.refills = self.raised = 0

    # --- the parts of a step ---

    def subscribe(self, slots):
        slots = np.array(slots, np.int32)
        for slot in slots.tolist():
            self.subscriptions[slot] = self.drawn.subscription(self.most_k)
        self.buffers.open(slots, np.array([self.subscriptions[s]["k"] for s in slots.tolist()], np.int32))
        self.fill(slots, self.first)

    def unsubscribe(self, slots):
        self.buffers.close(np.array(slots, np.int32))
        for slot in slots:
            del self.subscriptions[slot]

    def fill(self, slots, first):
        ask = self.buffers.requests_for(slots)
        rows = [self.subscriptions[slot] for slot in slots.tolist()]
        whole = np.full(len(slots), self.stop)
        found = self.index.search(
            requests_of(rows, ask.least, ask.most, ask.bound, ask.ratio, np.full(len(slots), first), whole)
        )
        self.buffers.refill(slots, found)

    def messages(self, count):
        new = [self.drawn.message() for _ in range(count)]
        for message in new:
            self.now += self.rng.randint(0, 3)
            self.times[message["seq"]] = self.now
        self.model.rows.extend(new)
        self.index.add(messages_of(new))
        if new:
            self.stop = new[-1]["seq"] + 1
        return new

    def enter(self, new):
        """Enter what messages score at least theta, some of it twice, in any order, and some that does not."""
        pairs = []
        for slot, subscription in self.subscriptions.items():
            for message in new:
                value = self.model.score(subscription, message)
                if value is not None and (value >= self.buffers.theta[slot] or self.rng.random() < 0.1):
                    pairs.extend([(slot, message["seq"], value)] * (1 + (self.rng.random() < 0.1)))
        self.rng.shuffle(pairs)
        before = self.lists()
        slots, seq, value = zip(*pairs, strict=True) if pairs else ((), (), ())
        changed = self.buffers.enter(np.array(slots, np.int32), np.array(seq, np.int64), np.array(value, np.float64))
        self.check_changed(before, changed)

    def next_first(self):
        held = [m["seq"] for m in self.model.rows]
        inside = [seq for seq in held if self.times[seq] > self.now - self.size] if self.timed else held[-self.size :]
        return max(self.first, inside[0] if inside else self.stop)

    def expire(self):
        before = self.lists()
        self.first = self.next_first()
        changed, wanting = self.buffers.expire(self.first)
        self.check_changed(before, changed)
        self.model.rows = [m for m in self.model.rows if m["seq"] >= self.first]
        self.index.drop(self.first)
        whole = self.buffers.whole(np.array(list(self.subscriptions), np.int32))
        dry = {
            slot
            for row, (slot, subscription) in enumerate(self.subscriptions.items())
            if whole.off[row + 1] - whole.off[row] < subscription["k"] and whole.theta[row] > -np.inf
        }
        assert sorted(wanting.tolist()) == sorted(dry)
        if len(wanting):
            self.fill(wanting, self.first)
            self.refills += len(wanting)

    def step(self, count=None):
        new = self.messages(self.rng.randint(0, self.epoch) if count is None else count)
        self.enter(new)
        self.expire()
        self.check()

    # --- checks ---

    def lists(self):
        slots = list(self.subscriptions)
        off, seq, value = self.buffers.lists(np.array(slots, np.int32))
        return {
            slot: list(zip(value[off[i] : off[i + 1]].tolist(), seq[off[i] : off[i + 1]].tolist(), strict=True))
            for i, slot in enumerate(slots)
        }

    def check_changed(self, before, changed):
        after = self.lists()
        assert sorted(changed.tolist()) == sorted(slot for slot in after if after[slot] != before[slot])

    def check(self):
        lists = self.lists()
        slots = np.array(list(self.subscriptions), np.int32)
        whole = self.buffers.whole(slots)
        for row, (slot, subscription) in enumerate(self.subscriptions.items()):
            ranking = self.model.ranking(subscription, self.first, self.stop)
            k = subscription["k"]
            assert lists[slot] == ranking[:k], (slot, k)
            self.check_known(ranking, k, whole, row)

    def check_known(self, ranking, k, whole, row):
        """Whatever is above the threshold is in the buffer or dominated by k."""
        part = slice(whole.off[row], whole.off[row + 1])
        known = set(zip(whole.score[part].tolist(), whole.seq[part].tolist(), strict=True))
        threshold = float(whole.theta[row]), int(whole.cut[row])
        for rank, item in enumerate(ranking):
            if item > threshold and item not in known:
                assert sum(other[1] > item[1] for other in ranking[:rank]) >= k

    def churn(self):
        gone = [slot for slot in self.subscriptions if self.rng.random() < 0.2]
        self.unsubscribe(gone)
        free = [slot for slot in range(self.room) if slot not in self.subscriptions]
        self.subscribe([slot for slot in free if self.rng.random() < 0.5])
        self.check()

    def saved(self):
        """Become other buffers by way of a snapshot."""
        state = unpack_state(pack_state(self.buffers.snapshot()))
        self.buffers = make_buffers(self.rule, **TIGHT.get(self.rule, {}))
        self.buffers.restore(state)
        assert set(self.buffers.retuned().tolist()) <= set(self.subscriptions)
        self.check()

    def moved(self):
        """Give some buffers to another task, which has seen the messages since."""
        slots = np.array([slot for slot in self.subscriptions if self.rng.random() < 0.5], np.int32)
        whole = self.buffers.whole(slots)
        self.buffers.close(slots)
        self.buffers.open(slots, np.array([self.subscriptions[s]["k"] for s in slots.tolist()], np.int32))
        self.enter(self.messages(self.rng.randint(0, self.epoch)))
        dry = self.buffers.adopt(slots, whole)
        assert not len(dry)
        self.expire()
        self.check()


def run(rule, seed, steps, **shape):
    loop = Loop(rule, seed, **shape)
    loop.subscribe(range(loop.room // 2))
    for _ in range(steps):
        loop.step()
        what = loop.rng.random()
        if what < 0.15:
            loop.churn()
        elif what < 0.2:
            loop.saved()
        elif what < 0.3:
            loop.moved()
    return loop


@every_rule
@pytest.mark.parametrize("window", [1, 3, 5, 200])
def test_results_over_a_window_by_count_are_exact_after_every_step(rule, window):
    """Windows of one message, of fewer than k, of k and of many: results and what buffers know are as defined."""
    loop = run(rule, window, 60, window=window, most_k=5, epoch=25 if window > 5 else 4)
    assert loop.refills or window < 200


@every_rule
def test_results_with_many_equal_scores_are_exact(rule):
    """A grid of four places and a handful of words give ties everywhere, also at the thresholds."""
    run(rule, 5, 60, window=120, most_k=6, epoch=25, grid=2, words=3, longest=2)


@every_rule
def test_windows_by_time_empty_and_fill_again(rule):
    """A window by time may have fewer than k messages, or none; gaps between places in the input do not matter."""
    loop = Loop(rule, 8, window=30, most_k=4, epoch=15, timed=True, gaps=True)
    loop.subscribe(range(8))
    for turn in range(45):
        if turn % 9 == 8:
            loop.now += 100
            loop.step(0)
            assert not any(loop.lists().values())
        loop.step()
        if turn % 10 == 0:
            loop.churn()


@every_rule
def test_scores_below_zero_are_exact(rule):
    """Keys of ten bytes do not have them: what is in buffers takes others as soon as there is one, and means the same."""
    loop = Loop(rule, 3, window=60, most_k=4, epoch=20)
    loop.subscribe(range(8))
    for turn in range(30):
        if turn == 10:  # what is outside of the space is farther away than the largest distance
            wide, high = SPACE.max_x - SPACE.min_x, SPACE.max_y - SPACE.min_y
            loop.drawn.space = Rect(SPACE.max_x, SPACE.max_y, SPACE.max_x + 5 * wide, SPACE.max_y + 5 * high)
        loop.step()
    assert min(value for rows in loop.lists().values() for value, _ in rows) < 0


@every_rule
@pytest.mark.parametrize("gap", [2_000_000, 9_000_000])
def test_places_may_be_millions_apart(rule, gap):
    """Places in the input are counted anew from time to time, and take more room where a window is longer than 2^23."""
    loop = Loop(rule, 4, window=40, most_k=4, epoch=12)
    loop.subscribe(range(8))
    for turn in range(40):
        if turn % 4 == 3:
            loop.drawn.seq += gap
        loop.step()
        if turn % 7 == 6:
            loop.saved()
            loop.moved()


@pytest.mark.parametrize("searched_for", [False, True])
@every_rule
def test_restored_buffers_say_that_they_have_run_dry_as_they_would_have(rule, searched_for):
    """One that nobody searches for yet is reported with the next expiry, one that is searched for is not."""
    buffers, slots = make_buffers(rule), np.array([3], np.int32)
    buffers.open(slots, np.array([3], np.int32))
    buffers.refill(slots, Answers(np.array([0, 2]), np.array([7, 5]), np.array([0.5, 0.25]), np.array([0.25]), 2))
    if searched_for:
        assert buffers.expire(6)[1].tolist() == [3]
    restored = make_buffers(rule)
    restored.restore(unpack_state(pack_state(buffers.snapshot())))
    assert restored.expire(8)[1].tolist() == ([] if searched_for else [3])


@pytest.mark.skipif("NUMBA_BOUNDSCHECK" in os.environ, reason="is itself run in this way")
@pytest.mark.timeout(900)  # everything is compiled anew
def test_kernels_stay_inside_of_their_arrays(checked_kernels):
    """Kernels have no bounds checks; once, they run with them."""
    passes_with_checked_bounds(checked_kernels, __file__, "-k", "rank or kmax")
