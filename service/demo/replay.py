"""Shipped records as an endless stream: what is sent in an interval of time, with the hotspots that are on then.

All records are spread over one lap, which begins anew when it has ended; each is sent several times, at places nearby, so that
there is something to see. What is sent depends on the interval, the seed and the hotspots alone.
"""

import csv
import gzip
import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from service.view.controls import Hotspot
from streams.batches import ObjectBatch
from streams.columns import Ids
from streams.geometry import Rect
from streams.injection import Injection, inject_objects
from streams.vocabulary import Encoder

__all__ = ["Replay", "hotspot_injections", "hotspot_queries", "standing_queries"]

#: How far, in degrees, the places of one record are from each other.
SPREAD = 0.35

Floats = NDArray[np.float64]
Query = dict[str, Any]


@dataclass(frozen=True, slots=True, eq=False)
class Replay:
    """Records in the order of their place in a lap (0 to 1), and how they are sent.

    Attributes:
        lap_ms: how long a lap takes.
        space: where objects may be.
    """

    place: Floats
    x: Floats
    y: Floats
    text: Sequence[str]
    lap_ms: int
    space: Rect

    @classmethod
    def of_files(cls, paths: Iterable[Path], lap_ms: int, echoes: int, space: Rect, seed: int = 7) -> "Replay":
        """Read files with the columns ts, lon, lat and text, as far as they are in the space; the time of each is a lap."""
        rows = [row for path in paths for row in _spread_over_a_lap(path) if _inside(space, row[1], row[2])]
        place, x, y = (np.repeat([row[k] for row in rows], echoes) for k in range(3))
        random = np.random.default_rng(seed)
        late = random.uniform(0.0, 0.01, len(place))
        apart = random.normal(0.0, SPREAD, (2, len(place)))
        place = (place + late) % 1.0
        order = np.argsort(place, kind="stable")
        words = [row[3] for row in rows]
        return cls(
            place[order],
            np.clip(x + apart[0], space.min_x, space.max_x)[order],
            np.clip(y + apart[1], space.min_y, space.max_y)[order],
            [words[number // echoes] for number in order.tolist()],
            lap_ms,
            space,
        )

    def between(self, begin_ms: int, end_ms: int, injections: Sequence[Injection] = ()) -> bytes:
        """Return what is sent from one time on until another, as lines of an objects file without times."""
        batch, record = self._batch(begin_ms, end_ms)
        if injections:
            mine = np.ones(len(batch), np.bool_)
            batch, _ = inject_objects(batch, record, mine, injections, self.space, Encoder())
        columns = (batch.ids.to_list(), batch.x.tolist(), batch.y.tolist(), batch.kw.tolist())
        lines = [
            json.dumps({"id": name, "lon": round(x, 5), "lat": round(y, 5), "text": self.text[row]})
            for name, x, y, row in zip(*columns, strict=True)
        ]
        return "".join(f"{line}\n" for line in lines).encode()

    def _batch(self, begin_ms: int, end_ms: int) -> tuple[ObjectBatch, NDArray[np.int64]]:
        """Return the objects of an interval; the one keyword of each is its row here, so that copies keep their text."""
        rows, laps = [], []
        for lap in range(begin_ms // self.lap_ms, (end_ms - 1) // self.lap_ms + 1):
            first, last = ((ms - lap * self.lap_ms) / self.lap_ms for ms in (begin_ms, end_ms))
            some = np.arange(*np.searchsorted(self.place, [first, last]).tolist())
            rows.append(some)
            laps.append(np.full(len(some), lap))
        row, lap_of = np.concatenate(rows), np.concatenate(laps)
        record = lap_of * len(self.place) + row
        batch = ObjectBatch(
            seq=record,
            ts=np.asarray((lap_of + self.place[row]) * self.lap_ms, np.int64),
            x=self.x[row],
            y=self.y[row],
            op=np.zeros(len(row), np.uint8),
            kw_off=np.arange(len(row) + 1, dtype=np.int32),
            kw=row.astype(np.int64),
            ids=Ids("text", pa.array([f"r{number}" for number in record.tolist()], pa.string())),
        )
        return batch, record


def _spread_over_a_lap(path: Path) -> list[tuple[float, float, float, str]]:
    with gzip.open(path, "rt", encoding="utf-8", newline="") as file:
        rows = [
            (_seconds(row["ts"]), float(row["lon"]), float(row["lat"]), row["text"]) for row in csv.DictReader(file)
        ]
    first, last = rows[0][0], rows[-1][0]
    return [((at - first) / max(last - first, 1e-9), x, y, text) for at, x, y, text in rows]


def _seconds(text: str) -> float:
    when = datetime.fromisoformat(text)
    return (when if when.tzinfo else when.replace(tzinfo=UTC)).timestamp()


#: A crowd is denser in its middle: parts of its radius that have a share of it each.
CROWD = (1.0, 0.66, 0.33)


def hotspot_injections(hotspot: Hotspot, now_ms: int, number: int) -> list[Injection]:
    """Return what a hotspot does to objects from now on; nothing where it is about queries."""
    times: dict[str, Any] = {"start": now_ms, "duration": max(round(hotspot.seconds * 1000), 1), "seed": number}
    if hotspot.kind == "objects":
        # Each injection copies what those before it have added, too: together they make as many as one would.
        share = (1.0 + hotspot.strength) ** (1 / len(CROWD)) - 1.0
        return [Injection("objects", strength=share, region=_around(hotspot, part), **times) for part in CROWD]
    if hotspot.kind == "condense":
        return [Injection("condense", strength=1.0 - hotspot.strength, at=(hotspot.x, hotspot.y), **times)]
    if hotspot.kind == "rate":
        return [Injection("rate", strength=hotspot.strength, **times)]
    return []


def _around(hotspot: Hotspot, part: float) -> Rect:
    wide = hotspot.radius * part
    high = wide * max(math.cos(math.radians(hotspot.y)), 0.1)
    return Rect(hotspot.x - wide, hotspot.y - high, hotspot.x + wide, hotspot.y + high)


def standing_queries(path: Path, space: Rect, seed: int = 7) -> list[tuple[str, Query]]:
    """Return questions by identifier: those of a query file that want all of several words, each at two places nearby.

    They have no times: they stand for as long as the demo. Questions that want less are told of nearly everything.
    """
    random = np.random.default_rng(seed)
    found = []
    with gzip.open(path, "rt", encoding="utf-8") as file:
        for line in file:
            query = json.loads(line)
            if query["op"] != "register" or query.get("match") != "all" or len(query["keywords"]) < 2:
                continue
            body = {key: value for key, value in query.items() if key not in ("op", "id", "ts", "ttl")}
            x, y = _middle(body["region"])
            if _inside(space, x, y):
                found.append((f"{query['id']}", body))
                near_x, near_y = random.normal((x, y), 1.0).tolist()
                region = _moved(body["region"], near_x, near_y, space)
                found.append((f"{query['id']}-near", {**body, "region": region}))
    return found


def _inside(space: Rect, x: float, y: float) -> bool:
    return space.min_x <= x <= space.max_x and space.min_y <= y <= space.max_y


def _middle(region: Mapping[str, Any]) -> tuple[float, float]:
    if "circle" in region:
        return region["circle"][0], region["circle"][1]
    a, b, c, d = region["rect"]
    return (a + c) / 2, (b + d) / 2


def hotspot_queries(
    hotspot: Hotspot, patterns: Sequence[tuple[str, Query]], number: int, space: Rect
) -> Iterator[tuple[str, Query]]:
    """Yield the questions of a hotspot: each as one of those that stand, at a place around it, until the hotspot ends."""
    random = np.random.default_rng(number)
    for one in range(int(hotspot.strength)):
        body = patterns[int(random.integers(len(patterns)))][1]
        far, way = hotspot.radius * math.sqrt(random.random()), random.uniform(0.0, 2 * math.pi)
        region = _moved(body["region"], hotspot.x + far * math.cos(way), hotspot.y + far * math.sin(way), space)
        yield f"hotspot-{number}-{one}", {**body, "region": region, "ttl": round(hotspot.seconds * 1000)}


def _moved(region: Mapping[str, Any], x: float, y: float, space: Rect) -> dict[str, Any]:
    """Return a region of the same size around another place, within the space."""
    x, y = min(max(x, space.min_x), space.max_x), min(max(y, space.min_y), space.max_y)
    if "circle" in region:
        return {"circle": [x, y, region["circle"][2]]}
    a, b, c, d = region["rect"]
    wide, high = (c - a) / 2, (d - b) / 2
    box = (
        max(x - wide, space.min_x),
        max(y - high, space.min_y),
        min(x + wide, space.max_x),
        min(y + high, space.max_y),
    )
    return {"rect": list(box)}
