"""The message bolt of DSkype (Section 7.2): a part of the sliding window, searched for subscriptions that run dry."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import numpy as np

from operators.indexes.topk.message_indexes import MESSAGE_INDEXES, make_message_index
from operators.indexes.topk.topk_index import messages_of
from operators.indexes.topk.window_log import WindowLog
from operators.needs import Need
from operators.operator import Bolt, Emitter, Epoch, Inputs, State, TaskContext
from operators.redistribution import Division
from operators.refilling.complete_input import CompleteInput, LateRequests, in_order
from operators.refilling.requests import all_between, asked, found
from streams.batches import ObjectBatch, QueryBatch, RankedBatch, TupleBatch, batch_fields
from streams.errors import DeclarationError, did_you_mean

__all__ = ["MessageStore"]


@dataclass
class MessageStore(Bolt):
    """Keeps the messages of the window whose `seq` is its own, modulo the number of stores, and answers requests.

    Requests are answered as of the end of their epoch, with all messages up to the last one whose time is complete. What had
    come behind it before that epoch has met the threshold of then at the evaluators, so all of it is sent along, for later.
    Some requests ask for the window as it was when a subscription ended, so messages stay for as long as such a request may be
    on its way.

    Options:
        index: what the messages are searched with; one of `operators.indexes.topk.message_indexes.MESSAGE_INDEXES`.
    """

    outputs: ClassVar = {"refills": batch_fields(RankedBatch)}
    addressed: ClassVar = frozenset()
    reads: ClassVar = {
        "objects": Need(
            ("all",), "a store would not know how far the window is", routed=False, feedback=False, required=True
        ),
        "requests": Need(("all",), "some stores would not be asked", feedback=True, required=True),
        "limits": Need(("all",), "some stores would not know what is asked for", feedback=True, required=True),
    }

    index: str = "keyword-grids"

    def __post_init__(self) -> None:
        if self.index not in MESSAGE_INDEXES:
            listed = ", ".join(MESSAGE_INDEXES)
            raise DeclarationError(
                f"index = '{self.index}'{did_you_mean(self.index, MESSAGE_INDEXES)}, expected one of: {listed}",
                ("index",),
            )

    def open(self, context: TaskContext) -> None:
        """Start with an empty window."""
        if context.window is None:
            raise DeclarationError(
                "a message store needs a sliding window; set topology.window.objects or topology.window.ms"
            )
        self._context = context
        self._words = context.word_statistics
        self._input = CompleteInput()
        self._clear()
        self._late = LateRequests(context.epoch_feedback)

    def _clear(self) -> None:
        context = self._context
        assert context.window is not None
        self._log = WindowLog(context.window, f"messages-{context.index}-of-{context.parallelism}")
        self._index = make_message_index(self.index, context.space, context.metric)

    def execute_epoch(self, epoch: Epoch, inputs: Inputs, emit: Emitter) -> None:
        """Take new messages in, answer, and forget what nobody can ask for any more."""
        objects = in_order(inputs.batches("objects"))
        come = self._input.come
        self._input.advance(epoch, objects)
        self._take(objects)
        if self._input.now is None:
            return
        first = self._log.first(self._input.now, self._input.stop)
        for queries, limit in zip(inputs.batches("requests"), inputs.batches("limits"), strict=True):
            self._answer(queries, limit, first, come, emit)
        kept = self._late.first(first)
        self._log.drop(kept)
        self._index.drop(kept)

    def _take(self, objects: ObjectBatch) -> None:
        mine = objects.seq % self._context.parallelism == self._context.index
        self._index.add(messages_of(self._log.append(objects.take(np.flatnonzero(mine))), self._words))

    def _answer(self, queries: QueryBatch, limit: TupleBatch, first: int, come: int, emit: Emitter) -> None:
        assert self._input.now is not None
        requests = asked(queries, limit, first, self._input.stop, self._words)
        answers, later = self._index.search(requests), None
        if come > self._input.stop:
            later = self._index.search(all_between(requests, self._input.stop, come))
            self._context.count("moment_searched_behind_what_is_complete", 1)
        self._context.count("cost", answers.examined + (0 if later is None else later.examined))
        self._context.count("requests", len(queries))
        emit.batch(found(queries.number, answers, later, self._input.now), "refills")

    # --- state -------------------------------------------------------------------------------------------------------

    def snapshot(self) -> State:
        """Return the messages."""
        return {"log": self._log.snapshot(), "input": self._input.snapshot(), "late": self._late.snapshot()}

    def restore(self, state: State) -> None:
        """Take over a snapshot."""
        self._log.restore(state["log"])
        self._input.restore(state["input"])
        self._late.restore(state["late"])
        for part in self._log.messages():
            self._index.add(messages_of(part, self._words))

    @classmethod
    def redistribute(cls, states: Sequence[State], division: Division) -> list[State]:
        """Divide the messages anew."""
        if len(states) == division.tasks:
            return list(states)
        parts = [part for state in states for part in [*(p.value for p in state["log"]["full"]), state["log"]["tail"]]]
        whole = in_order(parts)
        divided: list[Any] = []
        for task in range(division.tasks):
            mine = whole.take(np.flatnonzero(whole.seq % division.tasks == task))
            divided.append({**states[0], "log": {**states[0]["log"], "full": [], "tail": mine}})
        return divided
