"""Plain dynamic objects and queries for their k best, drawn from one seed, with everything recomputed at every step."""

import numpy as np
from knn_model import matches
from topk_model import Drawn, PlainSubscriptions

from streams.batches import OP_DELETE, OP_UPSERT, ObjectBatch
from streams.columns import Ids
from streams.geometry import distance


def objects_batch(records):
    """Return records (dicts of seq, ts, op, id, and x, y, keywords of an upsert) as a batch."""
    sets = [sorted(record["keywords"]) if record["op"] == OP_UPSERT else [] for record in records]
    return ObjectBatch(
        seq=np.array([record["seq"] for record in records], np.int64),
        ts=np.array([record["ts"] for record in records], np.int64),
        x=np.array([record.get("x", 0.0) for record in records], np.float64),
        y=np.array([record.get("y", 0.0) for record in records], np.float64),
        op=np.array([record["op"] for record in records], np.uint8),
        kw_off=np.cumsum([0, *map(len, sets)]).astype(np.int32),
        kw=np.array([word for one in sets for word in one], np.int64),
        ids=Ids.of([record["id"] for record in records]),
    )


class PlainObjects:
    """The current state of every object, by identifier."""

    def __init__(self):
        self.states = {}  # id -> its last record, with `first_seen`

    def apply(self, records):
        for record in records:
            if record["op"] == OP_DELETE:
                self.states.pop(record["id"], None)
            else:
                before = self.states.get(record["id"])
                first = record["seq"] if before is None else before["first_seen"]
                self.states[record["id"]] = record | {"first_seen": first}


class PlainBest(PlainSubscriptions):
    """Every query against every object: `topk` queries by score, those with `match_any` by distance."""

    def __init__(self, space, metric, words):
        super().__init__(space, metric, words)
        self.objects = PlainObjects()
        self.scored = {}

    def best(self, number):
        """Return the (id, score) of the k best, or the (id, distance) of the k nearest, best first."""
        q = self.rows[number]
        if "match_any" in q:
            near = sorted(
                (-self._value(number, name, state), state["first_seen"], name)
                for name, state in self.objects.states.items()
                if matches(q, state)
            )
            return [(name, value) for value, _, name in near[: q["k"]]]
        ranked = sorted(
            (-self._value(number, name, state), state["first_seen"], name)
            for name, state in self.objects.states.items()
            if state["keywords"] & q["keywords"]
        )
        return [(name, -value) for value, _, name in ranked[: q["k"]]]

    def far(self, q, state):
        return float(distance(np.array([state["x"]]), np.array([state["y"]]), q["x"], q["y"], self.metric)[0])

    def _value(self, number, name, state):
        """Score a state for a query, once."""
        seq, value = self.scored.get((number, name), (-1, 0.0))
        if seq != state["seq"]:
            q = self.rows[number]
            value = self.score(q, state) if "match_any" not in q else -self.far(q, state)
            self.scored[number, name] = state["seq"], value
        return value


class DrawnChanges(Drawn):
    """Records of objects that move a little or leap, keep or change their keywords, vanish and come again."""

    def __init__(self, rng, space, names=12):
        super().__init__(rng, space)
        self.names = [n if n % 3 else f"o{n}" for n in range(names)]
        self.seq = 0

    def record(self, states):
        rng = self.rng
        name = rng.choice(self.names)
        self.seq += rng.randrange(1, 3)
        if rng.random() < 0.15:
            return {"op": OP_DELETE, "id": name, "seq": self.seq, "ts": self.now}
        before = states.get(name)
        place = self.place() if before is None or rng.random() < 0.7 else (before["x"], before["y"])
        keywords = before["keywords"] if before is not None and rng.random() < 0.5 else self.keywords(0)
        if rng.random() < 0.05:
            keywords = frozenset()
        return {"op": OP_UPSERT, "id": name, "seq": self.seq, "ts": self.now, "x": place[0], "y": place[1],
                "keywords": keywords}  # fmt: skip
