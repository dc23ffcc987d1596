"""Records that nobody writes on purpose: odd times, spaces, words and lives, but all of them allowed, and drawn from a seed."""

import math
from dataclasses import dataclass

from polygon_model import drawn_polygons

from streams.batches import DETECTS

#: Spaces in a plane, and on the globe: of all sizes, far from zero, and with poles and the antimeridian at their borders.
PLANES = (
    *[(0.0, 0.0, 1.0, 1.0)] * 3,
    (-1e9, -1e9, 1e9, 1e9),
    (1e6, 1e6, 1e6 + 1.0, 1e6 + 1.0),
    (0.0, 0.0, 1e-9, 1e-9),
    (0.0, 0.0, 1000.0, 0.001),
    (-3.0, -7.0, -1.0, 5.0),
    (-1e100, -1e100, 1e100, 1e100),
)
GLOBES = (
    *[(-180.0, -90.0, 180.0, 90.0)] * 3,
    (-10.0, 80.0, 10.0, 90.0),
    (170.0, -10.0, 180.0, 10.0),
    (-180.0, -90.0, 180.0, -80.0),
)

#: All words of an input, the most frequent first: few or many, and such as change their length in another case or form.
VOCABULARIES = (
    ("tea", "rice", "soup", "cake", "wine"),
    ("one",),
    tuple(f"w{n}" for n in range(60)),
    ("ä", "straße", "İstanbul", "東京", "ﬁre", "café", "😀", "Ω", "ŉ", "ǅ"),
    ("a1", "b1"),
)

#: How a coordinate between two others is drawn.
COORDINATES = {
    "grid": lambda rng, low, high: low + (high - low) * rng.randrange(5) / 4,
    "anywhere": lambda rng, low, high: rng.uniform(low, high),
    "middle": lambda rng, low, high: (low + high) / 2,
    "border": lambda rng, low, high: rng.choice([low, high, high, rng.uniform(low, high)]),
    "corner": lambda rng, low, high: rng.choice([low, high]),
}

#: How so many times are drawn, in any order.
TIMES = {
    "same": lambda rng, count: [0] * count,
    "few": lambda rng, count: rng.choices([rng.randrange(40) for _ in range(rng.choice([2, 3, 5]))], k=count),
    "dense": lambda rng, count: rng.choices(range(rng.choice([10, 40])), k=count),
    "sparse": lambda rng, count: rng.choices(range(10**6), k=count),
    "gaps": lambda rng, count: [rng.choice([0, 10**5, 10**8]) + rng.randrange(5) for _ in range(count)],
    "bursts": lambda rng, count: _bursts(rng, count),
    "mixed": lambda rng, count: [rng.choice([0, 3, 3, 3, 7, rng.randrange(60)]) for _ in range(count)],
}

#: The time of the first record, or nearly.
BEGINNINGS = (0, 0, 0, 1, 5, 10**12, -50)

#: The end of a query that has none.
NEVER = 10**18


def _bursts(rng, count):
    """One time for many records, across several epochs, then the next."""
    times, now = [], 0
    while len(times) < count:
        times += [now] * rng.choice([1, 1, 2, 10, 30])
        now += rng.choice([1, 1, 2, 5, 50])
    return times[:count]


@dataclass(frozen=True)
class Scene:
    """What all records of an input share: the space, the words, and how places lie."""

    space: tuple[float, float, float, float]
    globe: bool
    words: tuple[str, ...]
    weights: tuple[float, ...]
    most_words: int
    places: str

    @classmethod
    def drawn(cls, rng):
        """Draw one."""
        globe, words = rng.random() < 0.4, rng.choice(VOCABULARIES)
        skew = rng.choice([0, 1, 2])
        weights = tuple(1.0 / (rank + 1) ** skew for rank in range(len(words)))
        places = rng.choice(["grid", *COORDINATES])
        return cls(rng.choice(GLOBES if globe else PLANES), globe, words, weights, rng.choice([1, 3, 3, 5, 40]), places)

    def place(self, rng):
        """Draw a place, mostly in the manner of this input."""
        left, bottom, right, top = self.space
        draw = COORDINATES[self.places if rng.random() < 0.9 else "anywhere"]
        x, y = draw(rng, left, right), draw(rng, bottom, top)
        return min(max(x, left), right), min(max(y, bottom), top)

    def some_words(self, rng, least=0, most=None):
        """Draw different words."""
        most = min(most or self.most_words, len(self.words))
        count = rng.randint(least, max(least, most))
        pool = dict(zip(self.words, self.weights, strict=True))
        found = []
        for _ in range(count):
            found += rng.choices(list(pool), list(pool.values()))
            del pool[found[-1]]
        return found

    def radius(self, rng):
        """Draw the radius of a circle: of a point, of a part of the space, or of more than all of it."""
        if self.globe:
            return rng.choice([0.0, 1.0, 1000.0, 5e5, 5e6, 1.2e7, 2.1e7, rng.uniform(0.0, 2e7)])
        left, bottom, right, top = self.space
        share = rng.choice([0.0, 0.1, 0.25, 0.5, 1.0, 1e-12, rng.random()])
        return share * math.hypot(right - left, top - bottom)


def wild_times(rng, count):
    """Draw times in order."""
    first = rng.choice(BEGINNINGS)
    return sorted(first + time for time in TIMES[rng.choice(list(TIMES))](rng, count))


def wild_objects(rng, scene, times, *, names_again):
    """Objects of these times; in some inputs, if they may, they share a few identifiers."""
    few = [0, "0", 1, "1", 4, "Ω"] if names_again and rng.random() < 0.3 else None
    return [_object(rng.choice(few or [n, f"o{n}"]), ts, scene, scene.place(rng), scene.some_words(rng))
            for n, ts in enumerate(times)]  # fmt: skip


def wild_states(rng, scene, times):
    """Records of objects that move, change and are deleted, of a single one or of many."""
    names, deleted = rng.choice([1, 3, 14, 60]), rng.choice([0.0, 0.15, 0.4])
    lines, states = [], {}
    for ts in times:
        number = rng.randrange(names)
        name = number if number % 2 else f"o{number}"
        if rng.random() < deleted:  # also of nobody
            lines.append({"id": name, "ts": ts, "op": "delete"})
            continue
        place, words = states.get(name, (scene.place(rng), scene.some_words(rng)))
        place = scene.place(rng) if rng.random() < 0.6 else place
        words = scene.some_words(rng) if rng.random() < 0.5 else words
        states[name] = place, words
        lines.append(_object(name, ts, scene, place, words))
    return lines


def _object(name, ts, scene, place, words):
    axes = ("lon", "lat") if scene.globe else ("x", "y")
    return {"id": name, "ts": ts, **dict(zip(axes, place, strict=True)), "keywords": words}


def _rectangle(rng, scene):
    """Between two places, of a single one, or all of the space."""
    if rng.random() < 0.1:
        return {"rect": list(scene.space)}
    one = scene.place(rng)
    other = one if rng.random() < 0.2 else scene.place(rng)
    (left, right), (bottom, top) = map(sorted, zip(one, other, strict=True))
    return {"rect": [left, bottom, right, top]}


def _circle(rng, scene):
    return {"circle": [*scene.place(rng), scene.radius(rng)]}


def _allowed(scene, polygons):
    """Tell whether a geometry meets the space, and has no position that is refused."""
    left, bottom, right, top = scene.space
    x, y = zip(*(position for rings in polygons for position in rings[0]), strict=True)
    holes = [position for rings in polygons for hole in rings[1:] for position in hole]
    wide, high = (180.0, 90.0) if scene.globe else (1e100, 1e100)
    within = all(abs(px) <= wide and abs(py) <= high for px, py in [*zip(x, y, strict=True), *holes])
    return within and min(x) <= right and max(x) >= left and min(y) <= top and max(y) >= bottom


def _polygon(rng, scene):
    """A geometry of GeoJSON."""
    left, bottom, right, top = scene.space
    polygons = None
    while polygons is None or not _allowed(scene, polygons):
        wide, high = (right - left) * rng.choice([0.1, 0.5]), (top - bottom) * rng.choice([0.1, 0.5])
        polygons = drawn_polygons(rng, *scene.place(rng), min(wide, 40.0) if scene.globe else wide, high)
    if len(polygons) > 1:
        return {"type": "MultiPolygon", "coordinates": polygons}
    return {"type": "Polygon", "coordinates": polygons[0]}


REGIONS = (*[_rectangle] * 5, *[_circle] * 3, *[_polygon] * 2)


def _query_time(rng, times):
    """Draw a time of an operation: with an object, next to one, between them, before the first, or after the last."""
    first, last = (times[0], times[-1]) if times else (0, 10)
    some = rng.choice(times or [0])
    return rng.choice([first, first, some, some + 1, some - 1, rng.randint(first, last), last, last + 1,
                       last + rng.choice([5, 1000]), first - rng.choice([1, 100])])  # fmt: skip


def _registration(rng, scene, name, ts, kind, span, longest):
    """Draw a registration; a kind is a type of queries, ``fence``, or a type with `` snapshot`` behind it."""
    base, standing = kind.removesuffix(" snapshot"), not kind.endswith("snapshot")
    line = {"op": "register", "id": name, "ts": ts, "type": "range" if base == "fence" else base}
    if base == "topk":
        unknown = ["unknown"] if rng.random() < 0.1 else []
        line["keywords"] = scene.some_words(rng, 1, rng.choice([1, 3, 40])) + unknown
        line["alpha"] = rng.choice([0.0, 1.0, 0.5, 0.3, 1e-9, 1 - 1e-9, 1e-300, 1 - 2**-53, rng.random()])
    else:
        line["keywords"] = scene.some_words(rng, 0, rng.choice([1, 2, 2, 40]))
        line["match"] = rng.choice(["any", "all"])
        if rng.random() < 0.25:
            line["none"] = [word for word in scene.some_words(rng, 1, 2) if word not in line["keywords"]]
    if base in ("knn", "topk"):
        line["at"] = list(scene.place(rng))
    else:
        line["region"] = rng.choice(REGIONS)(rng, scene)
    if base in ("knn", "topk", "terms"):
        line["k"] = rng.choice([1, 1, 2, 3, 7, 40, 1000])
    if base == "fence":
        line["detect"] = rng.sample(DETECTS, rng.randint(1, 3))
    if base == "terms" or (not standing and (longest or rng.random() < 0.7)):
        window = rng.choice([1, 2, 5, 12, max(1, span // 3), span + 5])
        line["window"] = min(window, longest or window)
    if base == "terms" and standing:  # lines at not too many instants
        line["slide"] = max(rng.choice([1, 2, 3, 7, span // 5, span // 20, span + 1]), span // 40, 1)
    if not standing:
        line["continuous"] = False
    elif rng.random() < 0.4:
        line["ttl"] = rng.choice([1, 1, 2, 5, rng.randint(1, span + 1), 2**40])
    return line


def _end_of(line):
    """Return the time from which the identifier of a registration is free again."""
    standing = line.get("continuous", True)
    return line["ts"] + line.get("ttl", NEVER) if standing else line["ts"] + 1


def wild_queries(rng, scene, times, count, kinds, *, longest=None, names_again=True, snapshots_again=True):
    """Operations before, among and after objects of these times; identifiers come again, also at the moment they are free.

    Windows are at most `longest` where there is such a limit.
    """
    span = max(1, times[-1] - times[0]) if times else 1
    lines, live, used = [], {}, set()
    for ts in sorted(_query_time(rng, times) for _ in range(count)):
        live = {name: end for name, end in live.items() if end > ts}
        name, kind = f"q{rng.randrange(count)}", rng.choice(kinds)
        if live and rng.random() < 0.25:
            name = rng.choice(sorted(live))
            del live[name]
            lines.append({"op": "unregister", "id": name, "ts": ts})
            if rng.random() < 0.5:  # or it is replaced
                continue
        if not snapshots_again and kind.endswith("snapshot"):
            name = f"s{len(lines)}"
        if name in live or (name in used and not names_again):
            continue
        used.add(name)
        lines.append(_registration(rng, scene, name, ts, kind, span, longest))
        live[name] = _end_of(lines[-1])
    return lines
