"""Queries and their results on their way from one evaluator to another while a plan replaces another (Tornado, section 4.4).

*Prepare*: each evaluator looks through what it holds, a bounded number of queries in an epoch, and compares their routes under
both plans. It copies what the new plan wants elsewhere, in pieces, and goes on answering; a taker files the copies, asleep.
Registrations of this time reach the workers of both plans, so only what was held before has to be looked through. *Switch*: in
one epoch takers wake and givers fall silent. A giver has seen everything before that epoch, a taker everything since; so
results are sent in this epoch, and nobody speaks for the query until they have come. What has moved away is dropped afterwards,
in pieces.
"""

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from operators.evaluation.core import Core, ListCore
from operators.evaluation.lingering import Lingering
from operators.evaluation.moves import Moves, moves_of
from partitioners.columns import Csr, Floats, Workers
from streams.batches import QueryBatch, RankedBatch
from streams.columns import Ints, csr_take, distinct, without

__all__ = ["BOUND_FIELDS", "Handover", "moving_problems"]

#: What an object must come up to for a query that was given, so that the taker need not start with everything.
BOUND_FIELDS = ("number", "bound")

#: For each query that may be given in an epoch, so many of those held are looked through: together they cost about as much.
LOOKED_THROUGH = 3

_NONE: Ints = np.empty(0, np.int64)
_NOBODY: Workers = np.empty(0, np.int32)


@dataclass(slots=True)
class _Round:
    """What one evaluator knows of the round under way.

    Attributes:
        unseen: queries that were held when it began and were not looked through yet.
        give: queries to be copied, by taker.
        early, unsettled: what wakes at the switch, and what has no speaker from there on until results have come.
        leaving, adopter: what falls silent at the switch, and who gets its results.
        lingering: what no plan wants here from the switch on, and stays for the objects that are kept here.
        ends: unregistrations; their queries may be on the way to here.
        sent: how many queries were given to each taker.
        told: the balancer knows that nothing is left to give.
    """

    unseen: Ints = field(default_factory=lambda: _NONE)
    give: deque[tuple[int, Ints]] = field(default_factory=deque)
    early: list[Ints] = field(default_factory=list)
    unsettled: list[Ints] = field(default_factory=list)
    leaving: list[Ints] = field(default_factory=list)
    adopter: list[Workers] = field(default_factory=list)
    lingering: list[Ints] = field(default_factory=list)
    ends: list[tuple[Ints, Ints]] = field(default_factory=list)
    sent: dict[int, int] = field(default_factory=dict)
    told: bool = False


class Handover:
    """What one evaluator gives, takes and drops.

    Attributes:
        given: results, with what belongs to them, that may not have arrived yet: with another parallelism they are divided
            from here.
        left: queries that have moved away and are still held.
        lingering: queries that no plan wants here, for the objects that are kept here.

    Args:
        worker: the evaluator.
        piece: how many queries at most are given, or dropped, in an epoch.
        keeps: objects are kept, so queries that are answered at instants are answered by everybody who may have objects of
            them: they take part as soon as they have come, and linger where they were.
    """

    def __init__(self, worker: int, piece: int, *, keeps: bool = False) -> None:
        self._worker, self._piece, self._keeps = worker, piece, keeps
        self._round: _Round | None = None
        #: For each switch that is not settled: the epoch in which results arrive, and what waits for them.
        self._waiting: list[tuple[int, Ints]] = []
        self._replaced: tuple[Ints, Workers] = (_NONE, _NOBODY)
        self.given: RankedBatch = RankedBatch.empty()
        self.left: Ints = _NONE
        self.lingering = Lingering()

    @property
    def moving(self) -> bool:
        """Whether a plan is being replaced."""
        return self._round is not None

    # --- prepare -----------------------------------------------------------------------------------------------------

    def begin(self, core: Core, where: Floats | None = None, among: Ints | None = None) -> None:
        """Begin to look through what is held, before anything of this epoch is registered.

        Queries that touch no box of `where`, or are not `among` some, stay where they are.
        """
        everybody = core.numbers if where is None else partial(core.touching, where)
        held = everybody() if among is None else among[core.holds(among)]
        self._round = _Round(unseen=np.setdiff1d(held, self.left, assume_unique=True))

    def register(self, queries: QueryBatch, old: Csr, new: Csr, core: Core) -> NDArray[np.bool_]:
        """Note registrations while both plans hold for queries; return which of them take part already.

        Those that only the new plan wants here sleep until it is in force.
        """
        moves = self._note(queries, old, new)
        early = queries.number[moves.early]
        core.hush(early)
        self._under_way.early.append(early)
        return ~moves.early

    def register_for_kept(self, queries: QueryBatch, routes: Csr) -> None:
        """Note registrations, with their workers by plans that objects still follow: others hold them for older objects."""
        off, worker = routes
        row = np.repeat(np.arange(len(queries)), np.diff(off))
        elsewhere = np.setdiff1d(np.arange(len(queries)), row[worker == self._worker])
        self.lingering.add(queries.take(elsewhere), queries.ts[elsewhere])

    def unseen(self, core: Core) -> QueryBatch | None:
        """Return the next of what was held when the round began, for `look`; None when all has been looked at."""
        if self._round is None or not len(self._round.unseen):
            return None
        numbers, self._round.unseen = np.split(self._round.unseen, [LOOKED_THROUGH * self._piece])
        return core.queries(numbers)

    def look(self, queries: QueryBatch, old: Csr, new: Csr) -> None:
        """Find out what is to be given; snapshots, too, for their time may span many epochs."""
        moves = self._note(queries, old, new)
        for taker in distinct(moves.give_to).tolist():
            given = queries.number[moves.give_row[moves.give_to == taker]]
            self._under_way.give.append((taker, given))

    @property
    def _under_way(self) -> _Round:
        assert self._round is not None, "no plan is being replaced"
        return self._round

    def _note(self, queries: QueryBatch, old: Csr, new: Csr) -> Moves:
        """Note what becomes of queries at the switch."""
        moves = moves_of(old, new, self._worker)
        if self._keeps:
            stays = queries.at_instants
            self._under_way.lingering.append(queries.number[moves.leaves & stays])
            moves = replace(
                moves, early=moves.early & ~stays, leaves=moves.leaves & ~stays, unsettled=moves.unsettled & ~stays
            )
        if moves.leaves.any():
            self._under_way.leaving.append(queries.number[moves.leaves])
            self._under_way.adopter.append(moves.adopter[moves.leaves])
        if moves.unsettled.any():
            self._under_way.unsettled.append(queries.number[moves.unsettled])
        return moves

    def next_piece(self, core: Core) -> list[tuple[int, QueryBatch]]:
        """Return the next queries to give, with their takers."""
        pieces: list[tuple[int, QueryBatch]] = []
        room = self._piece
        while self._round is not None and self._round.give and room > 0:
            taker, numbers = self._round.give.popleft()
            if len(numbers) > room:
                self._round.give.appendleft((taker, numbers[room:]))
                numbers = numbers[:room]
            batch = core.queries(numbers)
            room -= len(batch)
            self._round.sent[taker] = self._round.sent.get(taker, 0) + len(batch)
            if len(batch):
                pieces.append((taker, batch))
        return pieces

    def all_sent(self) -> list[tuple[int, int]] | None:
        """Return (taker, queries) pairs in the epoch in which the last query was given, else None."""
        here = self._round
        if here is None or here.told or len(here.unseen) or here.give:
            return None
        here.told = True
        return sorted(here.sent.items())

    def concerns(self, numbers: Ints) -> bool:
        """Tell whether one of these queries is about to change hands."""
        here = self._round
        return here is not None and any(np.isin(numbers, part).any() for part in (*here.early, *here.leaving))

    @property
    def leaving(self) -> Ints:
        """What falls silent at the switch."""
        return np.concatenate([_NONE, *self._under_way.leaving])

    def note_ends(self, numbers: Ints, ends: Ints) -> None:
        """Remember unregistrations while queries may be on their way to here."""
        if self._round is not None:
            self._round.ends.append((numbers, ends))

    def arrive(self, queries: QueryBatch, old: Csr, new: Csr, core: Core) -> tuple[QueryBatch, QueryBatch]:
        """File copies that others gave, asleep; return what was still here from an earlier stay, which goes.

        Also return those that take part at once, as queries do that are answered from kept objects; one that is here for these
        already stays as it is.
        """
        if self._keeps:
            here = queries.at_instants & core.holds(queries.number) & ~np.isin(queries.number, self.left)
            self.lingering.remove(queries.number)
            come = np.flatnonzero(~here)
            queries, old, new = queries.take(come), csr_take(*old, come), csr_take(*new, come)
        asleep = ~queries.at_instants if self._keeps else np.ones(len(queries), np.bool_)
        stale = core.queries(queries.number[core.holds(queries.number)])
        if len(stale):
            core.remove(stale.number)
            self.left = np.setdiff1d(self.left, stale.number, assume_unique=True)
        core.insert(queries)
        core.hush(queries.number[asleep])
        for numbers, ends in self._under_way.ends:
            late = np.isin(numbers, queries.number)
            core.set_end(numbers[late], ends[late])
        self._note(queries, old, new)
        self._under_way.early.append(queries.number[asleep])
        return stale, core.queries(queries.number[~asleep])

    # --- switch ------------------------------------------------------------------------------------------------------

    def switch(
        self,
        core: Core,
        lists: ListCore | None,
        epoch: int,
        lag: int,
        ended: Ints = _NONE,
        watermark: int | None = None,
    ) -> tuple[Ints, list[tuple[int, RankedBatch]]]:
        """Put the new plan in force; return what wakes here, and results to be sent, with their adopters.

        Queries that have `ended` on their way sleep on: others may have results for them still. Objects that came before are
        not younger than the watermark.
        """
        here = self._under_way
        early = np.concatenate([_NONE, *here.early])
        leaving, adopter = np.concatenate([_NONE, *here.leaving]), np.concatenate([_NOBODY, *here.adopter])
        held = core.holds(leaving)
        leaving, adopter = leaving[held], adopter[held]
        early = without(early, ended)
        if lists is not None:
            early = distinct(early[core.holds(early)])
        core.wake(early)
        core.hush(leaving)
        self.left = distinct(np.concatenate([self.left, leaving]))
        sent: list[tuple[int, RankedBatch]] = []
        if lists is not None:
            takers = np.unique(adopter[adopter >= 0]).tolist()
            sent += [(taker, lists.results(leaving[adopter == taker])) for taker in takers]
            unsettled = distinct(np.concatenate([_NONE, *here.unsettled]))
            # Some of the switch before may wait still, where time has not moved since.
            waiting = [(due, without(numbers, leaving)) for due, numbers in self._waiting]
            self._waiting = [*waiting, (epoch + lag, unsettled[core.holds(unsettled)])]
        if len(staying := np.concatenate([_NONE, *here.lingering])):
            self.lingering.add(core.queries(staying[core.holds(staying)]), watermark or 0)
        self._round = None
        return early, sent

    def sends(self, results: list[tuple[int, RankedBatch]]) -> None:
        """Note what is on its way to adopters since the switch, as it was sent."""
        self.given = RankedBatch.concat([RankedBatch.empty(), *(batch for _, batch in results)])

    @property
    def withheld(self) -> Ints:
        """The queries that nobody here may speak for: they sleep, or results of others are on their way."""
        sleeping = [] if self._round is None else self._round.early
        return np.concatenate([_NONE, *sleeping, *(numbers for _, numbers in self._waiting)])

    def settle(self, epoch: int | None) -> Ints:
        """Return what may be spoken for again, because results have come by this epoch.

        Without an epoch the input has ended: no results are under way any more.
        """
        come = [entry for entry in self._waiting if epoch is None or entry[0] <= epoch]
        self._waiting = self._waiting[len(come) :]
        speaking = np.concatenate([_NONE, *(numbers for _, numbers in come)])
        return distinct(without(speaking, self.withheld))

    def arrived(self, epoch: int) -> None:
        """Note that results which were sent before have arrived by this epoch."""
        if len(self.given) and not any(due > epoch for due, _ in self._waiting):
            self.given = RankedBatch.empty()

    def replace(self, numbers: Ints, workers: Workers) -> None:
        """Note that results of these workers are part of what is here: their own lists are to be withdrawn."""
        other = workers != self._worker
        known, by = self._replaced
        self._replaced = np.concatenate([known, numbers[other]]), np.concatenate([by, workers[other]])

    def replaced(self, numbers: Ints) -> tuple[Ints, Workers]:
        """Return, and forget, whose lists what is here replaces, for some queries."""
        known, by = self._replaced
        if not len(known):  # as nearly always, and `numbers` are all lists that have changed
            return known, by
        now = np.isin(known, numbers)
        self._replaced = known[~now], by[~now]
        return known[now], by[now]

    # --- afterwards --------------------------------------------------------------------------------------------------

    def forget(self, numbers: Ints) -> None:
        """Forget queries that have ended."""
        self.replaced(numbers)
        self.lingering.remove(numbers)
        self.left = without(self.left, numbers)

    def leave(self, core: Core, watermark: int | None) -> Ints:
        """Let go what has lingered long enough; return its numbers."""
        over = self.lingering.over(watermark)
        over = over[core.holds(over)]
        core.hush(over)
        self.left = distinct(np.concatenate([self.left, over]))
        return over

    def next_drop(self) -> Ints:
        """Return the next queries that no plan wants here any more, which the caller removes."""
        numbers, self.left = self.left[: self._piece], self.left[self._piece :]
        return numbers

    # --- state -------------------------------------------------------------------------------------------------------

    def snapshot(self) -> dict[str, Any]:
        """Return what is under way."""
        here = self._round
        return {
            "round": None
            if here is None
            else {
                "unseen": here.unseen,
                "give": [list(pair) for pair in here.give],
                "early": list(here.early),
                "unsettled": list(here.unsettled),
                "leaving": list(here.leaving),
                "adopter": list(here.adopter),
                "lingering": list(here.lingering),
                "ends": [list(pair) for pair in here.ends],
                "sent": [list(pair) for pair in here.sent.items()],
                "told": here.told,
            },
            "waiting": [list(entry) for entry in self._waiting],
            "replaced": list(self._replaced),
            "given": self.given,
            "left": self.left,
            "lingering": self.lingering.snapshot(),
        }

    def restore(self, state: dict[str, Any]) -> None:
        """Take over a snapshot."""
        here = state["round"]
        self._round = None
        if here is not None:
            self._round = _Round(
                here["unseen"],
                deque((taker, numbers) for taker, numbers in here["give"]),
                list(here["early"]),
                list(here["unsettled"]),
                list(here["leaving"]),
                list(here["adopter"]),
                list(here["lingering"]),
                [(numbers, ends) for numbers, ends in here["ends"]],
                {taker: queries for taker, queries in here["sent"]},  # noqa: C416
                here["told"],
            )
        self._waiting = [(due, numbers) for due, numbers in state["waiting"]]
        self._replaced = state["replaced"][0], state["replaced"][1]
        self.given, self.left = state["given"], state["left"]
        self.lingering.restore(state["lingering"])


def moving_problems(component: Any, core: type[Any]) -> Iterator[tuple[str, str]]:
    """Yield what would keep the queries of an evaluator from moving, though it follows a balancer."""
    read = {item.stream for item in component.inputs}
    if "orders" not in read:
        return
    wanted = ["transfer"]
    if core.remembers:
        wanted.append("adoption")
        if not hasattr(core, "adopt"):
            yield (
                "operator",
                f"the results of its queries cannot move, because {core.__name__} has no method 'adopt'; give "
                "it one, or leave the balancer out",
            )
    for stream in wanted:
        if stream not in read:
            yield (
                "inputs",
                f"it follows a balancer, but does not read its own stream '{stream}'; add {{ component = "
                f"'{component.name}', stream = '{stream}', grouping = 'direct', feedback = true }}",
            )
