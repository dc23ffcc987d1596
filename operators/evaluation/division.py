"""What evaluators hold, put together and divided again: for a run that goes on with another number of them."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from operators.evaluation.instants import Instants
from operators.redistribution import Division
from partitioners.columns import Csr
from streams.batches import FOREVER, TYPE_TERMS, QueryBatch, RankedBatch
from streams.columns import Ints, csr_take

__all__ = ["divided_states", "final_lists", "live_queries", "standing"]

State = dict[str, Any]


def live_queries(core: Any, states: Sequence[State]) -> QueryBatch:
    """Return the queries of all evaluators, each once.

    A query that several hold ends when the first of them says so: another copy may be older than an unregistration.
    """
    whole = QueryBatch.concat([QueryBatch.empty(), *(core.saved_queries(state["core"]) for state in states)])
    order = np.lexsort((whole.end, whole.number))
    numbers = whole.number[order]
    first = np.ones(len(order), np.bool_)
    first[1:] = numbers[1:] != numbers[:-1]
    return whole.take(order[first])


def _live_results(core: Any, states: Sequence[State]) -> RankedBatch:
    """Return what is known of the answers: by those who speak for a query, then what is on its way from who did."""
    parts, under_way = [RankedBatch.empty()], []
    for state in states:
        results: RankedBatch = core.saved_results(state["core"])
        if state["moving"] is not None:
            moved = state["moving"]["handover"]
            results = results.take(np.flatnonzero(~np.isin(results.number, moved["left"])))
            under_way.append(moved["given"].take(np.flatnonzero(~moved["given"].instant & (moved["given"].k > 0))))
        parts.append(results)
    return RankedBatch.concat([*parts, *under_way])


def final_lists(over: QueryBatch, results: RankedBatch) -> RankedBatch:
    """Return the last list of each query that has ended, where lists cannot be united: the first that is known.

    Who speaks for a query has seen more than who gave it away. A query of which nothing is known ended on its way to
    somebody: its last list was sent by who gave it.
    """
    known = results.take(np.flatnonzero(np.isin(results.number, over.number)))
    _, first = np.unique(known.number, return_index=True)
    known = known.take(first)
    silent = over.take(np.flatnonzero(~np.isin(over.number, known.number)))
    return RankedBatch.concat([known, RankedBatch.without_items(silent.number, silent.k, kind=silent.type)])


def _overdue(states: Sequence[State], watermark: int | None) -> tuple[Ints, Ints]:
    """Return (number, instant) of what could not be answered yet: held back by an evaluator, or on its way to another."""
    numbers, instants = [np.empty(0, np.int64)], [np.empty(0, np.int64)]
    for state in states:
        noted = state["answers"]["instants"]
        late = noted["at"] < (watermark if watermark is not None else -FOREVER)
        numbers.append(noted["number"][late])
        instants.append(noted["at"][late])
        if state["moving"] is not None:
            given: RankedBatch = state["moving"]["handover"]["given"]
            numbers.append(given.number[given.instant])
            instants.append(given.ts[given.instant])
    number, instant = np.concatenate(numbers), np.concatenate(instants)
    order = np.lexsort((instant, number))
    _, first = np.unique(number[order], return_index=True)
    return number[order][first], instant[order][first]


def divided_states(core: Any, states: Sequence[State], division: Division) -> list[State]:
    """Return the states of evaluators that hold what the new routes say; work is counted afresh."""
    assert division.queries is not None
    assert division.routes is not None
    queries, (off, workers) = division.queries, division.routes
    results = _live_results(core, states) if core.remembers else RankedBatch.empty()
    home = _homes(queries.number, division.routes, results.number)
    several = np.flatnonzero(np.diff(off) > 1)
    lists = [state["answers"] for state in states if state["answers"] is not None]
    last_ts = max((one["last_ts"] for one in lists if one["last_ts"] is not None), default=None)
    watermark = states[0]["watermark"]
    keeps = hasattr(core, "with_objects")
    was_moving = any(state["moving"] is not None and state["moving"]["handover"]["round"] for state in states)
    divided = []
    for worker in range(division.tasks):
        rows = division.rows_of(worker)
        if keeps:  # objects stay together as they were, and whoever has some answers from them
            rows = np.union1d(rows, np.flatnonzero(queries.at_instants))
        held = queries.take(rows)
        known = results.take(np.flatnonzero(home == worker))
        met_off, met_workers = csr_take(off, workers, met := np.intersect1d(rows, several))
        instants = Instants()
        instants.add(held, watermark)
        if lists:
            number, instant = _overdue(states, watermark)
            mine = np.isin(number, held.number)
            instants.catch_up(held.take(np.searchsorted(held.number, number[mine])), instant[mine])
        changed = np.intersect1d(known.number, standing(held))
        answers = {
            "instants": instants.snapshot(), "changed": changed, "last_ts": last_ts, "whole": changed, "since": None
        }  # fmt: skip
        divided.append(
            {
                "core": _with_objects(core, worker, states, division, core.divided(states[0]["core"], held, known)),
                "answers": answers if lists else None,
                "examined": 0,
                "watermark": watermark,
                "times": np.concatenate([state["times"] for state in states]),
                "ended": np.empty(0, np.int64),
                "meetings": {"numbers": queries.number[met], "off": met_off, "workers": met_workers},
                "next_meetings": None,
                "moving": None,
                "divided_in_mid_round": was_moving,
            }
        )
    return divided


def _with_objects(core: Any, worker: int, states: Sequence[State], division: Division, divided: Any) -> Any:
    """Give an evaluator the objects that some of those before kept, where objects are kept."""
    if not hasattr(core, "with_objects"):
        return divided
    return core.with_objects(divided, [state["core"] for state in states[worker :: division.tasks]])


def standing(queries: QueryBatch) -> Ints:
    """Return the numbers of queries whose list is sent whenever it changes; others are answered at instants."""
    numbers: Ints = queries.number[queries.continuous & (queries.type != TYPE_TERMS)]
    return numbers


def _homes(numbers: Ints, routes: Csr, wanted: Ints) -> Ints:
    """Return for each wanted query the first worker that holds it, or -1 where it has ended."""
    off, workers = routes
    home = np.full(len(numbers) + 1, -1, np.int64)
    filled = np.flatnonzero(np.diff(off))
    home[filled] = workers[off[filled]]
    place = np.searchsorted(numbers, wanted)
    known = np.append(numbers, -1)[place] == wanted
    return np.where(known, home[place], -1)
