"""Draw a city of couriers who move and change what they offer, and of kitchens that want the best of them nearby.

    python examples/make_couriers.py COURIERS.jsonl.gz KITCHENS.jsonl.gz ZONES.jsonl.gz CUSTOMERS.jsonl.gz

A city of 12 by 12 kilometres with streets every 200 metres. A courier rides to one place after the other; on arrival it may
change what it carries, end its shift, or come back from a break. Zones are fences: they want to know who rides in and out.
Customers want the nearest. The shipped `data/couriers.jsonl.gz`, `data/kitchens.jsonl.gz`, `data/zones.jsonl.gz` and
`data/customers.jsonl.gz` were made by this script.
"""

import gzip
import json
import random
import sys
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

SIDE, STREET = 12.0, 0.2
COURIERS, KITCHENS, ZONES, CUSTOMERS, ROUNDS = 240, 300, 200, 300, 40
ROUND_MS = 15_000
VEHICLES = ["bicycle", "scooter", "cargo-bike", "van"]
OFFERS = ["hot", "cold", "frozen", "pizza", "sushi", "soup", "cake", "drinks", "flowers", "parcel", "express", "night"]
CENTRES = [(6.0, 6.0), (3.0, 8.4), (9.2, 3.4)]


def street(value: float) -> float:
    """Return the nearest street, inside of the city."""
    return round(min(max(round(value / STREET) * STREET, 0.0), SIDE), 3)


def somewhere(rng: random.Random) -> tuple[float, float]:
    """Draw a corner, more often near one of the centres."""
    if rng.random() < 0.25:
        return street(rng.uniform(0, SIDE)), street(rng.uniform(0, SIDE))
    x, y = rng.choice(CENTRES)
    return street(rng.gauss(x, 1.3)), street(rng.gauss(y, 1.3))


@dataclass
class Courier:
    """Who rides from corner to corner."""

    name: str
    rng: random.Random
    present: bool = False
    place: tuple[float, float] = (0.0, 0.0)
    goal: tuple[float, float] = (0.0, 0.0)
    keywords: list[str] = field(default_factory=list)

    def act(self, ts: int) -> dict[str, Any] | None:
        """Do one thing; return what is reported of it."""
        rng = self.rng
        if not self.present:
            if rng.random() < 0.7:
                return None
            self.present, self.place, self.goal = True, somewhere(rng), somewhere(rng)
            self.keywords = self._offer()
        elif self.place == self.goal:
            self.goal = somewhere(rng)
            if rng.random() < 0.15:
                self.present = False
                return {"id": self.name, "ts": ts, "op": "delete"}
            if rng.random() < 0.5:
                self.keywords = self._offer()
        else:
            self.place = self._step()
        x, y = self.place
        return {"id": self.name, "ts": ts, "x": x, "y": y, "keywords": self.keywords}

    def _offer(self) -> list[str]:
        return [self.rng.choice(VEHICLES), *self.rng.sample(OFFERS, self.rng.choice([1, 2, 2, 3, 4]))]

    def _step(self) -> tuple[float, float]:
        """Ride up to 600 metres along one street."""
        x, y = self.place
        gap_x, gap_y = self.goal[0] - x, self.goal[1] - y
        if gap_x and (not gap_y or self.rng.random() < 0.5):
            return street(x + max(-0.6, min(0.6, gap_x))), y
        return x, street(y + max(-0.6, min(0.6, gap_y)))


def couriers(rng: random.Random) -> list[dict[str, Any]]:
    """Return what all of them report, in time order."""
    riders = [Courier(f"courier-{n}", random.Random(rng.random())) for n in range(COURIERS)]
    lines = []
    for turn in range(ROUNDS):
        rng.shuffle(riders)
        for place, rider in enumerate(riders):
            if rng.random() < 0.8 and (line := rider.act(turn * ROUND_MS + place * ROUND_MS // COURIERS)) is not None:
                lines.append(line)
    return lines


def kitchens(rng: random.Random) -> list[dict[str, Any]]:
    """Return standing questions: most from the start, some later, some for a while only."""
    lines = []
    for n in range(KITCHENS):
        x, y = somewhere(rng)
        line: dict[str, Any] = {
            "op": "register",
            "id": f"kitchen-{n}",
            "ts": 0 if rng.random() < 0.8 else rng.randrange(ROUNDS * ROUND_MS),
            "type": "topk",
            "at": [x, y],
            "k": rng.choice([1, 3, 3, 5, 10]),
            "keywords": rng.sample(OFFERS, rng.choice([1, 2, 2, 3])) + ([rng.choice(VEHICLES)] if n % 3 == 0 else []),
            "alpha": round(rng.uniform(0.2, 0.95), 2),
        }
        if rng.random() < 0.2:
            line["ttl"] = rng.randrange(ROUND_MS, ROUNDS * ROUND_MS)
        lines.append(line)
    return sorted(lines, key=lambda line: int(line["ts"]))


def zones(rng: random.Random) -> list[dict[str, Any]]:
    """Return fences: for everybody or for some loads, from the start or later, for good, for a while, or until replaced."""
    lines: list[dict[str, Any]] = []
    for n in range(ZONES):
        x, y = somewhere(rng)
        reach = round(rng.uniform(0.3, 1.5), 2)
        line: dict[str, Any] = {
            "op": "register",
            "id": f"zone-{n}",
            "ts": 0 if rng.random() < 0.7 else rng.randrange(ROUNDS * ROUND_MS),
            "type": "range",
            "region": {"circle": [x, y, reach]} if n % 2 else {"rect": [x - reach, y - reach, x + reach, y + reach]},
            "keywords": rng.sample(OFFERS, rng.choice([0, 0, 1, 2])),
            "match": rng.choice(["any", "any", "all"]),
        }
        if rng.random() < 0.6:
            line["detect"] = rng.choice([["enter"], ["exit"], ["enter", "exit", "inside"]])
        if rng.random() < 0.2:
            line["ttl"] = rng.randrange(ROUND_MS, ROUNDS * ROUND_MS)
        elif rng.random() < 0.2:
            moved = rng.randrange(line["ts"] + 1, ROUNDS * ROUND_MS + 1)
            lines += [{"op": "unregister", "id": line["id"], "ts": moved}]
            lines += [{**line, "ts": moved, "region": {"circle": [y, x, reach]}}]
        lines.append(line)
    return sorted(lines, key=lambda line: (int(line["ts"]), line["op"] == "register"))


def customers(rng: random.Random) -> list[dict[str, Any]]:
    """Return standing questions for the nearest couriers: of all, of those with any or all of some loads, or without some."""
    lines = []
    for n in range(CUSTOMERS):
        x, y = somewhere(rng)
        line: dict[str, Any] = {
            "op": "register",
            "id": f"customer-{n}",
            "ts": 0 if rng.random() < 0.6 else rng.randrange(ROUNDS * ROUND_MS),
            "type": "knn",
            "at": [x, y],
            "k": rng.choice([1, 1, 3, 5]),
        }
        if n % 3:
            line |= {"keywords": rng.sample(OFFERS, rng.choice([1, 2])), "match": rng.choice(["any", "all"])}
        if n % 4 == 0:
            line["none"] = [rng.choice(VEHICLES)]
        if rng.random() < 0.3:
            line["ttl"] = rng.randrange(ROUND_MS, ROUNDS * ROUND_MS)
        lines.append(line)
    return sorted(lines, key=lambda line: int(line["ts"]))


def main(outputs: list[str]) -> None:
    """Write all files."""
    drawn = (
        couriers(random.Random(1)),
        kitchens(random.Random(2)),
        zones(random.Random(3)),
        customers(random.Random(4)),
    )
    for path, lines in zip(outputs, drawn, strict=True):
        text = "".join(f"{json.dumps(line, separators=(',', ':'))}\n" for line in lines)
        Path(path).write_bytes(gzip.compress(text.encode(), mtime=0))


if __name__ == "__main__":
    main(sys.argv[1:])
