"""The evaluator of top-k subscriptions over a sliding window that has all of the window: Skype."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any, ClassVar

from operators.evaluation.evaluator import Evaluator
from operators.evaluation.passing_time import PassingTime
from operators.evaluation.topk_core import TopkCore
from operators.indexes.topk.buffer_rules import BUFFER_RULES, make_buffers
from operators.indexes.topk.disseminations import DISSEMINATIONS
from operators.indexes.topk.message_indexes import MESSAGE_INDEXES, make_message_index
from operators.indexes.topk.subscriptions import ScoredSubscriptions
from operators.indexes.topk.window_log import WindowLog
from operators.operator import TaskContext
from streams.batches import RankedBatch, batch_fields
from streams.errors import DeclarationError, did_you_mean

__all__ = ["TopkEvaluator"]


@dataclass
class TopkEvaluator(Evaluator):
    """Answers topk queries: the k best messages of the sliding window by distance and text.

    Each task keeps the whole window, so all of them must see all objects: any plan will do that gives a subscription one
    home and sends objects everywhere (hash, location, or none with a broadcast-router). Under a balancer it must do so
    whatever moves (hash): a task that has given all its places away would see no objects.

    Options:
        index: how the subscriptions that a message enters are found; one of `DISSEMINATIONS`.
        buffers: what is kept of each subscription besides its result; one of `BUFFER_RULES`.
        messages: how the window is searched when a buffer has run dry; one of `MESSAGE_INDEXES`.
        transfer_queries: as for every evaluator.
    """

    answers: ClassVar = frozenset({"continuous topk"})
    answers_on: ClassVar = "rankings"
    outputs: ClassVar = {"rankings": batch_fields(RankedBatch), **Evaluator.exchanged}
    core_class: ClassVar = TopkCore

    index: str = "balls"
    buffers: str = "rank"
    messages: str = "keyword-grids"

    def __post_init__(self) -> None:
        super().__post_init__()
        for option, known in (("index", DISSEMINATIONS), ("buffers", BUFFER_RULES), ("messages", MESSAGE_INDEXES)):
            name = getattr(self, option)
            if name not in known:
                raise DeclarationError(
                    f"{option} = '{name}'{did_you_mean(name, known)}, expected one of: {', '.join(known)}", (option,)
                )

    def check(self, settings: Any, component: Any) -> Iterator[tuple[str, str]]:
        """Yield what keeps it from answering."""
        yield from super().check(settings, component)
        if settings.window is None:
            yield (
                "operator",
                "topk queries are over a sliding window; set topology.window.objects or topology.window.ms",
            )

    def open(self, context: TaskContext) -> None:
        """Start without queries."""
        super().open(context)
        self._time = PassingTime(between_records=context.window is not None and context.window.ms is not None)

    def make_core(self, context: TaskContext) -> TopkCore:
        """Return an empty core."""
        plan, window = context.plan, context.window
        assert window is not None, "checked with the declaration"
        if plan is not None and plan.workers > 1 and not (plan.single_home and not plan.reads_words):
            raise DeclarationError(
                f"'{context.component}' keeps the whole window in each task, but a plan of the kind '{plan.kind}' sends it "
                "some of the objects only; use the partitioner hash or location, or the operators of conf/dskype.toml"
            )
        if plan is not None and "replies" in context.targets and not hasattr(plan, "with_moved"):
            raise DeclarationError(
                f"'{context.component}' keeps the whole window in each task, but under a plan of the kind '{plan.kind}' a task "
                "whose places have all moved away is sent no objects; use the partitioner hash, or leave the balancer out"
            )
        words = context.word_statistics
        table = ScoredSubscriptions(self.index, context.space, context.metric, words)
        index = make_message_index(self.messages, context.space, context.metric)
        return TopkCore(table, make_buffers(self.buffers), index, WindowLog(window), words)
