"""The aggregation bolt of DSkype (Section 7.2): the buffers of subscriptions, and with them the lists.

Evaluators send what may enter a list; several may hold a subscription and send the same message, which enters once. When a
buffer has run dry, or a subscription is new, the message stores are asked. That is answered `feedback` epochs later, as of
that epoch; until then nobody speaks for the subscription, and evaluators let everything pass that shares a word with it.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from operators.evaluation.scored_evaluator import THRESHOLD_FIELDS
from operators.indexes.core.standing_queries import SAVED_COLUMNS, registrations, saved_columns
from operators.indexes.topk.buffer_rules import BUFFER_RULES, make_buffers
from operators.indexes.topk.topk_lists import TopkLists, Wanted, part_of_lists, united_lists
from operators.indexes.topk.window_log import WindowLog
from operators.merging.fingerprints import Fingerprints
from operators.merging.lists import fingerprints
from operators.needs import Need
from operators.operator import Bolt, Emitter, Epoch, Inputs, State, TaskContext
from operators.redistribution import Division
from operators.refilling.complete_input import CompleteInput, LateRequests, in_order, united_input
from operators.refilling.definitions import Definitions
from operators.refilling.requests import AS_OF_NOW, LIMIT_FIELDS, Pairs, partial_answers
from streams.batches import OP_REGISTER, ObjectBatch, QueryBatch, RankedBatch, TupleBatch, batch_fields
from streams.columns import Ints, union_of
from streams.errors import DeclarationError, did_you_mean
from streams.hashing import places_by_hash

__all__ = ["TopkAggregator"]

_NONE: Ints = np.empty(0, np.int64)
_BY_QUERY = Need(
    ("fields",), "what belongs to one subscription would reach several aggregators", feedback=False, required=True
)


@dataclass
class TopkAggregator(Bolt):
    """Keeps the lists of topk queries, those of one query in one task, and says what is wanted of evaluators and stores.

    Options:
        buffers: what is kept of each subscription besides its result; one of `BUFFER_RULES`.
    """

    outputs: ClassVar = {
        "results": batch_fields(RankedBatch),
        "requests": batch_fields(QueryBatch),
        "limits": LIMIT_FIELDS,
        "thresholds": THRESHOLD_FIELDS,
    }
    addressed: ClassVar = frozenset()
    reads: ClassVar = {
        "queries": _BY_QUERY,
        "objects": Need(
            ("all",), "it would not know which messages the window has", routed=False, feedback=False, required=True
        ),
        "hits": _BY_QUERY,
        "refills": _BY_QUERY,
        "unset": _BY_QUERY,
    }

    buffers: str = "rank"

    def __post_init__(self) -> None:
        if self.buffers not in BUFFER_RULES:
            listed = ", ".join(BUFFER_RULES)
            raise DeclarationError(
                f"buffers = '{self.buffers}'{did_you_mean(self.buffers, BUFFER_RULES)}, expected one of: {listed}",
                ("buffers",),
            )

    def open(self, context: TaskContext) -> None:
        """Start without subscriptions."""
        if context.window is None:
            raise DeclarationError(
                "an aggregator needs a sliding window; set topology.window.objects or topology.window.ms"
            )
        self._context = context
        self._table = Definitions(context.space, context.metric)
        self._log = WindowLog(context.window, "names")
        self._buffers = make_buffers(self.buffers)
        self._lists = TopkLists(self._table, self._buffers, self._log)
        self._input = CompleteInput()
        self._said = Fingerprints()
        self._late = LateRequests(context.epoch_feedback)
        #: Hits of messages whose time is not complete yet.
        self._later: Pairs = (_NONE, _NONE, np.empty(0))
        #: In which epoch which subscription is answered for.
        self._awaited: tuple[Ints, Ints] = (_NONE, _NONE)
        self._changed: Ints = _NONE
        self._over: Ints = _NONE

    # --- one epoch ---------------------------------------------------------------------------------------------------

    def execute_epoch(self, epoch: Epoch, inputs: Inputs, emit: Emitter) -> None:
        """Take in what has come, let time go by, ask, and send what has changed."""
        objects = in_order(inputs.batches("objects"))
        self._input.advance(epoch, objects)
        self._log.append(_named(objects))
        for queries in inputs.batches("queries"):
            self._apply(queries)
        self._input.note(np.concatenate([_NONE, *(queries.ts for queries in inputs.batches("queries"))]), epoch)
        self._enter(inputs.batches("hits"))
        if self._input.now is None:
            return
        changed, wanted = self._lists.due(self._input.now, epoch.watermark, self._input.stop)
        self._over = union_of(self._over, self._lists.ended())
        self._ask(wanted, epoch, emit)
        filled = self._refill(inputs.batches("refills"), epoch)
        self._tune(
            np.concatenate([filled, *(batch.column("number") for batch in inputs.batches("unset"))]), wanted, emit
        )
        self._changed = union_of(self._changed, np.concatenate([changed, filled]))
        self._send(emit)
        self._log.drop(self._late.first(self._log.first(self._input.now, self._input.stop)))

    def _apply(self, queries: QueryBatch) -> None:
        registers = queries.op == OP_REGISTER
        new = queries.take(np.flatnonzero(registers))
        if len(new):
            self._table.insert(new)
            self._lists.begin(new.number)
        self._table.set_end(queries.target[~registers], queries.end[~registers])

    def _enter(self, hits: list[RankedBatch]) -> None:
        """Enter hits of messages whose time is complete into buffers that are there."""
        whole = RankedBatch.concat([RankedBatch.empty(), *hits])
        numbers, seq, score = _together(self._later, (whole.number[whole.row], whole.seq, whole.value))
        complete = seq < self._input.stop
        self._later = numbers[~complete], seq[~complete], score[~complete]
        numbers, seq, score = numbers[complete], seq[complete], score[complete]
        open_ones = self._table.holds(numbers) & ~np.isin(numbers, self._lists.fresh)
        open_ones &= ~np.isin(numbers, self._lists.final.number)
        numbers, seq, score = numbers[open_ones], seq[open_ones], score[open_ones]
        if len(numbers):
            self._changed = union_of(self._changed, self._lists.enter(self._table.slots(numbers), seq, score))

    # --- searches ----------------------------------------------------------------------------------------------------

    def _ask(self, wanted: Wanted, epoch: Epoch, emit: Emitter) -> None:
        if not len(wanted.numbers):
            return
        assert not epoch.final, "the input ends only when everything that was asked for has been answered"
        numbers, when = self._awaited
        rest = ~np.isin(numbers, wanted.numbers)
        due = np.full(len(wanted.numbers), epoch.number + self._context.epoch_feedback)
        self._awaited = np.append(numbers[rest], wanted.numbers), np.append(when[rest], due)
        self._context.count("searches", len(wanted.numbers))
        first = np.where(wanted.living, AS_OF_NOW, wanted.first)
        stop = np.where(wanted.living, AS_OF_NOW, wanted.stop)
        limits = (wanted.least, wanted.most, wanted.bound, wanted.ratio, first, stop)
        emit.batch(self._table.queries(wanted.numbers), "requests")
        emit.batch(TupleBatch(LIMIT_FIELDS, limits), "limits")

    def _refill(self, found: list[RankedBatch], epoch: Epoch) -> Ints:
        """Take answers; return whose. One for a subscription that has ended since, and was asked for again, is too old."""
        numbers, when = self._awaited
        now = numbers[when == epoch.number]
        self._awaited = numbers[when != epoch.number], when[when != epoch.number]
        parts = [
            batch.take(np.flatnonzero(np.isin(batch.number, now) & self._table.holds(batch.number))) for batch in found
        ]
        filled, answers, later = partial_answers(parts)
        if len(filled):
            self._lists.refill(filled, answers)
        # Evaluators may have sent some of it too: an entry that is there already is passed over.
        self._later = _together(self._later, later)
        return filled

    def _tune(self, numbers: Ints, wanted: Wanted, emit: Emitter) -> None:
        """Send thresholds: those that have changed, those that were asked for, and none for what is being searched for."""
        slots = self._buffers.retuned()
        numbers = union_of(np.concatenate([numbers, wanted.numbers]), self._table.numbers_of(slots))
        numbers = numbers[self._table.holds(numbers)]
        numbers = numbers[~np.isin(numbers, self._lists.fresh) & ~np.isin(numbers, self._lists.final.number)]
        theta = self._buffers.theta[self._table.slots(numbers)]
        theta[np.isin(numbers, self._lists.asked)] = -np.inf
        if len(numbers):
            emit.batch(TupleBatch(THRESHOLD_FIELDS, (numbers, theta)), "thresholds")

    # --- lists -------------------------------------------------------------------------------------------------------

    def _send(self, emit: Emitter) -> None:
        """Send lists that have changed and are sure; forget subscriptions that have ended when that was said."""
        assert self._input.now is not None
        changed = self._changed[self._table.holds(self._changed)]
        waits = np.isin(changed, self._lists.asked) | np.isin(changed, self._lists.fresh)
        ready, self._changed = changed[~waits], changed[waits]
        lists = self._lists.results(ready)
        lists = replace(lists, ts=np.full(len(lists), self._time(), np.int64))
        new = self._said.exchange(lists.number, fingerprints(lists))
        if new.any():
            emit.batch(lists.take(np.flatnonzero(new)), "results")
        waits = np.isin(self._over, self._lists.asked)
        over, self._over = self._over[~waits], self._over[waits]
        if len(over):
            self._said.remove(over)
            self._lists.close(over)
            self._table.remove(over)

    def _time(self) -> int:
        """Return the time that lists are of: the last record's, or, where time alone changes them, all that is complete."""
        by_time = self._context.window is not None and self._context.window.ms is not None
        time = self._input.now if by_time or self._input.last is None else self._input.last
        assert time is not None
        return time

    # --- state -------------------------------------------------------------------------------------------------------

    def snapshot(self) -> State:
        """Return subscriptions, lists, and what is under way."""
        return {
            "queries": saved_columns(self._table.queries(self._table.numbers())),
            "lists": self._lists.snapshot(),
            "log": self._log.snapshot(),
            "input": self._input.snapshot(),
            "said": self._said.snapshot(),
            "late": self._late.snapshot(),
            "later": list(self._later),
            "awaited": list(self._awaited),
            "changed": self._changed,
            "over": self._over,
        }

    def restore(self, state: State) -> None:
        """Take over a snapshot."""
        self._table.insert(_queries(state))
        self._log.restore(state["log"])
        self._lists.restore(state["lists"])
        self._input.restore(state["input"])
        self._said.restore(state["said"])
        self._late.restore(state["late"])
        self._later, self._awaited = tuple(state["later"]), tuple(state["awaited"])
        self._changed, self._over = state["changed"], state["over"]
        if len(self._lists.asked):
            self._context.count("moment_restored_in_mid_refill", 1)

    @classmethod
    def redistribute(cls, states: Sequence[State], division: Division) -> list[State]:
        """Give each task the subscriptions that its grouping will send it."""
        if len(states) == division.tasks:
            return list(states)
        queries = QueryBatch.concat([QueryBatch.empty(), *(_queries(state) for state in states)])
        lists = united_lists([state["lists"] for state in states])
        said = Fingerprints()
        for state in states:
            said.exchange(state["said"]["numbers"], state["said"]["prints"])
        later, awaited = (
            [np.concatenate(parts) for parts in zip(*(state[name] for state in states), strict=True)]
            for name in ("later", "awaited")
        )
        changed, over = (np.concatenate([state[name] for state in states]) for name in ("changed", "over"))
        input_ = united_input([state["input"] for state in states])

        def divided(task: int) -> State:
            def mine(numbers: Ints) -> NDArray[np.bool_]:
                places = places_by_hash([numbers], division.tasks)
                return np.asarray(places == task)

            return {
                **states[0],  # all have seen all objects
                "input": input_,
                "queries": saved_columns(queries.take(np.flatnonzero(mine(queries.number)))),
                "lists": part_of_lists(lists, mine),
                "said": said.snapshot(),
                "later": [column[mine(later[0])] for column in later],
                "awaited": [column[mine(awaited[0])] for column in awaited],
                "changed": np.sort(changed[mine(changed)]),
                "over": np.sort(over[mine(over)]),
            }

        return [divided(task) for task in range(division.tasks)]


def _together(some: Pairs, others: Pairs) -> Pairs:
    numbers, seq, score = (np.concatenate(pair) for pair in zip(some, others, strict=True))
    return numbers, seq, score


def _queries(state: State) -> QueryBatch:
    return registrations({name: np.asarray(state["queries"][name]) for name in SAVED_COLUMNS})


def _named(objects: ObjectBatch) -> ObjectBatch:
    """Return objects without their keywords: who they are is all that a list says of them."""
    return replace(objects, kw_off=np.zeros(len(objects) + 1, np.int32), kw=_NONE)
