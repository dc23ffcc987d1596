"""Results as messages: an id for each that is the same whenever it is found, and what was published already."""

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from operators.connectors.messages import Alert
from operators.operator import Epoch
from operators.sinks.names import KEPT_EPOCHS
from streams.batches import DETECTS, CrossingBatch, HitBatch, RankedBatch
from streams.files.result_files import result_lines

__all__ = ["AlertMaker", "Republished"]

#: In characters.
LONGEST_ID = 200


class AlertMaker:
    """Makes alerts of results.

    An id is JSON: ``[query, ts]`` for a list, ``[query, ts, object]`` for a match, and what was detected for an event. Where an
    input has the same object twice at one time, or an event occurs twice, the second has a number besides. So of a time that is
    not complete it remembers what there was. An id that is long, or not ASCII, is replaced by its hash: servers take ids in
    headers.
    """

    def __init__(self) -> None:
        self._seqs: dict[tuple[int, str], list[int]] = {}
        self._events: dict[tuple[str, int, str, int], int] = {}

    def alerts(self, batch: Any, named: Any) -> list[Alert]:
        """Return the results of a batch, given by number and as users see them, as alerts."""
        bodies = result_lines(named).split(b"\n")[:-1]
        queries, times = named.query.json_texts(), named.ts.tolist()
        if isinstance(batch, RankedBatch):
            lists = zip(queries, times, bodies, (~batch.instant).tolist(), strict=True)
            return [Alert(_id(f"[{query},{ts}]"), query, ts, body, standing) for query, ts, body, standing in lists]
        objects = named.object.json_texts()
        if isinstance(batch, CrossingBatch):
            ends = self._event_ends(queries, times, objects, batch.detect.tolist())
        else:
            assert isinstance(batch, HitBatch)
            ends = self._match_ends(times, objects, np.repeat(batch.seq, np.diff(batch.off)).tolist())
        rows = zip(queries, times, objects, ends, bodies, strict=True)
        return [Alert(_id(f"[{query},{ts},{name}{end}]"), query, ts, body) for query, ts, name, end, body in rows]

    def _match_ends(self, times: Sequence[int], objects: Sequence[str], seqs: Sequence[int]) -> list[str]:
        keys = list(zip(times, objects, strict=True))
        for key, seq in zip(keys, seqs, strict=True):
            known = self._seqs.setdefault(key, [])
            if seq not in known:
                known.append(seq)
                known.sort()
        places = (self._seqs[key].index(seq) for key, seq in zip(keys, seqs, strict=True))
        return [f",{place}" if place else "" for place in places]

    def _event_ends(
        self, queries: Sequence[str], times: Sequence[int], objects: Sequence[str], detects: Sequence[int]
    ) -> list[str]:
        ends = []
        for key in zip(queries, times, objects, detects, strict=True):
            place = self._events[key] = self._events.get(key, -1) + 1
            ends.append(f',"{DETECTS[key[3]]}"' + (f",{place}" if place else ""))
        return ends

    def complete(self, watermark: int | None) -> None:
        """Forget the times that are complete."""
        if watermark is not None:
            self._seqs = {key: seqs for key, seqs in self._seqs.items() if key[0] >= watermark}
            self._events = {key: count for key, count in self._events.items() if key[1] >= watermark}

    def snapshot(self) -> dict[str, Any]:
        """Return what is remembered, as plain values."""
        return {
            "seqs": [[*key, seqs] for key, seqs in self._seqs.items()],
            "events": [[*key, count] for key, count in self._events.items()],
        }

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over a snapshot."""
        self._seqs = {(ts, name): list(seqs) for ts, name, seqs in state["seqs"]}
        self._events = {tuple(key): count for *key, count in state["events"]}


def _id(text: str) -> str:
    if len(text) <= LONGEST_ID and text.isascii():
        return text
    return hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).hexdigest()


class Republished:
    """What is published behind the checkpoint that the run goes on from, and comes again.

    Alerts are known by their ids. Of a standing list not the same states come again, because epochs may be cut in other places
    the second time; those up to the time of the last one that is published are old, whatever they say, and so is a later one
    that says the same as that one.
    """

    def __init__(self) -> None:
        self._ids: dict[str, int] = {}
        self._lists: dict[str, tuple[int, str]] = {}
        self._newest = 0
        self._passed_at: int | None = None

    def __len__(self) -> int:
        return len(self._ids)

    def add(self, published: Iterable[tuple[str, bytes]]) -> None:
        """Take what a server has; what is no alert, because others publish there too, counts for nothing."""
        for name, body in published:
            try:
                line = json.loads(body)
                query, ts = json.dumps(line["query"], ensure_ascii=False), int(line["ts"])
            except (ValueError, KeyError, TypeError, RecursionError):
                continue
            self._ids[name] = ts
            self._newest = max(self._newest, ts)
            if "object" not in line and ts >= self._lists.get(query, (ts, ""))[0]:
                self._lists[query] = ts, _said(line)

    def without(self, alerts: Sequence[Alert]) -> list[Alert]:
        """Return the alerts that are not published."""
        if not self._ids:
            return list(alerts)
        return [alert for alert in alerts if self._is_new(alert)]

    def _is_new(self, alert: Alert) -> bool:
        if not alert.standing:
            return self._ids.pop(alert.id, None) is None
        if alert.query not in self._lists:
            return True
        last, said = self._lists[alert.query]
        if alert.ts <= last or (now := _said(json.loads(alert.body))) == said:
            return False
        self._lists[alert.query] = alert.ts, now
        return True

    def complete(self, epoch: Epoch) -> None:
        """Forget everything once its times were complete for so many epochs that nothing of them comes any more."""
        if not self._ids or epoch.watermark is None or epoch.watermark <= self._newest:
            return
        if self._passed_at is None:
            self._passed_at = epoch.number
        elif epoch.number - self._passed_at > KEPT_EPOCHS:
            self._ids, self._lists, self._passed_at = {}, {}, None

    def snapshot(self) -> dict[str, Any]:
        """Return what is left of it, as plain values."""
        return {"ids": dict(self._ids), "lists": [[query, *last] for query, last in self._lists.items()]}

    def restore(self, state: Mapping[str, Any]) -> None:
        """Take over a snapshot."""
        self._ids = dict(state["ids"])
        self._lists = {query: (ts, said) for query, ts, said in state["lists"]}
        self._newest, self._passed_at = max(self._ids.values(), default=0), None


def _said(line: Mapping[str, Any]) -> str:
    """Return what a list says, whenever it does, in a few characters."""
    listed = json.dumps([line.get("objects"), line.get("terms")])
    return hashlib.blake2b(listed.encode(), digest_size=8).hexdigest()
